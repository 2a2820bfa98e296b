package pack

import (
	"math"
	"slices"
)

// climb builds a skyline. At first it goes all the way up on one route, and on another beside it, in case that the first
// does not come near enough. If neither does, it goes up in many short stages, each of a few lives on top of each other: each is
// tried on several routes, and it goes on from where all sections together press least against the goal, for what is worst now
// tells little about what will be: staged.go. A climb from the floor is followed by others of its end, as what is too high in the
// end is hardly ever so before: that takes a quarter of the time, and has as much luck. Then comes another from the floor, which
// tries other routes.
type climb struct {
	goal   int64
	near   int64    // the share of the goal above it that is near enough
	base   *skyline // nothing but the floor
	staged *staged
	looks  int
	clock  *clock
	job    *job
}

const (
	legs       = 64      // stages of a skyline on one route, and of a climb at least
	content    = 128     // a packing that this share of the goal above it holds is near enough, less than a percent
	fair       = 101     // and one that holds this is too, after one climb in stages
	tight      = 1 << 62 // hardly any
	room       = 200     // the share of the goal above it that there is to fill up what is nearly even
	passage    = 95      // looks, for each life, that the stages together cost beside those that are counted
	weighing   = 8       // sections that cost a look in each stage
	hopeful    = 64      // what this does not hold is not climbed again
	tried      = 550     // looks, for each life, below which a climb in stages is followed by another in any case
	tucking    = 250     // looks, for each life, to make room below a top for what sticks out of a skyline
	mostClimbs = 40      // and ends of climbs, one after another
	climbs     = 1750    // looks, for each life, that climbs are worth
	mending    = 300     // looks, for each life, that mending is worth
)

// mostClimbed is a goal above which what is summed up on the way up would not be numbers.
const mostClimbed = math.MaxInt64 / 4

// grow packs p as a skyline, and keeps it if it is lower than what there is. Many lives have the first strategy tried before.
// Where no skyline is near enough, room is made below a top for what sticks out of many lives, which is quick and often does.
// Walks come next, which go on where skylines are too high at all times. Then lives that a search is not tried for later are
// packed from what it makes of the large ones; if that does not come near they are climbed.
func (p *part) grow(goal int64) {
	if p.job.off("skyline") {
		return
	}
	defer p.job.run("skyline", p)()
	if goal > mostClimbed {
		return
	}
	var before []attempt
	many := len(p.lives) > few
	if many {
		before = append(before, func(stopped func() bool) bool { return p.settles(goal+goal/simple, stopped) })
	}
	c := newClimb(p, goal, content)
	s, done := c.first(before...)
	p.clock.share(starting * len(p.lives))
	if s == nil {
		return
	}
	if done {
		p.keep(p.from(s))
		return
	}
	loose := !p.fixed()
	if many && loose && p.tuck(goal, s) {
		return
	}
	if many && loose && p.walks(goal, s.highest) {
		if p.far(goal, fair) {
			p.mend(goal, goal+goal/fair, mending*len(p.lives), never)
		}
		return
	}
	if len(p.lives) > fewest && loose {
		packed, ok := p.sift(goal, min(p.top, s.highest))
		if ok {
			p.keep(packed)
			return
		}
		defer func() { p.keep(packed) }() // nothing in between takes it for what it is to improve
	}
	p.climbOn(c, s)
}

// sharpen brings few lives that are above near, but not far above the goal, lower, on the first routes: mostly all the way,
// which spares a search that takes ten times as long.
func (p *part) sharpen(goal, near int64) {
	if p.job.off("skyline") {
		return
	}
	defer p.job.run("skyline", p)()
	if p.top <= near || goal > mostClimbed {
		return
	}
	s, _ := newClimb(p, goal, fine).first()
	p.keep(p.from(s))
}

// tuck is whether p is near enough as s packs it if room is made below a top for what sticks out.
func (p *part) tuck(goal int64, s *skyline) bool {
	if p.job.off("tuck") {
		return false
	}
	defer p.job.run("tuck", p)()
	if s.highest-goal > goal/hopeful {
		return false
	}
	top := goal + goal/fair
	g := p.from(s)
	at, left := g.makeRoom(g.offsets, top, goal, 1, tucking, never)
	if len(left) > 0 {
		return false
	}
	if s.highest > top {
		g.offsets, g.top, g.by = at, topOf(p.lives, at), "tuck"
	}
	p.keep(g)
	return true
}

// open goes on from s with one climb after another, each of which has room made below a top, for as long as there is time and they
// are not hopeless. It comes to the lowest, and whether p is packed.
func (p *part) open(c *climb, s *skyline) (best *skyline, done bool) {
	for k := 0; k < mostClimbs && c.affords(0); k++ {
		if k > 0 && s.highest-c.goal > c.goal/hopeful {
			break
		}
		t := c.another(s, 0, never)
		if t != s && p.tuck(c.goal, t) {
			return t, true
		}
		s = t
		p.simply(c.goal, s.highest)
	}
	return s, false
}

