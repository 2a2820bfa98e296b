package recompute_test

import (
	"math"
	"testing"

	"memopt/planner/recompute"
)

// TestSegments: the steps of a recurrent net run again stretch by stretch, and not
// each from the first one.
func TestSegments(t *testing.T) {
	p := readJoint(t, "lstm")
	total, forward := 0.0, 0.0
	for op, c := range p.Cost {
		if total += c; int32(op) < p.Border {
			forward += c
		}
	}
	s := solver(t, p)
	plain, _ := s.Solve(math.MaxInt64)
	for _, percent := range []int64{60, 50, 40, 30} {
		limit := plain.Peak * percent / 100
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
		if extra > forward {
			t.Errorf("%d %%: the plan costs %.2f of the forward pass", percent, extra/forward)
		}
	}
}
