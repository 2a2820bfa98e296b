package pack

import (
	"cmp"
	"math"
	"slices"
)

// Of many lives few are hard to place: those alive where nearly as many bytes are as at the worst moment. They are the core
// of a part. It is packed alone, in as many parts as no section joins, where each climb is cheap and there can be many, and the
// other lives are put in wherever they find room, the largest first. What finds none drives out others or pushes them up until
// all are in, which is quick as there is room to spare. Where there is too little of that more lives are taken for the core, of
// which only the parts that they join are climbed again; what stands beside those stays.

// cores are the shares of the goal that a section of the core has to spare at most.
var cores = [...]int64{10, 8, 6}

const (
	closer   = 256 // the share of the goal above it down to which few lives of a core are climbed, and all lives lowered in the end
	enlarged = 3   // cores of a share, each with what found no room beside the one before
	hurried  = 250 // looks, for each life of the part, without which no larger core is tried
	sinking  = 100 // looks, for each life, that this is worth
	retried  = 160 // looks, for each life of the part, below which a climb through its core is followed by another in any case
	reclimbs = 320 // looks, for each life of the part, that climbs through its core are worth
)

// fromCore is p packed from its core, if all parts of that are of few lives, and none stays far above the goal or above most.
func (p *part) fromCore(goal, most int64) (packed part) {
	if p.job.off("core") {
		return part{top: math.MaxInt64}
	}
	defer p.job.run("core", p)()
	packed = *p
	packed.offsets, packed.top = nil, math.MaxInt64
	tried := false
	var known []*part
	for _, share := range cores {
		h := p.core(goal, share)
		var at []int64 // where all lives stand, and of those some that are left above the top
		for range enlarged {
			if tried && p.clock.alone() < hurried*len(p.lives) {
				return packed
			}
			tried = true
			parts := h.part.cut()
			p.clock.spend(ordering * len(p.lives))
			if slices.ContainsFunc(parts, func(q *part) bool { return len(q.lives) > few }) {
				return packed
			}
			climbed, highest := climbApart(parts, known, goal, min(most, goal+goal/hopeful), len(p.lives))
			if climbed == nil {
				return packed
			}
			in, offsets := h, climbed
			if at != nil {
				in, offsets = p.renewed(h, climbed, at, parts, known)
			}
			known = parts
			top := max(highest, goal+goal/fair)
			var left []int32
			at, left = p.makeRoom(p.put(in, offsets, top), top, goal, makings, pushing, never)
			if len(left) == 0 {
				cored := *p
				cored.offsets, cored.top, cored.by = at, topOf(p.lives, at), "core"
				cored.mend(goal, max(highest, goal+goal/closer), sinking*len(p.lives), never)
				if packed.keep(cored); !packed.far(goal, fair) {
					return packed
				}
				break
			}
			h = p.joinedBy(h, left)
		}
	}
	return packed
}

// renewed is p in lives that stand somewhere, and where, and the rest of h, given where all stood with another core of which
// some parts are known. What stands there in the time of parts that are new makes way for those; all else stays.
func (p *part) renewed(h halves, climbed, at []int64, parts, known []*part) (in halves, offsets []int64) {
	fresh := make([]int32, p.sections+1) // by section: how many begin to be or cease to be of a new part
	from := 0
	for _, q := range parts {
		lives := h.in[from : from+len(q.lives)]
		if slices.ContainsFunc(known, q.same) {
			for k, i := range lives {
				climbed[from+k] = at[i]
			}
		} else {
			for _, i := range lives {
				fresh[p.lives[i].l]++
				fresh[p.lives[i].r]--
			}
		}
		from += len(lives)
	}
	news := make([]int32, p.sections+1) // by section: how many before it are of a new part
	for t := range p.sections {
		fresh[t+1] += fresh[t]
		news[t+1] = news[t] + min(fresh[t], 1)
	}
	in, offsets = halves{in: slices.Clone(h.in)}, climbed
	for _, i := range h.rest {
		if l := p.lives[i]; news[l.l] == news[l.r] {
			in.in, offsets = append(in.in, i), append(offsets, at[i])
		} else {
			in.rest = append(in.rest, i)
		}
	}
	return in, offsets
}

// crag is a part of a core.
type crag struct {
	*part
	*climb          // nil if it is packed
	best   *skyline // the lowest
	done   bool     // which is near enough
	from   int      // where its lives come among all
}

// height is how high it is to begin with.
func (c crag) height() int64 {
	if c.climb == nil {
		return c.top
	}
	return c.best.highest
}

// start makes it one that nothing has packed, if it is not.
func (c crag) start() {
	if c.climb != nil {
		c.unplaced()
	}
}

// same is whether p and q have the same lives.
func (p *part) same(q *part) bool {
	return slices.EqualFunc(p.lives, q.lives, func(a, b life) bool { return a.id == b.id })
}

// climbApart packs the parts of a core of n lives in all, which no section joins, alone, as few climbs are lucky everywhere.
// Those that are easier to place come first, and leave to the others what they do not need of the looks that all share. What
// climbs leave too high is improved by other means. There are no offsets if one stays higher than most.
func climbApart(parts, known []*part, goal, most int64, n int) (offsets []int64, highest int64) {
	var crags []crag
	from, looks := 0, 0
	for _, q := range parts {
		if k := slices.IndexFunc(known, q.same); k >= 0 {
			q.offsets, q.top, q.by = known[k].offsets, known[k].top, known[k].by
			crags = append(crags, crag{part: q, from: from})
			from += len(q.lives)
			continue
		}
		c := newClimb(q, goal, closer)
		s, done := c.first()
		looks += c.looks
		crags = append(crags, crag{q, c, s, done, from})
		from += len(q.lives)
	}
	if len(parts) > 0 {
		parts[0].clock.share(looks)
	}
	slices.SortStableFunc(crags, func(a, b crag) int { return cmp.Compare(a.height(), b.height()) })
	offsets = make([]int64, from)
	sum := 0
	for _, c := range crags {
		sum += len(c.lives)
		switch c.start(); {
		case c.climb == nil:
		case c.done:
			c.keep(c.part.from(c.best))
		default:
			c.looks = looks
			c.best = c.again(c.best, retried*n/from*sum, reclimbs*n/from*sum, never)
			looks = c.looks
			if c.keep(c.part.from(c.best)); c.far(goal, fair) && !c.tuck(goal, c.best) {
				c.improve(c.climb, c.best)
			}
		}
		copy(offsets[c.from:], c.offsets)
		if highest = max(highest, c.top); highest > most {
			return nil, 0
		}
	}
	return offsets, highest
}

// core is p in its core, of sections that have no more than a share of the goal to spare, and what is not: what is large first,
// and of that what crosses sections with little to spare.
func (p *part) core(goal, share int64) halves {
	var in, rest []int32
	hard := make([]float64, len(p.lives)) // by life: its area, for what the fullest of its sections has to spare, squared
	var fullest peaks
	fullest.build(liveOf(p.lives, p.sections))
	for i, l := range p.lives {
		if most, _ := fullest.most(l.l, l.r); l.fixed != free || p.floor+most >= goal-goal/share {
			in = append(in, int32(i))
		} else {
			rest = append(rest, int32(i))
			spare := float64(goal-p.floor-most) / float64(goal)
			hard[i] = float64(l.size) * float64(l.r-l.l) / (spare * spare)
		}
	}
	sortBy(rest, func(i int32) uint64 { return ^math.Float64bits(hard[i]) })
	return p.with(in, rest)
}
