package pack

import "math"

// climb builds a skyline in stages. At first it goes all the way up on one route. If that does not come near enough because a
// little was lost at every height, no stage is to blame, and it goes up again on routes that are unlike the first. But what
// was lost at once in one stage another route may not lose: then several go side by side for one stage after another, from
// where the stage before ended, and the skyline is kept whose worst section is sure to end lowest. If that is above a line
// that rises from the goal, stage by stage, to what is near enough, stages are taken back and tried on other routes, more
// of them each time.
type climb struct {
	goal   int64
	near   int64    // the share of the goal above it that is near enough
	base   *skyline // nothing but the floor
	stages [stages + 1]stage
	trials [2]*skyline
	best   *skyline // the best of those, where there are more climbs than one
	turn   int      // routes that those took
	leap   int64    // the most that the best skyline lost in one stage
	lost   int64    // by how much the best skyline so far misses the goal
	looks  int
}

// stage is what is known of a stage.
type stage struct {
	end   *skyline // the best of what it led to
	top   int64    // how high that is sure to become
	tries int      // routes tried
	falls int      // how often no route was good enough
}

// route is how a skyline chooses.
type route struct {
	variety int     // how many lives of each group to look at for a place
	length  float64 // what it is worth that a life is long, against sections that are left beside it
	ease    float64 // how ready it is to fill up what is nearly even
	aim     int64   // the share of the goal above it that it tries to stay within
	focus   float64 // the share of the ceiling that a section may have to spare and weigh half of one that has none; 0: all weigh the same
}

// neat is the route for what can be packed with next to no loss, which is given up when it loses more.
var neat = route{16, 1, 0, 256, 0}

// wholes are the routes that go all the way.
var wholes = [...]route{
	{16, 1, 1, 256, 0.003},
	{16, 1, 2, tight, 0.003},
	{64, 1, 0, 256, 0},
}

// routes are tried for a stage from the top, after the one that the stage before ended with.
var routes = [...]route{
	{16, 1, 0, 256, 0.003},
	{16, 1, 1, 256, 0.003},
	{16, 3, 1, 512, 0.003},
	{16, 0.3, 1, 256, 0.003},
	{16, 3, 0, tight, 0.003},
	{16, 1, 2, tight, 0.003},
	{32, 10, 1, 512, 0.003},
	{32, 1, 0.5, content, 0.003},
}

const (
	stages   = 16
	early    = 13      // stages in which other routes may make a loss good
	content  = 128     // a packing that this share of the goal above it holds is near enough, less than a percent
	fair     = 104     // with no more than this share above it, it does not go stage by stage
	tight    = 1 << 62 // hardly any
	room     = 200     // the share of the goal above it that there is to fill up what is nearly even
	passing  = 600     // looks, for each life, after which no stage is taken back
	leaping  = 700     // as many if one stage lost half of what is near enough: another route may not lose it
	hopeless = 16      // the share of the goal above it that stages can make good at most
	passage  = 100     // looks, for each life, that the stages together cost beside those that are counted
	mending  = 300     // looks, for each life, that mending is worth
)

// grow packs p as a skyline, mends that, and keeps it if it is lower than what there is.
func (p *part) grow(goal int64) {
	if goal > math.MaxInt64/4 {
		return // what is summed up on the way would not be numbers
	}
	c := climb{goal: goal, near: content, base: newSkyline(p)}
	s, done := c.first()
	if !done {
		if p.growCore(goal, s.highest) {
			return
		}
		s = c.run(s)
	}
	grown := part{lives: p.lives, sections: p.sections, floor: p.floor, offsets: s.offsets, top: s.highest, by: "skyline"}
	grown.mend(goal, goal+goal/fair, mending*len(p.lives))
	if grown.top < p.top {
		p.offsets, p.top, p.by = grown.offsets, grown.top, grown.by
	}
}

// first is a skyline of all lives on the neat route, if that loses next to nothing, or else on one that goes all the way;
// and whether it is near enough.
func (c *climb) first() (s *skyline, done bool) {
	s = c.base.twin()
	s.route = neat
	if _, ok := c.through(s, c.line); ok {
		return s, true
	}
	s.become(c.base)
	s.route = wholes[0]
	c.leap, _ = c.through(s, func(int) int64 { return math.MaxInt64 })
	return s, s.highest <= c.line(stages)
}

