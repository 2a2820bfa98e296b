package pack

import (
	"cmp"
	"math"
	"slices"
)

// Of many lives few are hard to place: those alive where nearly as many bytes are as at the worst moment. They are the core
// of a part. It is packed alone, in as many parts as no section joins, where each climb is cheap and there can be many, and the
// other lives are put in wherever they find room, the largest first. What finds none drives out others or pushes them up until
// all are in, which is quick as there is room to spare. Where there is too little of that more lives are taken for the core.

// cores are the shares of the goal that a section of the core has to spare at most.
var cores = [...]int64{10, 8, 6}

const (
	closer   = 256 // the share of the goal above it down to which few lives of a core are climbed, and all lives lowered in the end
	hurried  = 500 // looks, for each life of the part, without which no larger core is tried
	tiers    = 80  // shares of the goal that sections of the others have to spare, which tell them apart
	sinking  = 100 // looks, for each life, that this is worth
	retried  = 160 // looks, for each life of the part, below which a climb through its core is followed by another in any case
	reclimbs = 320 // looks, for each life of the part, that climbs through its core are worth
)

// fromCore is p packed from its core, if no part of that is more than half of p, or stays far above the goal or above most.
func (p *part) fromCore(goal, most int64) (packed part, ok bool) {
	for k, share := range cores {
		h := p.core(goal, share)
		parts := h.part.cut()
		p.clock.spend(ordering * len(p.lives))
		if slices.ContainsFunc(parts, func(q *part) bool { return len(q.lives) > len(p.lives)/2 }) {
			return packed, false
		}
		if k > 0 && p.clock.alone() < hurried*len(p.lives) {
			return packed, false
		}
		offsets, highest := climbApart(parts, goal, min(most, goal+goal/doubtful), len(p.lives))
		if offsets == nil {
			return packed, false
		}
		top := max(highest, goal+goal/fair)
		at, left := p.makeRoom(p.put(h, offsets, top), top, goal, never)
		if len(left) > 0 {
			continue
		}
		packed = *p
		packed.offsets, packed.top, packed.by = at, topOf(p.lives, at), "core"
		packed.mend(goal, max(highest, goal+goal/closer), sinking*len(p.lives), never)
		return packed, true
	}
	return packed, false
}

// climbApart packs the parts of a core of n lives in all, which no section joins, alone, as few climbs are lucky everywhere.
// Those that are easier to place come first, and leave to the others what they do not need of the looks that all share, but for
// those of many lives, which have their own. What climbs leave too high is improved by other means. There are no offsets if one
// stays higher than most.
func climbApart(parts []*part, goal, most int64, n int) (offsets []int64, highest int64) {
	type crag struct {
		*part
		*climb
		best *skyline
		done bool
		from int
	}
	var crags []crag
	from, looks := 0, 0
	for _, q := range parts {
		near := int64(closer)
		if len(q.lives) > few {
			near = content
		}
		c := newClimb(q, goal, near)
		s, done := c.first()
		looks += c.looks
		crags = append(crags, crag{q, c, s, done, from})
		from += len(q.lives)
	}
	if len(parts) > 0 {
		parts[0].clock.share(looks)
	}
	slices.SortStableFunc(crags, func(a, b crag) int { return cmp.Compare(a.best.highest, b.best.highest) })
	offsets = make([]int64, from)
	sum := 0
	for _, c := range crags {
		sum += len(c.lives)
		c.unplaced()
		switch {
		case c.done:
			c.keep(c.part.from(c.best))
		case len(c.lives) > few:
			c.climbOn(c.climb, c.best, false)
		default:
			c.looks = looks
			c.best = c.again(c.best, retried*n/from*sum, reclimbs*n/from*sum, never)
			looks = c.looks
			if c.keep(c.part.from(c.best)); c.far(goal, fair) {
				h := c.large(waits[0], goal)
				c.improve(c.climb, c.best, h, c.shortWait(h))
			}
		}
		copy(offsets[c.from:], c.offsets)
		if highest = max(highest, c.top); highest > most {
			return nil, 0
		}
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
	q := &part{floor: p.floor, clock: p.clock}
	for _, i := range in {
		q.lives = append(q.lives, p.lives[i])
	}
	q.sections = toSections(q.lives)
	return halves{q, in, rest}
}

// core is p in its core, of sections that have no more than a share of the goal to spare, and what is not: what crosses
// the fullest sections first, and of that the largest.
func (p *part) core(goal, share int64) halves {
	var in, rest []int32
	spare := make([]int64, len(p.lives)) // by life: how much the fullest of its sections has, in shares of the goal
	var fullest peaks
	fullest.build(liveOf(p.lives, p.sections))
	for i, l := range p.lives {
		if most, _ := fullest.most(l.l, l.r); l.fixed != free || p.floor+most >= goal-goal/share {
			in = append(in, int32(i))
		} else {
			rest = append(rest, int32(i))
			spare[i] = (goal - p.floor - most) / max(goal/tiers, 1)
		}
	}
	slices.SortStableFunc(rest, func(i, j int32) int {
		return cmp.Or(cmp.Compare(spare[i], spare[j]), byArea(p.lives[i], p.lives[j]))
	})
	return p.with(in, rest)
}

// put is where all lives of p stand if those that are in stand at offsets, and each of the rest in the lowest gap that holds
// it up to top, or on top if there is none.
func (p *part) put(h halves, offsets []int64, top int64) (at []int64) {
	at = make([]int64, len(p.lives))
	s := newSpace(p.sections, math.MaxInt)
	defer func() { p.clock.spend(s.looks + placing*len(p.lives)) }()
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
