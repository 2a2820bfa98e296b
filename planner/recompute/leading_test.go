package recompute_test

import (
	"math"
	"testing"

	"memopt/planner/recompute"
)

// TestLeading: of the steps of a recurrent net, the first are forgotten as a whole.
func TestLeading(t *testing.T) {
	p := readJoint(t, "lstm")
	total := 0.0
	for _, c := range p.Cost {
		total += c
	}
	s := solver(t, p)
	plain, _ := s.Solve(math.MaxInt64)
	for _, x := range []struct {
		percent int64
		most    float64 // extra cost in percent
	}{{60, 3}, {55, 5.5}, {50, 9.5}, {45, 12}} {
		percent, limit := x.percent, plain.Peak*x.percent/100
		a, ok := s.Solve(limit)
		if !ok {
			t.Errorf("nothing within %d %%", percent)
			continue
		}
		peak, extra, err := recompute.Check(p, a.Launches)
		if err != nil || peak > limit || a.Bound > extra*(1+1e-9) {
			t.Errorf("%d %%: %v; peak %d of %d, extra %v, bound %v", percent, err, peak, limit, extra, a.Bound)
		}
		t.Logf("%d %%: extra %.2f %%, bound %.2f %%", percent, 100*extra/total, 100*a.Bound/total)
		if 100*extra/total > x.most {
			t.Errorf("%d %%: the plan costs %.2f %%, over %.2f %%", percent, 100*extra/total, x.most)
		}
	}
}
