package pack

import (
	"reflect"
	"testing"
)

// A skyline that follows another is the same as one that became it, whatever both have done since they were the same.
func TestFollow(t *testing.T) {
	for _, f := range all() {
		p, goal := wholeOf(f.make(1500, 3))
		c := newClimb(p, goal, content)
		a, b := c.base.twin(), c.base.twin()
		for at := 1; at <= 20; at++ {
			for k, s := range []*skyline{a, b} {
				s.route = known[(2*at+k)%len(known)]
				s.weigh()
				c.ascend(s, at, 20)
			}
			want := a.twin()
			if b.follow(a); !reflect.DeepEqual(state(b), state(want)) {
				t.Fatalf("%s: stage %d: what follows is another skyline", f.name, at)
			}
			for i := range p.lives { // offsets of lives that are still to be placed are anything
				if a.anywhere.least[i] == gone && b.offsets[i] != a.offsets[i] {
					t.Fatalf("%s: stage %d: life %d is at %d and at %d", f.name, at, i, b.offsets[i], a.offsets[i])
				}
			}
			a.changes.forget()
		}
		if a.placed < len(p.lives) {
			t.Errorf("%s: only %d of %d lives are placed", f.name, a.placed, len(p.lives))
		}
	}
}

// state is all of a skyline that says how it goes on.
func state(s *skyline) []any {
	return []any{s.placed, s.highest, s.open, s.left.largest, s.left.added, s.sure, s.firstEnd, s.lastHead, s.anywhere, s.end, s.before, s.height, s.turns}
}

// How high a section is sure to become is what is placed there and what is still to come, for as long as something is.
func TestSure(t *testing.T) {
	for _, f := range all() {
		p, goal := wholeOf(f.make(1500, 4))
		c := newClimb(p, goal, content)
		s := c.base.twin()
		s.route = known[0]
		for at := 1; at <= 20; at++ {
			s.weigh()
			c.ascend(s, at, 20)
			left := s.left.values(s.sections)
			for a := int32(0); a < s.sections; a = s.end[a] {
				for i := a; i < s.end[a]; i++ {
					if left[i] > 0 && s.sure[i] != s.height[a]+left[i] || left[i] == 0 && s.sure[i] > s.highest {
						t.Fatalf("%s: section %d, %d high with %d left, becomes %d", f.name, i, s.height[a], left[i], s.sure[i])
					}
				}
			}
		}
	}
}