// run is a skyline of all lives, best or a lower one.
func (c *climb) run(best *skyline) *skyline {
	next := c.base.twin()
	for _, r := range wholes[1:] {
		if c.leapt(best) {
			break
		}
		next.become(c.base)
		next.route = r
		leap, ok := c.through(next, func(int) int64 { return best.highest - 1 })
		if !ok {
			continue
		}
		c.leap = leap
		if best, next = next, best; best.highest <= c.line(stages) {
			return best
		}
	}
	if c.leapt(best) {
		c.lost = best.highest - c.goal
		if s := c.byStages(); s.highest < best.highest {
			return s
		}
	}
	return best
}

// leapt is whether s, the best so far, is too high and lost much of that in one stage.
func (c *climb) leapt(s *skyline) bool {
	return c.leap > c.goal/content/2 && s.highest > c.goal+c.goal/fair
}

// line is how high a skyline is to become after a stage at most.
func (c *climb) line(at int) int64 { return c.goal + c.goal/c.near*int64(at)/stages }

// through takes s all the way up, unless that is sure to be higher after a stage than most says. leap is the most that was
// lost in one of the stages that others could make good for.
func (c *climb) through(s *skyline, most func(at int) int64) (leap int64, ok bool) {
	before := c.goal
	for at := 1; at <= stages; at++ {
		c.ascend(s, at)
		c.looks += s.looks
		top := s.sure()
		if top > most(at) {
			return 0, false
		}
		if at <= early {
			leap = max(leap, top-before)
		}
		before = top
	}
	return leap, true
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

// byStages is a skyline of all lives that went up stage by stage.
func (c *climb) byStages() *skyline {
	c.stages[0].end = c.base
	for i := range c.stages[1:] {
		c.stages[i+1] = stage{end: c.base.twin(), top: math.MaxInt64}
	}
	for i := range c.trials {
		c.trials[i] = c.base.twin()
	}
	for at := 1; at <= stages; {
		s := &c.stages[at]
		line := c.line(at)
		for n := 1; n <= len(c.trials) && s.top > line; n++ { // one is often enough
			c.tryAll(c.trials[:n], at)
		}
		if s.top <= line || at == 1 || c.looks > c.worth(at)*len(s.end.lives) {
			at++
			continue
		}
		s.falls++
		for back := 2<<min(s.falls, stages) - 2; back > 0 && at > 1; back-- {
			at--
			c.stages[at].top = math.MaxInt64
		}
	}
	return c.stages[stages].end
}

// worth is the looks, for each life, that may be spent before a stage is left as it is: the fewer, the more was lost on all
// ways so far, if that is more than stages can make good.
func (c *climb) worth(at int) int {
	looks := passing
	if c.stages[at].top-c.stages[at-1].top > c.goal/content/2 {
		looks = leaping
	}
	if hope := c.goal / hopeless; c.lost > hope {
		looks = int(float64(looks) * (float64(hope) / float64(c.lost)))
	}
	return looks
}

// tryAll tries as many routes to the end of a stage as there are trials, side by side.
func (c *climb) tryAll(trials []*skyline, at int) {
	s := &c.stages[at]
	for _, t := range trials {
		t.route = routes[s.tries%len(routes)]
		if s.tries == 0 && at > 1 {
			t.route = c.stages[at-1].end.route
		}
		s.tries++
	}
	c.sideBySide(trials, func(_ int, t *skyline) { c.try(t, at) })
	for i, t := range trials {
		if top := t.sure(); top < s.top {
			s.top = top
			s.end, trials[i] = t, s.end
		}
	}
}

// sideBySide has each trial go up, and counts what they look at.
func (c *climb) sideBySide(trials []*skyline, up func(i int, t *skyline)) {
	done := make(chan bool)
	for i, t := range trials[1:] {
		go func() { up(i+1, t); done <- true }()
	}
	up(0, trials[0])
	for range trials[1:] {
		<-done
	}
	for _, t := range trials {
		c.looks += t.looks
	}
}

// try makes s what its route leads to in a stage.
func (c *climb) try(s *skyline, at int) {
	s.become(c.stages[at-1].end)
	c.ascend(s, at)
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
