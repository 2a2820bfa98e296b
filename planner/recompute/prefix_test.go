package recompute_test

import (
	"math"
	"testing"

	"memopt/planner/recompute"
)

// TestPrefix: the steps of a recurrent net run again stretch by stretch, and not
// each from the first one.
func TestPrefix(t *testing.T) {
	p := readJoint(t, "lstm")
	forward := 0.0
	for _, c := range p.Cost[:p.Border] {
		forward += c
	}
	s := solver(t, p)
	for _, percent := range []int64{60, 50, 40, 30} {
		if extra, ok := extraWithin(t, s, p, percent); ok && extra > forward {
			t.Errorf("%d %%: the plan costs %.2f of the forward pass", percent, extra/forward)
		}
	}
}

// extraWithin is what a plan within so many percent of the plain peak costs, if there is
// one. The plan and its bound are checked.
func extraWithin(t *testing.T, s *recompute.Solver, p *recompute.Problem, percent int64) (extra float64, ok bool) {
	t.Helper()
	plain, _ := s.Solve(math.MaxInt64, recompute.Ask{})
	limit := plain.Peak * percent / 100
	a, ok := s.Solve(limit, recompute.Ask{})
	if !ok {
		t.Errorf("nothing within %d %%", percent)
		return 0, false
	}
	peak, extra, err := recompute.Check(p, a.Launches)
	if err != nil || peak > limit || a.Bound > extra*(1+1e-9) {
		t.Errorf("%d %%: %v; peak %d of %d, extra %v, bound %v", percent, err, peak, limit, extra, a.Bound)
	}
	total := costOf(p)
	t.Logf("%d %%: extra %.2f %%, bound %.2f %%", percent, 100*extra/total, 100*a.Bound/total)
	return extra, true
}

// costOf is what all operators cost.
func costOf(p *recompute.Problem) (total float64) {
	for _, c := range p.Cost {
		total += c
	}
	return total
}
