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
