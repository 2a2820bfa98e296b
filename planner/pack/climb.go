package pack

import (
	"math"
	"slices"
)

// climb builds a skyline. At first it goes all the way up on one route, and on another beside it, in case that the first
// does not come near enough. If neither does, it goes up in many short stages: each is tried on several routes, and it goes on
// from where all sections together press least against the goal, for what is worst now tells little about what will be; lane.go
// is how two cores share that. A climb from the floor is followed by others of its end, as what is too high in the end is hardly
// ever so before: that takes a quarter of the time, and has as much luck. Then comes another from the floor, which takes the
// routes in other turns.
type climb struct {
	goal  int64
	near  int64    // the share of the goal above it that is near enough
	base  *skyline // nothing but the floor
	lanes []*lane
	tries int // routes for a stage
	ups   int // climbs in stages
	looks int
	clock *clock
}

// route is how a skyline chooses.
type route struct {
	variety int     // how many lives of each group to look at for a place
	length  float64 // what it is worth that a life is long, against sections that are left beside it
	ease    float64 // how ready it is to fill up what is nearly even
	aim     int64   // the share of the goal above it that it tries to stay within
	focus   float64 // the share of the ceiling that a section may have to spare and weigh half of one that has none; 0: all weigh the same
}

var (
	// neat is the route for what can be packed with next to no loss, which is given up when it loses more.
	neat = route{16, 1, 0, 256, 0}

	// wholes are the routes that go all the way.
	wholes = [...]route{
		{16, 1, 1, 256, 0.003},
		{16, 1, 2, 256, 0.01},
	}

	// routes are tried for each stage, one after another, from where the stage before left off.
	routes = [...]route{
		{16, 1, 2, 256, 0.01},
		{16, 1, 4, 256, 0.003},
		{16, 3, 1, 512, 0.003},
		{16, 1, 2, tight, 0.003},
		{32, 10, 2, 512, 0.003},
		{16, 0.3, 2, 256, 0.003},
	}
)

const (
	stages     = 64
	late       = stages * 3 / 4 // where the end of a climb begins
	endings    = 4              // of one climb
	pair       = 2              // routes for a stage, if there are to be many climbs
	tries      = 4              // and if one has to do
	content    = 128            // a packing that this share of the goal above it holds is near enough, less than a percent
	fair       = 101            // and one that holds this is too, after one climb in stages
	nearly     = 85             // what this does not hold is climbed again from the floor
	tight      = 1 << 62        // hardly any
	room       = 200            // the share of the goal above it that there is to fill up what is nearly even
	passage    = 100            // looks, for each life, that the stages together cost beside those that are counted
	hopeful    = 64             // what this does not hold is not climbed again
	tried      = 550            // looks, for each life, below which a climb in stages is followed by another in any case
	tucking    = 250            // looks, for each life, to make room below a top for what sticks out of a skyline
	mostClimbs = 40             // and ends of climbs, one after another
	climbs     = 1750           // looks, for each life, that climbs are worth
	mending    = 300            // looks, for each life, that mending is worth
	scope      = 0.05           // the share of the goal above it in which a section is seen as pressed
	hardest    = 0.005          // the share of it that a section has to spare there at least, as it is seen
)

// mostClimbed is a goal above which what is summed up on the way up would not be numbers.
const mostClimbed = math.MaxInt64 / 4

// grow packs p as a skyline, and keeps it if it is lower than what there is. Many lives have the first strategy tried before.
// Where no skyline is near enough, room is made below a top for what sticks out of many lives, which is quick and often does.
// Then lives that a search is not tried for later are packed from what it makes of the large ones; if that does not come near,
// many lives from their core, and if that does not either they are climbed.
func (p *part) grow(goal int64) {
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
	if many && !p.fixed() && p.tuck(goal, s) {
		return
	}
	if len(p.lives) > fewest && !p.fixed() {
		packed, ok := p.sift(goal, min(p.top, s.highest))
		if ok {
			p.keep(packed)
			return
		}
		defer func() { p.keep(packed) }() // nothing in between takes it for what it is to improve
	}
	p.climbOn(c, s, many)
}

// sharpen brings few lives that are above near, but not far above the goal, lower, on the first routes: mostly all the way,
// which spares a search that takes ten times as long.
func (p *part) sharpen(goal, near int64) {
	if p.top <= near || goal > mostClimbed {
		return
	}
	s, _ := newClimb(p, goal, fine).first()
	p.keep(p.from(s))
}

