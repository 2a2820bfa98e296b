package pack

import (
	"math"
	"slices"
)

// halves are lives of a part that are packed first, as a part, and the rest, in the order in which those are put in.
type halves struct {
	*part
	in, rest []int32
}

// wait says which lives of a part wait until the others are packed: short ones of few bytes, which find room in many places, as
// long as those of one section together have no more bytes than a share of the goal and a share of what the section has to
// spare. The others are fewer lives in fewer sections, which takes less time, and leave fewer holes, as no short life parts a
// valley in two that longer ones could fill. The more may wait the closer the others are packed, but the fewer of those that
// wait find room.
type wait struct{ goal, spare float64 }

// some is who waits at first.
var some = wait{0.003, 0.1}

// times is w for so many times as many bytes.
func (w wait) times(x float64) wait { return wait{w.goal * x, w.spare * x} }

const (
	far     = 100  // a packing that this share of the goal above it does not hold is worth a rescue
	farther = 40   // and one that this does not hold either is not worth a turn
	rescues = 8    // from large lives, if there is time
	swelled = 2    // times as many bytes that wait
	shorter = 0.75 // of the length of the others is that of lives it pays to let wait, on average
	squeeze = 100  // looks, for each life, to make room for those that waited by driving out others
	housing = 250  // looks, for each life, that are left when the large ones are climbed, as the others are to be put in
	makings = 8    // times that it is tried in both ways
)

// improve keeps the lowest of what comes of s, in which c ended: s mended and turned over, the lives as they come, and what
// further climbs make of it if that is not hopeless. They are tried side by side, until one is near enough.
func (p *part) improve(c *climb, s *skyline) {
	goal, enough := c.goal, c.goal+c.goal/fair
	mended, come := p.from(s), p.from(s)
	climbed := part{top: math.MaxInt64}
	was := s.highest // s may be overwritten by what comes after it
	for _, t := range []*part{&mended, &come, &climbed} {
		t.clock = p.clock.apart(2)
	}
	c.clock = climbed.clock
	p.keepFirst(enough, []*part{&mended, &come, &climbed},
		func(stopped func() bool) {
			mended.mend(goal, enough, mending*len(p.lives), stopped)
			mended.keep(*p)
			mended.turnIfNear(goal, enough, stopped)
		},
		func(stopped func() bool) { come.comes(goal, enough, stopped) },
		func(stopped func() bool) {
			if t := c.again(s, tried*len(p.lives), climbs*len(p.lives), stopped); t.highest < was {
				climbed = p.from(t)
				climbed.clock = c.clock
				climbed.turnIfNear(goal, enough, stopped)
			}
		},
	)
}

// rescue keeps the lowest of what comes of a skyline that is too high without one: the lives as they come, which is first where
// they recur or none is to wait, and packed from the large ones. The higher the skyline, the more of the others wait. If the
// large ones do not come close enough more wait the next time; and if some of those that wait find no room, these do not wait
// any more.
func (p *part) rescue(goal int64, grown part) {
	if p.job.off("large") {
		return
	}
	defer p.job.run("large", p)()
	enough := goal + goal/fair
	p.keep(grown)
	below := p.top
	w := some.times(max(1, farther*float64(grown.top-goal)/float64(goal)))
	h := p.large(w, goal)
	if !p.pays(h) || p.recurs() {
		p.comes(goal, enough, never)
	}
	for k := 0; k < rescues && p.far(goal, fair) && p.pays(h); k++ {
		large, climbed, left, ok := p.fromLarge(h, below, goal, enough)
		if !ok {
			break
		}
		p.keep(large)
		p.simply(goal, p.top)
		if climbed > enough {
			w = w.times(swelled)
			h = p.large(w, goal)
		} else {
			h = p.joinedBy(h, left)
		}
	}
	if p.far(goal, fair) {
		p.offsets = slices.Clone(p.offsets)
		p.turnOver(goal, enough, never)
	}
}

