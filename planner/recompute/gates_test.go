package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestGates: what is found from gate to gate is never more than the cheapest
// launches cost, and mostly what they do.
func TestGates(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	tried, met := 0, 0
	for n := range 1000 {
		p := random(r, 2+r.IntN(9))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		base, _ := s.Solve(1<<40, recompute.Ask{})
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(80))/100
		tails, gates, least, ok := s.Tails(limit)
		if !ok || gates == 0 || least == 0 {
			continue
		}
		if tails > least*(1+1e-9)+1e-6 {
			t.Fatalf("program %d within %d: %v from %d gates on, the cheapest launches cost %v", n, limit, tails, gates, least)
		}
		tried++
		if tails > least-1e-6 {
			met++
		}
	}
	if t.Logf("%d of %d bounds meet the cost", met, tried); tried < 200 || met < tried*9/10 {
		t.Errorf("only %d of %d bounds meet the cost", met, tried)
	}
}
