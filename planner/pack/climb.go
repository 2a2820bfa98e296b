package pack

import "math"

// climb builds a skyline in stages. It goes up on one route that is given up as soon as a little is lost, and on another all
// the way. If neither comes near enough it goes up again and again, with several routes side by side for each stage, from
// where the best of the stage before ended: what one route loses, another may not. The best is where least presses against
// the goal, over all sections, for what is worst now tells little about what will be.
type climb struct {
	goal   int64
	base   *skyline // nothing but the floor
	trials [beside]*skyline
	turn   int // routes taken so far
	placed int // lives placed so far, all routes together, and one for each try: the work done, the same on every machine
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

// routes are taken in turn, the first of them alone before all others.
var routes = [...]route{
	{16, 1, 1, 256, 0.003},
	{32, 10, 1, 512, 0.003},
	{16, 1, 2, tight, 0.003},
	{16, 3, 1, 512, 0.003},
	{16, 1, 0, 256, 0.003},
	{16, 0.3, 1, 256, 0.003},
	{64, 1, 0, 256, 0},
	{32, 1, 0.5, content, 0.003},
}

const (
	stages  = 16
	beside  = 4        // routes side by side
	climbs  = 7        // times that all lives may have been placed before it goes up once more
	enough  = 3 * few  // many lives are worth as much as so many
	plenty  = 15 * few // and more than so many as little, as each climb takes long
	around  = 3        // as many where lives are fixed, which are looked at longer
	content = 128      // a packing that this share of the goal above it holds is near enough, less than a percent
	fair    = 104      // with no more than this share above it, it can be left or mended
	tight   = 1 << 62  // hardly any
	spare   = 200      // the share of the goal above it that there is to fill up what is nearly even
	mending = 300      // looks, for each life, that mending is worth
)

// grow packs p as a skyline, mends that, and keeps it if it is lower than what there is.
func (p *part) grow(goal int64) {
	if goal > math.MaxInt64/4 {
		return // what is summed up on the way would not be numbers
	}
	c := climb{goal: goal, base: newSkyline(p)}
	s := c.run()
	grown := part{lives: p.lives, sections: p.sections, floor: p.floor, offsets: s.offsets, top: s.highest, by: "skyline"}
	grown.mend(goal, goal+goal/fair, mending*len(p.lives))
	if grown.top < p.top {
		p.offsets, p.top, p.by = grown.offsets, grown.top, grown.by
	}
}

// run is a skyline of all lives.
func (c *climb) run() (best *skyline) {
	best = c.base.twin()
	if best.route = neat; c.alone(best, c.line) {
		return best
	}
	best.become(c.base)
	best.route = routes[0]
	c.alone(best, func(int) int64 { return math.MaxInt64 })
	n := len(best.lives)
	worth := climbs * n
	switch {
	case len(best.blocks) > 0:
		worth = around * n
	case n > few:
		worth = climbs * min(max(n, enough), plenty)
	}
	most := best.highest - 1
	for next := c.base.twin(); best.highest > c.line(stages) && c.placed < worth; {
		next.become(c.base)
		if c.together(next, most) {
			best, next = next, best
		}
		most = min(best.highest-1, c.goal+c.goal/fair)
	}
	return best
}

// line is how high a skyline may become after a stage, if it is to end near enough.
func (c *climb) line(at int) int64 { return c.goal + c.goal/content*int64(at)/stages }

// alone takes s all the way up on its route, unless that is sure to be higher after a stage than most says.
func (c *climb) alone(s *skyline, most func(at int) int64) bool {
	for at := 1; at <= stages; at++ {
		before := s.placed
		c.ascend(s, at)
		c.placed += s.placed - before
		if s.sure() > most(at) {
			return false
		}
	}
	return true
}

// together takes s all the way up on the best of several routes for each stage, unless that is sure to be higher than most.
func (c *climb) together(s *skyline, most int64) bool {
	c.turn++ // so that no climb is as the one before
	for at := 1; at <= stages; at++ {
		for i := range c.trials {
			if c.trials[i] == nil {
				c.trials[i] = c.base.twin()
			}
			c.turn++
			c.trials[i].route = routes[c.turn%len(routes)]
		}
		var pressed [beside]float64
		try := func(from int) { // every other trial
			for i := from; i < beside; i += 2 {
				c.trials[i].become(s)
				c.ascend(c.trials[i], at)
				pressed[i] = c.trials[i].pressed(c.goal)
			}
		}
		done := make(chan bool)
		go func() { try(1); done <- true }()
		try(0)
		<-done
		best := 0
		for i, t := range c.trials {
			c.placed += 1 + t.placed - s.placed
			if pressed[i] < pressed[best] {
				best = i
			}
		}
		*s, *c.trials[best] = *c.trials[best], *s
		if s.sure() > most {
			return false
		}
	}
	return true
}

// ascend takes s to the end of a stage.
func (c *climb) ascend(s *skyline, at int) {
	s.top, s.ceiling = c.goal+c.goal/s.route.aim, c.goal+c.goal/spare
	s.weigh()
	level := int64(math.MaxInt64)
	if at < stages {
		level = s.floor + (c.goal-s.floor)/stages*int64(at)
	}
	s.advance(level)
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

const (
	scope   = 0.025  // the share of the goal above it in which a section is seen as pressed
	hardest = 0.0025 // the share of it that a section has to spare there at least, as it is seen
)

// pressed is how hard all sections of s together press against the goal: by the eighth power of how little they have to
// spare below a line above it, so that those that will not come near it count for next to nothing. All products are
// rounded, as those of waste are.
func (s *skyline) pressed(goal int64) (sum float64) {
	left := s.left.values(s.sections)
	for a := int32(0); a < s.sections; a = s.end[a] {
		for _, bytes := range left[a:s.end[a]] {
			room := float64(goal-s.height[a]-bytes)/float64(goal) + scope
			x := scope / max(room, hardest)
			x2 := float64(x * x)
			x4 := float64(x2 * x2)
			sum += float64(x4 * x4)
		}
	}
	return sum
}
