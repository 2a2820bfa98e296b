package recompute_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestBeside: what large values and others cost together is never more than the
// cheapest launches do, and on the way more than either.
func TestBeside(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 12))
	asked, bounds, met := 0, 0, 0
	for asked < 600 {
		p := random(r, 3+r.IntN(8))
		s := solver(t, p)
		floor := recompute.FloorOf(p).Peak
		base, _ := s.Solve(math.MaxInt64 / 4)
		limit := floor + (base.Peak-floor)*int64(r.IntN(100))/100
		beside, passes, least, ok := s.Beside(limit, int64(1+r.IntN(12)))
		if !ok || passes == 0 {
			continue
		}
		if asked++; beside > least*(1+1e-9)+1e-9 {
			t.Fatalf("within %d: a bound of %v, launches for %v", limit, beside, least)
		}
		if beside > 0 {
			bounds++
		}
		if beside > 0 && beside > least*(1-1e-9) {
			met++
		}
	}
	if t.Logf("%d of %d are bounds, %d are met", bounds, asked, met); met < asked/50 {
		t.Error("few bounds are met")
	}
}
