package pack

import (
	"cmp"
	"math"
	"slices"
)

// Of many lives few are hard to place: those alive where nearly as many bytes are as at the worst moment. They are the core
// of a part. It is packed alone, in as many parts as no section joins, where each climb is cheap and there can be many, and the
// other lives are put in wherever they find room, those from the fullest sections first. What finds none drives out others
// until all are in, which is quick as there is room to spare.

const (
	core     = 10  // the share of the goal that a section of the core has to spare at most
	closer   = 256 // a packed core that this share of the goal above it holds leaves room to put in what is left
	retried  = 160 // looks, for each life of the part, below which a climb through its core is followed by another in any case
	reclimbs = 320 // looks, for each life of the part, that climbs through its core are worth
)

// growCore packs p from its core, if that is no more than half of it. It reports false if that does not come near enough, and
// keeps it nevertheless if it is lower than what there is and than most.
func (p *part) growCore(goal, most int64) bool {
	h := p.core(goal)
	if len(h.in) > len(p.lives)/2 {
		return false
	}
	offsets, highest := h.climbApart(goal, len(p.lives))
	near := goal + goal/fair
	top := max(highest, near)
	if top > near && top >= min(most, p.top) {
		return false
	}
	m, tries := newMend(p, p.put(h, offsets, top), goal), 2
	if top == near {
		tries = 4
	}
	if !m.lowerAgain(top, mending/2*len(p.lives), tries) {
		return false
	}
	p.offsets, p.top, p.by = m.at, topOf(p.lives, m.at), "core"
	return p.top <= near
}

// climbApart packs the lives of a core of a part of n lives: those that no section joins are climbed alone, as few climbs are
// lucky everywhere. Those that are easier to place come first, and leave to the others what they do not need of the looks that
// all share.
func (h halves) climbApart(goal int64, n int) (offsets []int64, highest int64) {
	type crag struct {
		*climb
		best        *skyline
		done        bool
		lives, from int
	}
	var crags []crag
	from, looks := 0, 0
	for _, q := range h.part.cut() {
		c := newClimb(q, goal, closer)
		s, done := c.first()
		looks += c.looks
		crags = append(crags, crag{c, s, done, len(q.lives), from})
		from += len(q.lives)
	}
	slices.SortStableFunc(crags, func(a, b crag) int { return cmp.Compare(a.best.highest, b.best.highest) })
	offsets = make([]int64, from)
	sum := 0
	for _, c := range crags {
		sum += c.lives
		if !c.done {
			c.looks = looks
			c.best = c.again(c.best, retried*n/from*sum, reclimbs*n/from*sum, never)
			looks = c.looks
		}
		copy(offsets[c.from:], c.best.offsets)
		highest = max(highest, c.best.highest)
	}
	return offsets, highest
}

// halves are lives of a part that are packed first, as a part, and the rest, in the order in which those are put in.
type halves struct {
	*part
	in, rest []int32
}

// with is p in halves.
func (p *part) with(in, rest []int32) halves {
	q := &part{floor: p.floor}
	for _, i := range in {
		q.lives = append(q.lives, p.lives[i])
	}
	q.sections = toSections(q.lives)
	return halves{q, in, rest}
}

// core is p in its core and what is not, those from the fullest sections first.
func (p *part) core(goal int64) halves {
	var in, rest []int32
	var fullest peaks
	fullest.build(liveOf(p.lives, p.sections))
	most := make([]int64, len(p.lives))
	for i, l := range p.lives {
		if most[i], _ = fullest.most(l.l, l.r); l.fixed != free || p.floor+most[i] >= goal-goal/core {
			in = append(in, int32(i))
		} else {
			rest = append(rest, int32(i))
		}
	}
	slices.SortStableFunc(rest, func(i, j int32) int { return cmp.Compare(most[j], most[i]) })
	return p.with(in, rest)
}

// put is where all lives of p stand if those that are in stand at offsets, and each of the rest in the lowest gap that holds
// it up to top, or on top if there is none.
func (p *part) put(h halves, offsets []int64, top int64) (at []int64) {
	at = make([]int64, len(p.lives))
	s := newSpace(p.sections, math.MaxInt)
	for k, i := range h.in {
		l := p.lives[i]
		at[i] = offsets[k]
		s.take(l.l, l.r, at[i], at[i]+l.size)
	}
	for _, i := range h.rest {
		l := p.lives[i]
		s.look(l.l, l.r)
		at[i] = firstFit(s, l, p.floor)
		if end := at[i] + l.size; end <= top {
			s.take(l.l, l.r, at[i], end)
		} else {
			at[i] = top
		}
	}
	return at
}