// climbOn packs p where s, the lowest of the skylines that c began with, is not near enough. Of many lives the core comes first,
// if it falls into parts of few, then the large ones, as they are few and come closer, and then climbs of all, which are improved.
// Climbs of few lives are only mended.
func (p *part) climbOn(c *climb, s *skyline) {
	goal, many := c.goal, len(p.lives) > few
	if many {
		if p.keep(p.fromCore(goal, s.highest)); !p.far(goal, fair) {
			return
		}
	}
	if p.far(goal, fair) {
		if p.rescue(goal, p.from(s)); !p.far(goal, fair) {
			return
		}
	}
	if !many {
		grown := p.from(c.again(s, tried*len(p.lives), climbs*len(p.lives), never))
		grown.mend(goal, goal+goal/fair, mending*len(p.lives), never)
		p.keep(grown)
		return
	}
	if s, done := p.open(c, s); !done {
		p.improve(c, s)
	}
}

// from is p as s packs it.
func (p *part) from(s *skyline) part {
	return part{lives: p.lives, sections: p.sections, floor: p.floor, offsets: slices.Clone(s.offsets), top: s.highest, by: "skyline", clock: p.clock, job: p.job}
}

// keep makes p the same as o if that is lower.
func (p *part) keep(o part) {
	if o.top < p.top {
		p.offsets, p.top, p.by = o.offsets, o.top, o.by
	}
}

func newClimb(p *part, goal, near int64) *climb {
	c := &climb{goal: goal, near: near, base: newSkyline(p), clock: p.clock, job: p.job}
	c.base.ceiling = goal + goal/room
	c.staged = newStaged(c, p)
	return c
}

// first makes the attempts of before, then a skyline of all lives on the neat route, which ends where that loses more than
// next to nothing, and then some on the routes that go all the way. It comes to the first that is near enough, which is no
// skyline if it was one of before, or to the lowest if none is.
func (c *climb) first(before ...attempt) (s *skyline, done bool) {
	var starts [1 + len(wholes)]*skyline
	var looks [1 + len(wholes)]int
	attempts := before
	for i := range starts {
		attempts = append(attempts, func(stopped func() bool) bool {
			s := c.base.twin()
			starts[i] = s
			most := c.line
			if s.route = neat; i > 0 {
				s.route = wholes[i-1]
				most = func(int) int64 { return math.MaxInt64 }
			}
			var ok bool
			looks[i], ok = c.through(s, most, stopped)
			return ok && s.highest <= c.line(legs)
		})
	}
	at := firstOf(attempts...) - len(before)
	if at < 0 {
		return nil, true
	}
	if at < len(starts) {
		return starts[at], true
	}
	for _, n := range looks {
		c.looks += n
	}
	s = starts[1]
	for _, o := range starts[2:] {
		if o.highest < s.highest {
			s = o
		}
	}
	return s, false
}

// line is how high a skyline on one route is to become after a stage at most.
func (c *climb) line(at int) int64 { return c.goal + c.goal/c.near*int64(at)/legs }

// through takes s all the way up, unless that is sure to be higher after a stage than most says. It also says how many looks
// it took.
func (c *climb) through(s *skyline, most func(at int) int64, stopped func() bool) (looks int, ok bool) {
	s.ctx = c.base.ctx
	for at := 1; at <= legs; at++ {
		s.weigh()
		s.changes.forget()
		c.ascend(s, at, legs)
		looks += s.looks
		if s.least() > most(at) || stopped() {
			return looks, false
		}
	}
	return looks, true
}

// ascend takes s to the end of a stage of so many.
func (c *climb) ascend(s *skyline, at, stages int) {
	c.ready(s, stages)
	s.advance(c.level(at, stages))
}

// ready makes s ready for a stage of so many on its route.
func (c *climb) ready(s *skyline, stages int) {
	s.top = c.goal + c.goal/s.route.aim
	s.looks = passage*len(s.lives)/stages + int(s.sections)/weighing
}

// level is how high a skyline is at least at the end of a stage of so many.
func (c *climb) level(at, stages int) int64 {
	if at < stages {
		return c.base.floor + (c.goal-c.base.floor)/int64(stages)*int64(at)
	}
	return math.MaxInt64
}

// again is the best of best and of climbs in stages, until that is near enough, or so many looks are spent, or it is
// stopped. Once no more are cheap, further ones have to be worth it.
func (c *climb) again(best *skyline, cheap, looks int, stopped func() bool) *skyline {
	for best.highest > c.line(legs) && c.looks < looks && c.affords(0) && !stopped() {
		over := best.highest - c.goal
		if c.staged.climbs > 0 && c.looks >= cheap && (over <= c.goal/fair || over > c.goal/hopeful) {
			break
		}
		best = c.another(best, 0, stopped)
	}
	return best
}

// least is how high s will become at least.
func (s *skyline) least() int64 { return max(s.highest, slices.Max(s.sure)) }
