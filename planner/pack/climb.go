package pack

import (
	"math"
	"math/bits"
	"slices"
)

// climb builds a skyline. At first it goes all the way up on one route, and on another beside it, in case that the first
// does not come near enough. If neither does, it goes up in many short stages, each of a few lives on top of each other: each is
// tried on several routes, and it goes on from where all sections together press least against the goal, for what is worst now
// tells little about what will be; lane.go is how two cores share that. A climb from the floor is followed by others of its end,
// as what is too high in the end is hardly ever so before: that takes a quarter of the time, and has as much luck. Then comes
// another from the floor, which takes the routes in other turns.
type climb struct {
	goal   int64
	near   int64    // the share of the goal above it that is near enough
	base   *skyline // nothing but the floor
	lanes  []*lane
	tries  int // routes for a stage
	stages int // of a climb
	ups    int // climbs in stages
	looks  int
	clock  *clock
	scale  scale // made for the first climb in stages
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
		{16, 3, 0.1, 512, 0.01},
		{32, 1, 0.375, tight, 0.003},
		{32, 3, 0.75, tight, 0.003},
		{16, 1, 1, 512, 0.003},
		{8, 1, 3, 512, 0.003},
		{32, 0.3, 0.375, 512, 0.003},
		{8, 3, 0.125, 256, 0.001},
		{16, 3, 0.375, 512, 0.003},
		{16, 0.3, 3, tight, 0.001},
	}
)

const (
	legs       = 64      // stages of a skyline on one route
	mostStages = 512     // and of a climb, which has no less
	apiece     = 4       // lives of those alive at once for each stage of a climb, if that makes no more
	endings    = 4       // of one climb
	pair       = 4       // routes for a stage of few lives, which have as many climbs as they take
	tries      = 6       // and of many
	content    = 128     // a packing that this share of the goal above it holds is near enough, less than a percent
	fair       = 101     // and one that holds this is too, after one climb in stages
	tight      = 1 << 62 // hardly any
	room       = 200     // the share of the goal above it that there is to fill up what is nearly even
	passage    = 100     // looks, for each life, that the stages together cost beside those that are counted
	weighing   = 8       // sections that cost a look in each stage
	hopeful    = 64      // what this does not hold is not climbed again
	tried      = 550     // looks, for each life, below which a climb in stages is followed by another in any case
	tucking    = 250     // looks, for each life, to make room below a top for what sticks out of a skyline
	mostClimbs = 40      // and ends of climbs, one after another
	climbs     = 1750    // looks, for each life, that climbs are worth
	mending    = 300     // looks, for each life, that mending is worth
	heed       = 40      // the share of the goal above it below which sections press
	heeded     = 8       // such shares below that, from which on they do not
	hardest    = 10      // of such a share is what a section has to spare there at least, as it is seen
	finely     = 10      // bits for such a share
)

// mostClimbed is a goal above which what is summed up on the way up would not be numbers.
const mostClimbed = math.MaxInt64 / 4

// grow packs p as a skyline, and keeps it if it is lower than what there is. Many lives have the first strategy tried before.
// Where no skyline is near enough, room is made below a top for what sticks out of many lives, which is quick and often does.
// Then lives that a search is not tried for later are packed from what it makes of the large ones; if that does not come near
// they are climbed.
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
	p.climbOn(c, s)
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

// open goes on from s with one climb after another, each of which has room made below a top, for as long as there is time and they
// are not hopeless. It comes to the lowest, and whether p is packed.
func (p *part) open(c *climb, s *skyline) (best *skyline, done bool) {
	for k := 0; k < mostClimbs && c.affords(); k++ {
		if k > 0 && s.highest-c.goal > c.goal/hopeful {
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
	return part{lives: p.lives, sections: p.sections, floor: p.floor, offsets: slices.Clone(s.offsets), top: s.highest, by: "skyline", clock: p.clock}
}

// keep makes p the same as o if that is lower.
func (p *part) keep(o part) {
	if o.top < p.top {
		p.offsets, p.top, p.by = o.offsets, o.top, o.by
	}
}

func newClimb(p *part, goal, near int64) *climb {
	c := &climb{goal: goal, near: near, base: newSkyline(p), clock: p.clock, tries: tries}
	if len(p.lives) <= few {
		c.tries = pair
	}
	c.base.ceiling = goal + goal/room
	together := slices.Max(sumOf(p.lives, p.sections, func(*life) int64 { return 1 }))
	c.stages = min(max(legs, int(together)/apiece), mostStages)
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

// endsFrom is the stage at whose end the end of a climb begins.
func (c *climb) endsFrom() int { return c.stages * 3 / 4 }

// line is how high a skyline on one route is to become after a stage at most.
func (c *climb) line(at int) int64 { return c.goal + c.goal/c.near*int64(at)/legs }

// through takes s all the way up, unless that is sure to be higher after a stage than most says. It also says how many looks
// it took.
func (c *climb) through(s *skyline, most func(at int) int64, stopped func() bool) (looks int, ok bool) {
	for at := 1; at <= legs; at++ {
		s.weigh()
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
	s.changes.forget()
	s.top = c.goal + c.goal/s.route.aim
	level := int64(math.MaxInt64)
	if at < stages {
		level = s.floor + (c.goal-s.floor)/int64(stages)*int64(at)
	}
	s.looks = passage*len(s.lives)/stages + int(s.sections)/weighing
	s.advance(level)
}

// again is the best of best and of climbs in stages, until that is near enough, or so many looks are spent, or it is
// stopped. Once no more are cheap, further ones have to be worth it.
func (c *climb) again(best *skyline, cheap, looks int, stopped func() bool) *skyline {
	for best.highest > c.line(legs) && c.looks < looks && c.affords() && !stopped() {
		over := best.highest - c.goal
		if c.ups > 0 && c.looks >= cheap && (over <= c.goal/fair || over > c.goal/hopeful) {
			break
		}
		best = c.another(best, stopped)
	}
	return best
}

// affords is whether there is time for another climb.
func (c *climb) affords() bool { return c.clock.shared() > c.cost() }

// cost is how many looks of both cores another climb is expected to take.
func (c *climb) cost() (looks int) {
	stage := climbing*len(c.base.lives)/c.stages + int(c.base.sections)/weighing
	for _, l := range c.lanes {
		looks += (c.stages - l.from()) * stage
	}
	return looks * c.tries
}

// scale is how hard a section presses against the goal, by how far below a line above that it is.
type scale struct {
	line  int64
	units int // the power of two of bytes that are one step
	hard  []float64
}

// newScale is by the eighth power of how little there is to spare, so that sections that will not come near the goal count for
// next to nothing. All products are rounded, as those of waste are.
func newScale(goal int64) (s scale) {
	share := max(goal/heed, 1)
	s.line, s.units = goal+share, max(bits.Len64(uint64(share))-finely, 0)
	s.hard = make([]float64, share*heeded>>s.units+1)
	for k := range s.hard {
		x := float64(share) / max(float64(k)*float64(int64(1)<<s.units), float64(share)/hardest)
		x2 := float64(x * x)
		x4 := float64(x2 * x2)
		s.hard[k] = float64(x4 * x4)
	}
	return s
}

// pressed is how hard sections that come to so many heights press together.
func (s *scale) pressed(heights []int64) (sum float64) {
	line, units, hard := s.line, s.units, s.hard
	for _, height := range heights {
		if k := max(0, line-height) >> units; k < int64(len(hard)) {
			sum += hard[k]
		}
	}
	return sum
}

// least is how high s will become at least.
func (s *skyline) least() int64 { return max(s.highest, slices.Max(s.sure)) }