// keepFirst makes the attempts that fill parts, until one is no higher than enough, and keeps the lowest.
func (p *part) keepFirst(enough int64, parts []*part, fills ...func(stopped func() bool)) {
	attempts := make([]attempt, len(fills))
	for i, fill := range fills {
		attempts[i] = func(stopped func() bool) bool {
			fill(stopped)
			return parts[i].top <= enough
		}
	}
	last := min(firstOf(attempts...), len(parts)-1)
	var apart []*clock
	for _, t := range parts[:last+1] {
		p.keep(*t)
		apart = append(apart, t.clock)
	}
	p.clock.joined(apart)
}

// keepBest keeps the lowest of what attempts make of p as it is, each with a clock of its own; a core makes so many of them after
// each other.
func (p *part) keepBest(enough int64, inTurn int, fills ...func(q *part, stopped func() bool)) {
	var parts []*part
	var own []func(stopped func() bool)
	for _, fill := range fills {
		q := *p
		q.clock = p.clock.apart(inTurn)
		parts = append(parts, &q)
		own = append(own, func(stopped func() bool) { fill(&q, stopped) })
	}
	p.keepFirst(enough, parts, own...)
}

// turnIfNear turns p over if it is far above the goal, but not too far for that to help.
func (p *part) turnIfNear(goal, enough int64, stopped func() bool) {
	if p.far(goal, far) && !p.far(goal, farther) {
		p.offsets = slices.Clone(p.offsets)
		p.turnOver(goal, enough, stopped)
	}
}

// fromLarge is p packed from its large lives: a climb packs those, and the lives that wait are put in. Where some find no room
// below the top of the others, others make room or are pushed up, and those for which that is not enough go on top. A climb
// that will be higher than below is given up. It also says how high the large ones came, which of the others are left, and
// whether there was time for it.
func (p *part) fromLarge(h halves, below, goal, enough int64) (g part, climbed int64, left []int32, ok bool) {
	p.clock.spend(ordering * len(p.lives))
	c := newClimb(h.part, goal, content)
	leaves := 2 * housing * len(p.lives)
	if !c.affords(leaves) {
		return g, 0, nil, false
	}
	g = part{lives: p.lives, sections: p.sections, floor: p.floor, top: math.MaxInt64, by: "large", clock: p.clock, ctx: p.ctx, job: p.job}
	s := c.base.twin()
	s.highest = below
	for k := 0; k <= endings && s.highest > enough && c.affords(leaves); k++ {
		s = c.another(s, leaves, never)
	}
	if s.highest >= below {
		return g, below, nil, true
	}
	top := max(s.highest, enough)
	at, left := g.makeRoom(g.put(h, s.offsets, top), top, goal, makings, pushing, never)
	p.clock.spend(placing * min(len(left), 1) * len(p.lives))
	g.onTop(at, left)
	g.offsets = at
	g.top = topOf(g.lives, g.offsets)
	return g, s.highest, left, true
}

// makeRoom has lives below top make room for those that stand above it, and says where all stand then and which are left. They
// are driven out by those and, beside that and if it does not do, pushed up for them; then again, as long as there are more to
// be pushed up and clearly fewer are left, up to so many times. If p has few lives, and hardly any are left in the end, these
// are shoved in, or none: of many, each that is driven out moves thousands, and another climb takes less time.
func (p *part) makeRoom(offsets []int64, top, goal int64, tries, looks int, stopped func() bool) (at []int64, left []int32) {
	var spent int
	who := newMeetings(p)
	more := !p.job.off("push") // to be pushed up
	for k := range tries {
		if k > 0 && p.clock.alone() <= 0 {
			break
		}
		var mended *mend
		before, pushed := len(left), slices.Clone(offsets)
		attempts := []attempt{func(func() bool) bool {
			mended = newMend(p, who, offsets, goal)
			mended.stopped = stopped
			return !p.job.off("mend") && mended.lower(top, squeeze*len(p.lives))
		}}
		if more {
			attempts = append(attempts, func(no func() bool) bool {
				left, spent = p.pushIn(who, pushed, top, looks, func() bool { return no() || stopped() })
				return len(left) == 0
			})
		}
		done := firstOf(attempts...)
		cost := mended.looks/lightly + ordering*len(p.lives)
		if done == 0 {
			p.clock.share(2 * cost)
			return mended.at, nil
		}
		if !more {
			p.clock.spend(cost)
			break
		}
		p.clock.share(cost + spent/deeply)
		if offsets = pushed; len(left) == 0 || k > 0 && len(left) > before*7/8 {
			break
		}
		more = spent > looks*len(p.lives) // else those that are left have no room
	}
	if len(p.lives) <= few && len(left) > 0 && len(left) <= shoved && !stopped() && !p.job.off("shove") {
		in, spent := p.shoveIn(who, offsets, top, goal, stopped)
		if p.clock.spend(spent / deeply); in {
			left = nil
		}
	}
	return offsets, left
}