// tuck is whether p is near enough as s packs it if room is made below a top for what sticks out.
func (p *part) tuck(goal int64, s *skyline) bool {
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

// open goes on from s with one climb after another, each of which has room made below a top, while they are nearly near enough
// or there is much time. It comes to the lowest, and whether p is packed.
func (p *part) open(c *climb, s *skyline) (best *skyline, done bool) {
	for k := 0; k < mostClimbs && c.affords(); k++ {
		if k > 0 && s.highest-c.goal > c.goal/nearly && c.clock.alone() < leisure*len(p.lives) {
			break
		}
		t := c.another(s, never)
		if t != s && p.tuck(c.goal, t) {
			return t, true
		}
		s = t
	}
	return s, false
}

// climbOn packs p where s, the lowest of the skylines that c began with, is not near enough. Where many lives may wait the large
// ones come first, as they are few; then the core if it is to be tried, and then the large ones of all else that has them, which
// takes no more than a climb and comes further. Only who has time, or no short lives that could wait, or is not far above the
// goal, climbs in stages: once, and again if that was nearly enough, and then that is improved. Few lives have no other means
// than to be mended. Lives that are fixed leave less to win by other means, and are climbed around as often as few lives are.
func (p *part) climbOn(c *climb, s *skyline, core bool) {
	goal, cheap, looks := c.goal, tried*len(p.lives), climbs*len(p.lives)
	many, fixed := len(p.lives) > few, p.fixed()
	h := p.large(waits[0], goal)
	short := many && !fixed && p.shortWait(h)
	leisurely := p.clock.alone() > leisure*len(p.lives) && s.highest-goal <= goal/farther
	large := short && !leisurely
	if large && len(h.rest) > len(p.lives)/light {
		if p.rescue(goal, p.from(s), h); !p.far(goal, fair) {
			return
		}
		large = false
	}
	if core {
		if p.keep(p.fromCore(goal, s.highest)); !p.far(goal, fair) {
			return
		}
	}
	if fixed || !many {
		grown := p.from(c.again(s, cheap, looks, never))
		grown.mend(goal, goal+goal/fair, mending*len(p.lives), never)
		p.keep(grown)
		if fixed && many && p.far(goal, fair) {
			p.rescue(goal, *p, h)
		}
		return
	}
	if large {
		if p.rescue(goal, p.from(s), h); !p.far(goal, fair) {
			return
		}
	}
	if short && s.highest-goal > goal/farther && p.far(goal, nearly) && p.clock.alone() < leisure*len(p.lives) {
		p.turnIfNear(goal, goal+goal/fair, never)
		return
	}
	s, done := p.open(c, s)
	if done {
		return
	}
	p.improve(c, s, h, short && leisurely)
}

// from is p as s packs it.
func (p *part) from(s *skyline) part {
	return part{lives: p.lives, sections: p.sections, floor: p.floor, offsets: slices.Clone(s.offsets), top: s.highest, by: "skyline", clock: p.clock}
}

// keep makes p the same as o if that is lower.
func (p *part) keep(o part) {
	if o.top < p.top {
		p.offsets, p.top, p.by = o.offsets, o.top, o.by
	}
}

func newClimb(p *part, goal, near int64) *climb {
	c := &climb{goal: goal, near: near, base: newSkyline(p), clock: p.clock, tries: pair}
	c.lanes = append(c.lanes, &lane{climb: c})
	if len(p.lives) <= alone {
		c.lanes = append(c.lanes, &lane{climb: c})
	}
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
			return ok && s.highest <= c.line(stages)
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

// line is how high a skyline is to become after a stage at most.
func (c *climb) line(at int) int64 { return c.goal + c.goal/c.near*int64(at)/stages }

// through takes s all the way up, unless that is sure to be higher after a stage than most says. It also says how many looks
// it took.
func (c *climb) through(s *skyline, most func(at int) int64, stopped func() bool) (looks int, ok bool) {
	for at := 1; at <= stages; at++ {
		c.ascend(s, at)
		looks += s.looks
		if s.sure() > most(at) || stopped() {
			return looks, false
		}
	}
	return looks, true
}

// ascend takes s to the end of a stage.
func (c *climb) ascend(s *skyline, at int) {
	s.top, s.ceiling = c.goal+c.goal/s.route.aim, c.goal+c.goal/room
	s.weigh()
	level := int64(math.MaxInt64)
	if at < stages {
		level = s.floor + (c.goal-s.floor)/stages*int64(at)
	}
	s.looks = passage * len(s.lives) / stages
	s.advance(level)
}

// again is the best of best and of climbs in stages, until that is near enough, or so many looks are spent, or it is
// stopped. Once no more are cheap, further ones have to be worth it.
func (c *climb) again(best *skyline, cheap, looks int, stopped func() bool) *skyline {
	for best.highest > c.line(stages) && c.looks < looks && c.affords() && !stopped() {
		over := best.highest - c.goal
		if c.ups > 0 && c.looks >= cheap && (over <= c.goal/fair || over > c.goal/hopeful) {
			break
		}
		best = c.another(best, stopped)
	}
	return best
}

// affords is whether there is time for another climb.
func (c *climb) affords() bool {
	cost := 0
	for _, l := range c.lanes {
		cost += climbing * (stages - l.from()) / stages
	}
	return c.clock.shared() > cost*len(c.base.lives)
}

// pressed is how hard all sections of s together press against the goal: by the eighth power of how little they have to
// spare below a line above it, so that those that will not come near it count for next to nothing. All products are
// rounded, as those of waste are.
func (s *skyline) pressed(goal int64) (sum float64) {
	left := s.left.values(s.sections)
	for a := int32(0); a < s.sections; a = s.end[a] {
		for _, bytes := range left[a:s.end[a]] {
			x := scope / max(float64(goal-s.height[a]-bytes)/float64(goal)+scope, hardest)
			x2 := float64(x * x)
			x4 := float64(x2 * x2)
			sum += float64(x4 * x4)
		}
	}
	return sum
}

// sure is how high s will become at least.
func (s *skyline) sure() (top int64) {
	top = s.highest
	for a := int32(0); a < s.sections; a = s.end[a] {
		if left, _ := s.left.most(a, s.end[a]); left > 0 {
			top = max(top, s.height[a]+left)
		}
	}
	return top
}
