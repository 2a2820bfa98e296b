package pack

import (
	"testing"
)

// What is hard to place weighs more each time that it drives out others, and nothing ends below the bytes alive at once.
func TestLowerWeighs(t *testing.T) {
	p := anyLong(t)
	goal := mostLive(p.lives, p.sections)
	m := newMend(p, newMeetings(p), p.offsets, goal)
	if m.lower(goal-1, 10*len(p.lives)) {
		t.Fatal("ended below the bytes alive at once")
	}
	heavier := 0
	for i := range p.lives {
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
	p.try([]strategy{asTheyCome}, p.space(1<<40), 0)
	if p.top == 1<<63-1 {
		t.Fatal("not packed")
	}
	return p
}
