package recompute_test

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var windowPrograms = flag.Int("windows", 500, "programs that bounds by windows are held against the cheapest launches of")

// TestWindows: what a window says is no more than what the cheapest launches cost, and
// often more than its places by themselves say.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	all, raised, met := 0, 0, 0
	for n := range *windowPrograms {
		p := halfLittle(r, n, 2+r.IntN(9))
		s, limit := limited(t, r, p)
		for range 8 {
			begin := int32(r.IntN(len(p.Cost) - 1))
			end := begin + int32(r.IntN(len(p.Cost)-1-int(begin)))
			second := end + 1 + int32(r.IntN(len(p.Cost)-1-int(end)))
			window, single, least, ok := s.Window(begin, end, second, limit)
			if !ok {
				continue
			}
			if window > least*(1+1e-9)+1e-6 {
				t.Fatalf("program %d within %d from %d to %d with %d: the window says %v, the cheapest launches cost %v", n, limit, begin, end, second, window, least)
			}
			all++
			if window > single+1e-6 {
				raised++
			}
			if window > 0 && window > least-1e-6 {
				met++
			}
		}
	}
	t.Logf("of %d bounds, %d are above those of places, %d meet the cost", all, raised, met)
	if raised < *windowPrograms/50 || met < *windowPrograms/20 {
		t.Error("too few")
	}
}
