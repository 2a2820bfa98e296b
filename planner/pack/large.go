package pack

import (
	"cmp"
	"math"
	"slices"
)

// wait says which lives of a part wait until the others are packed: those of the least area, which find room in many
// places, as long as those of one section together have no more bytes than a share of the goal and a share of what the
// section has to spare. The others are fewer lives in fewer sections, which takes less time, and leave fewer holes, as no
// short life parts a valley in two that longer ones could fill.
type wait struct{ goal, spare float64 }

// waits are two that are tried side by side. The more may wait the closer the others are packed, but the fewer of those that wait find room.
var waits = [...]wait{{0.005, 0.2}, {0, 0.1}}

const (
	far     = 100 // a packing that this share of the goal above it does not hold is worth a rescue
	farther = 40  // and one that this does not hold either, before many climbs, is worth none of them
	squeeze = 50  // looks, for each life, to make room for those that waited
)

// rescue packs p from its large lives if p is still far above the goal. What is not farther is turned over as well, and tried
// with fewer of those.
func (p *part) rescue(goal int64) {
	if !p.far(goal, far) {
		return
	}
	enough := goal + goal/fair
	var tried [2]part
	large := func(i int) attempt {
		return func(stopped func() bool) bool {
			tried[i] = p.fromLarge(waits[i], goal, enough, stopped)
			return tried[i].top <= enough
		}
	}
	turned := func(stopped func() bool) bool {
		tried[1] = *p
		tried[1].offsets = slices.Clone(p.offsets)
		tried[1].turnOver(goal, enough, stopped)
		return tried[1].top <= enough
	}
	second := large(1)
	if !p.far(goal, farther) {
		second = turned
	}
	last := min(firstOf(large(0), second), 1)
	for _, t := range tried[:last+1] {
		if t.top < p.top {
			*p = t
		}
	}
}

// fromLarge is p packed from its large lives: a climb packs those, and the lives that wait are put in. Where some find no room
// below the top of the others and none can be made, they go on top. What that leaves is turned over.
func (p *part) fromLarge(w wait, goal, enough int64, stopped func() bool) part {
	g := part{lives: p.lives, sections: p.sections, floor: p.floor, top: math.MaxInt64, by: "large"}
	q, in, rest := p.large(w, goal)
	if len(in) == 0 {
		return g
	}
	c := newClimb(q, goal, content)
	s := c.base.twin()
	if !c.once(s, 0, p.top-1) || stopped() {
		return g
	}
	top := max(s.highest, enough)
	m := newMend(p, p.put(in, s.offsets, rest, top), goal)
	m.stopped = stopped
	if m.lower(top, squeeze*len(p.lives)) {
		g.offsets = m.at
	} else {
		g.offsets = p.put(in, s.offsets, rest, math.MaxInt64)
	}
	g.top = 0
	for i, l := range g.lives {
		g.top = max(g.top, g.offsets[i]+l.size)
	}
	g.turnOver(goal, enough, stopped)
	return g
}

// large is the lives of p that do not wait as a part, and which of its lives they are and which wait, the largest first.
func (p *part) large(w wait, goal int64) (q *part, in, rest []int32) {
	order := make([]int32, len(p.lives))
	area := make([]float64, len(p.lives))
	for i, l := range p.lives {
		order[i], area[i] = int32(i), float64(l.r-l.l)*float64(l.size)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(area[i], area[j]) })
	over := liveOf(p.lives, p.sections) // by section: by how many bytes too much waits
	for t, live := range over {
		over[t] = -int64(float64(w.goal*float64(goal)) + float64(w.spare*float64(goal-p.floor-live)))
	}
	var most peaks
	most.build(over)
	waits := make([]bool, len(p.lives))
	for _, i := range order {
		l := p.lives[i]
		if x, _ := most.most(l.l, l.r); x+l.size <= 0 {
			most.add(l.l, l.r, l.size)
			waits[i] = true
			rest = append(rest, i)
		}
	}
	slices.Reverse(rest)
	q = &part{floor: p.floor}
	for i, l := range p.lives {
		if !waits[i] {
			in = append(in, int32(i))
			q.lives = append(q.lives, l)
		}
	}
	q.sections = toSections(q.lives)
	return q, in, rest
}
