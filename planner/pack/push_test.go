package pack

import (
	"slices"
	"testing"
)

// A life goes in where two gaps are as large as it only together, one below and one above a life that can be pushed up.
func TestPushIn(t *testing.T) {
	p := &part{sections: 2, lives: []life{
		{l: 0, r: 1, size: 4, align: 1, fixed: free},
		{l: 0, r: 2, size: 1, align: 1, fixed: free},
		{l: 1, r: 2, size: 2, align: 1, fixed: free},
		{l: 1, r: 2, size: 4, align: 1, fixed: free},
	}}
	at := []int64{0, 4, 0, 7}
	if left, _ := p.pushIn(newMeetings(p), at, 7, pushing, never); len(left) > 0 || !slices.Equal(at, []int64{0, 6, 0, 2}) {
		t.Fatalf("%v are left, the others are at %v", left, at)
	}
	apartAt(t, p, at, 7)

	at = []int64{0, 4, 0, 6}
	if left, _ := p.pushIn(newMeetings(p), at, 6, pushing, never); !slices.Equal(left, []int32{3}) {
		t.Errorf("%v are left, but seven bytes do not go in six", left)
	}

	p.lives[1].fixed = 4
	at = []int64{0, 4, 0, 7}
	if left, _ := p.pushIn(newMeetings(p), at, 7, pushing, never); !slices.Equal(left, []int32{3}) || at[1] != 4 {
		t.Errorf("%v are left, and what is fixed is at %d", left, at[1])
	}
}

// What is put in keeps clear of all others, below the top and around what is fixed, and is most of what there was no room for.
func TestPushInMany(t *testing.T) {
	in, out := 0, 0
	for _, f := range all() {
		problem := f.make(3000, 4)
		lives, sections := livesOf(problem)
		p := &part{lives: lives, sections: sections}
		goal := max(mostLive(lives, sections), fixedEnd(problem))
		h := p.large(wait{0.01, 0.2}, goal)
		if len(h.in) == 0 {
			continue
		}
		s := newSkyline(h.part)
		s.route, s.top, s.ceiling = wholes[0], goal, goal+goal/room
		s.weigh()
		s.advance(none)
		top := max(s.highest, goal+goal/fair)
		at := p.put(h, s.offsets, top)
		before := 0
		for _, x := range at {
			if x == top {
				before++
			}
		}
		left, _ := p.pushIn(newMeetings(p), at, top, pushing, never)
		in, out = in+before-len(left), out+len(left)
		slices.Sort(left)
		q := &part{sections: sections}
		var where []int64
		for i, l := range lives {
			if _, is := slices.BinarySearch(left, int32(i)); !is {
				if l.fixed != free && at[i] != l.fixed {
					t.Errorf("%s: %v is at %d", f.name, l, at[i])
				}
				q.lives, where = append(q.lives, l), append(where, at[i])
			}
		}
		apartAt(t, q, where, top)
		p.onTop(at, left)
		apartAt(t, p, at, none)
	}
	t.Logf("%d lives found room, %d did not", in, out)
	if in < out {
		t.Errorf("only %d lives found room, and %d did not", in, out)
	}
}

// apartAt makes sure that lives at offsets keep apart and end at or below top.
func apartAt(t *testing.T, p *part, at []int64, top int64) {
	t.Helper()
	s := Solution{Offsets: at}
	var q Problem
	for i, l := range p.lives {
		q.Buffers = append(q.Buffers, Buffer{First: l.l, Last: l.r, Size: l.size, Align: l.align})
		s.Height = max(s.Height, at[i]+l.size)
	}
	if err := Check(q, s); err != nil {
		t.Error(err)
	}
	if s.Height > top {
		t.Errorf("%d high, above %d", s.Height, top)
	}
}
