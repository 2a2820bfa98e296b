package recompute_test

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var twinPrograms = flag.Int("twins", 500, "programs that bounds by two places are held against the cheapest launches of")

// TestTwins: what two places say is no more than what the cheapest launches cost,
// and often more than either says.
func TestTwins(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	raised, packed, met := 0, 0, 0
	for n := range *twinPrograms {
		p := halfLittle(r, n, 2+r.IntN(9))
		s, limit := limited(t, r, p)
		for range 4 {
			first := int32(r.IntN(len(p.Cost) - 1))
			second := first + 1 + int32(r.IntN(len(p.Cost)-1-int(first)))
			if err := s.Mixes(first, second, limit); err != nil {
				t.Fatalf("program %d: %v", n, err)
			}
			byPrice, byMix, cut, least, ok := s.Twins(first, second, limit)
			if !ok {
				continue
			}
			if max(byPrice, byMix) > least*(1+1e-9)+1e-6 {
				t.Fatalf("program %d within %d at %d and %d: prices say %v, a knapsack %v, the cheapest launches cost %v", n, limit, first, second, byPrice, byMix, least)
			}
			if byPrice > cut+1e-6 {
				raised++
			}
			if byMix > byPrice+1e-6 {
				packed++
			}
			if byMix > 0 && byMix > least-1e-6 {
				met++
			}
		}
	}
	t.Logf("%d bounds of cuts are raised by prices, %d of those by knapsacks, %d meet the cost", raised, packed, met)
	if raised < *twinPrograms/50 || packed < *twinPrograms/20 || met < *twinPrograms/20 {
		t.Error("too few")
	}
}