// onTop puts lives of p that are left into the lowest gaps that hold them above what is at offsets, if not among it.
func (p *part) onTop(offsets []int64, left []int32) {
	if len(left) == 0 {
		return
	}
	s := newSpace(0, p.sections, math.MaxInt)
	for _, i := range left {
		s.expect(p.lives[i])
	}
	for i, l := range p.lives {
		if !slices.Contains(left, int32(i)) {
			s.take(l, offsets[i])
		}
	}
	for _, i := range left {
		l := p.lives[i]
		s.look(l)
		offsets[i] = firstFit(s, l, p.floor)
		s.take(l, offsets[i])
	}
}

// pays is whether it gains something to pack first those of p that are in h alone: if most wait, or those that do are much
// shorter.
func (p *part) pays(h halves) bool {
	return len(h.in) > 0 && len(h.rest) > len(h.in) || p.length(h.rest)*float64(len(h.in)) < p.length(h.in)*float64(len(h.rest))*shorter
}

// length is how long lives of p are together.
func (p *part) length(lives []int32) (sum float64) {
	for _, i := range lives {
		sum += float64(p.lives[i].r - p.lives[i].l)
	}
	return sum
}

// smallest is the lives of p, those first that find room in most places: they are short, and above all have few bytes.
func (p *part) smallest() []int32 {
	if len(p.small) != len(p.lives) {
		p.small = make([]int32, len(p.lives))
		for i := range p.small {
			p.small[i] = int32(i)
		}
		sortBy(p.small, func(i int32) uint64 {
			l := &p.lives[i]
			return math.Float64bits(float64(float64(l.r-l.l)*float64(l.size)) * float64(l.size))
		})
	}
	return p.small
}

// large is p in the lives that do not wait and those that do, the largest first.
func (p *part) large(w wait, goal int64) halves {
	over := liveOf(p.lives, p.sections) // by section: by how many bytes too much waits
	for t, live := range over {
		over[t] = -int64(float64(w.goal*float64(goal)) + float64(w.spare*float64(goal-p.floor-live)))
	}
	var most peaks
	most.build(over)
	var in, rest []int32
	waits := make([]bool, len(p.lives))
	for _, i := range p.smallest() {
		l := p.lives[i]
		if x, _ := most.most(l.l, l.r); l.fixed == free && x+l.size <= 0 {
			most.add(l.l, l.r, l.size)
			waits[i] = true
			rest = append(rest, i)
		}
	}
	slices.Reverse(rest)
	for i := range p.lives {
		if !waits[i] {
			in = append(in, int32(i))
		}
	}
	return p.with(in, rest)
}

// with is p in halves.
func (p *part) with(in, rest []int32) halves {
	q := &part{lives: make([]life, 0, len(in)), floor: p.floor, clock: p.clock, ctx: p.ctx, job: p.job}
	for _, i := range in {
		q.lives = append(q.lives, p.lives[i])
	}
	q.sections = toSections(q.lives)
	return halves{q, in, rest}
}

// joinedBy is h with some of the rest among those that are packed first.
func (p *part) joinedBy(h halves, some []int32) halves {
	some = slices.Sorted(slices.Values(some))
	in := append(slices.Clone(h.in), some...)
	slices.Sort(in)
	rest := slices.DeleteFunc(slices.Clone(h.rest), func(i int32) bool {
		_, is := slices.BinarySearch(some, i)
		return is
	})
	return p.with(in, rest)
}
