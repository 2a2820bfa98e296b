package pack

import (
	"slices"
	"testing"
)

// Seven bytes have room only where three are, which go to the other side of the five between. No pushing brings them there.
func TestShoveIn(t *testing.T) {
	p := &part{sections: 2, lives: []life{
		{l: 0, r: 1, size: 3, align: 1, fixed: free},
		{l: 0, r: 1, size: 7, align: 1, fixed: free},
		{l: 0, r: 2, size: 5, align: 1, fixed: free},
		{l: 1, r: 2, size: 7, align: 1, fixed: free},
		{l: 1, r: 2, size: 3, align: 1, fixed: free},
	}}
	start := []int64{0, 15, 7, 0, 12}
	at := slices.Clone(start)
	who := newMeetings(p)
	if left, _ := p.pushIn(who, at, 15, pushing, never); !slices.Equal(left, []int32{1}) {
		t.Fatalf("pushing leaves %v", left)
	}
	if in, _ := p.shoveIn(who, at, 15, 15, never); !in {
		t.Fatal("there is room for all")
	}
	apartAt(t, p, at, 15)

	at = slices.Clone(start)
	if in, _ := p.shoveIn(who, at, 14, 15, never); in || !slices.Equal(at, start) {
		t.Errorf("15 bytes are in 14, at %v", at)
	}

	p.lives[0].fixed = 0
	at = slices.Clone(start)
	if in, _ := p.shoveIn(who, at, 15, 15, never); !in || at[0] != 0 {
		t.Errorf("there is room beside what is fixed, not %v", at)
	}
	apartAt(t, p, at, 15)

	p.lives[2].fixed = 7
	at = slices.Clone(start)
	if in, _ := p.shoveIn(who, at, 15, 15, never); in || !slices.Equal(at, start) {
		t.Errorf("there is no room beside what is fixed, at %v", at)
	}
}

// What is left of a packing when lives are removed is as low, and as high, as if they had never been in.
func TestRemove(t *testing.T) {
	for _, f := range all() {
		problem := f.make(1200, 6)
		lives, sections := livesOf(problem)
		p := &part{lives: lives, sections: sections}
		p.offsets = make([]int64, len(lives))
		top, _ := strategies[0].place(p, p.space(1<<40), p.offsets, none)
		top += top / 50
		who := newMeetings(p)
		s := &shove{push: p.newPush(who, p.offsets, top, nil)}
		for _, l := range lives {
			s.coarsest = max(s.coarsest, l.align)
		}
		s.most = 1 << 40
		var out []int32
		for i := int32(3); int(i) < len(lives); i += 97 {
			if lives[i].fixed == free {
				out = append(out, i)
				s.remove(i)
			}
		}
		for _, i := range out {
			if s.under.at[i] != none || s.over.at[i] != none {
				t.Fatalf("%s: %d is still in", f.name, i)
			}
		}
		fresh := p.newPush(who, s.under.at, top, out)
		if !slices.Equal(s.under.at, fresh.under.at) || !slices.Equal(s.over.at, fresh.over.at) {
			t.Errorf("%s: lives do not all come as near to the edges as they can", f.name)
		}
	}
}

// Whoever is shoved in keeps clear of all others, and some are that cannot be pushed in.
func TestShoveInMany(t *testing.T) {
	in, tried := 0, 0
	for _, f := range all() {
		lives, sections := livesOf(f.make(1000, 4))
		p := &part{lives: lives, sections: sections, offsets: make([]int64, len(lives))}
		goal := mostLive(lives, sections)
		top, _ := strategies[2].place(p, p.space(1<<40), p.offsets, none)
		top -= max((top-goal)/4, 1)
		if n := len(p.above(p.offsets, top)); top < goal || n > shoved {
			continue
		}
		who := newMeetings(p)
		pushed := slices.Clone(p.offsets)
		left, _ := p.pushIn(who, pushed, top, pushing, never)
		if len(left) == 0 {
			continue
		}
		tried++
		before := slices.Clone(pushed)
		if ok, _ := p.shoveIn(who, pushed, top, goal, never); ok {
			in++
			apartAt(t, p, pushed, top)
		} else if !slices.Equal(before, pushed) {
			t.Errorf("%s: lives have moved for nothing", f.name)
		}
	}
	t.Logf("%d of %d", in, tried)
	if in*3 < tried || in == 0 {
		t.Errorf("only %d of %d times all are in", in, tried)
	}
}
