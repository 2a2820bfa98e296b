package pack

import "testing"

// A core whose lives are climbed apart is a packing of them all, as high as it says.
func TestCoreApart(t *testing.T) {
	most := 0
	for _, f := range all() {
		problem := f.make(4000, 3)
		if len(problem.Fixed) > 0 {
			continue
		}
		lives, sections := livesOf(problem)
		p := &part{lives: lives, sections: sections}
		goal := mostLive(lives, sections)
		h := p.core(goal)
		offsets, highest := h.climbApart(goal, len(lives))
		var core Problem
		for _, i := range h.in {
			core.Buffers = append(core.Buffers, problem.Buffers[lives[i].id])
		}
		s := Solution{Offsets: offsets}
		for i, b := range core.Buffers {
			s.Height = max(s.Height, offsets[i]+b.Size)
		}
		if err := Check(core, s); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		if up(highest, unitOf(problem)) != up(s.Height, unitOf(problem)) {
			t.Errorf("%s: %d high, not %d", f.name, s.Height, highest)
		}
		most = max(most, len(p.core(goal).part.cut()))
	}
	if most < 4 {
		t.Errorf("no core is in more than %d parts", most)
	}
}

// What was hard to place weighs more in the next try, and what none of them brings below a top is left where it was.
func TestLowerAgain(t *testing.T) {
	p := anyLong(t)
	goal := mostLive(p.lives, p.sections)
	m := newMend(p, p.offsets, goal)
	if m.lowerAgain(goal-1, 10*len(p.lives), 3) {
		t.Fatal("ended below the bytes alive at once")
	}
	heavier := 0
	for i := range p.lives {
		if m.at[i] != p.offsets[i] {
			t.Fatalf("life %d is at %d, not %d", i, m.at[i], p.offsets[i])
		}
		if m.weight[i] > m.base[i] {
			heavier++
		}
	}
	if heavier == 0 {
		t.Error("nothing weighs more")
	}
}

// anyLong is long lives, packed as they come.
func anyLong(t *testing.T) *part {
	lives, sections := livesOf(families[4].make(3000, 1))
	p := &part{lives: lives, sections: sections}
	p.unplaced()
	p.try([]strategy{asTheyCome}, newSpace(sections, 1<<40), 0)
	if p.top == 1<<63-1 {
		t.Fatal("not packed")
	}
	return p
}
