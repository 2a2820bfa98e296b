package recompute_test

import "testing"

// TestLeading: of the steps of a recurrent net, the first are forgotten as a whole.
func TestLeading(t *testing.T) {
	p := readJoint(t, "lstm")
	s := solver(t, p)
	for _, x := range []struct {
		percent int64
		most    float64 // extra cost in percent
	}{{60, 3}, {55, 5.5}, {50, 9.5}, {45, 12}} {
		if extra, ok := extraWithin(t, s, p, x.percent); ok && 100*extra/costOf(p) > x.most {
			t.Errorf("%d %%: the plan costs %.2f %%, over %.2f %%", x.percent, 100*extra/costOf(p), x.most)
		}
	}
}

// TestLedBeside: what leads from the front is the same while a bound is raised.
func TestLedBeside(t *testing.T) {
	p := readJoint(t, "lstm")
	s := solver(t, p)
	base, _ := s.Solve(1 << 60)
	for _, percent := range []int64{60, 45} {
		plans, err := s.Led(base.Peak * percent / 100)
		if err != nil {
			t.Errorf("%d %%: %v", percent, err)
		}
		if plans == 0 {
			t.Errorf("%d %%: no plans", percent)
		}
	}
}
