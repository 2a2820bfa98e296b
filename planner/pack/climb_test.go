package pack

import (
	"slices"
	"testing"
)

// Each climb in stages tries other routes, or it would only come to the same again.
func TestClimbsDiffer(t *testing.T) {
	for _, f := range all() {
		if f.name != "exponential lives" && f.name != "chains" {
			continue
		}
		p := f.make(3000, 1)
		q, goal := wholeOf(p)
		c := newClimb(q, goal, content)
		var seen [][]int64
		for range 2*len(known) + 1 {
			c.staged.ends = 0 // from the floor
			none := c.base.twin()
			none.highest = 1 << 62
			s := c.another(none, 0, never)
			if s == none {
				t.Fatalf("%s: gave up", f.name)
			}
			if slices.ContainsFunc(seen, func(o []int64) bool { return slices.Equal(o, s.offsets) }) {
				t.Errorf("%s: climb %d came to the same as one before", f.name, len(seen)+1)
			}
			seen = append(seen, slices.Clone(s.offsets))
		}
	}
}
