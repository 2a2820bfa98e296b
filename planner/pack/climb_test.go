package pack

import (
	"slices"
	"testing"
)

// Each climb in stages takes the routes in other turns, or it would only come to the same again.
func TestClimbsDiffer(t *testing.T) {
	for _, f := range all() {
		if f.name != "exponential lives" && f.name != "chains" {
			continue
		}
		p := f.make(3000, 1)
		q, goal := wholeOf(p)
		c := newClimb(q, goal, content)
		var seen [][]int64
		for range 2*len(routes) + 1 {
			l := c.lanes[0]
			l.begin()
			l.ends = 0 // from the floor
			if !l.once(1<<62, never) {
				t.Fatalf("%s: gave up", f.name)
			}
			if slices.ContainsFunc(seen, func(o []int64) bool { return slices.Equal(o, l.trials[l.best].offsets) }) {
				t.Errorf("%s: climb %d came to the same as one before", f.name, len(seen)+1)
			}
			seen = append(seen, slices.Clone(l.trials[l.best].offsets))
		}
	}
}
