package pack

import "math"

// climb builds a skyline in stages. A stage goes up to a height; of the skylines that several routes lead to from where
// the stage before ended, the one is kept whose worst section is sure to end lowest. If that is above a line that rises
// from the goal, stage by stage, to what is near enough, stages are taken back and tried on other routes, more of them
// each time, and with care for the sections that came to be above the line. So a problem may lose a little at every
// height but much at none, and what one route does badly another does; none is good for all problems.
type climb struct {
	goal   int64
	floor  int64
	stages [stages + 1]stage
	trials [2]*skyline
	heat   []int64 // by section: bytes that a route sees to come beside those that are
	hot    []int32 // the sections that have heat
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
}

// routes are tried from the top, after the one that the stage before ended with.
var routes = [...]route{
	{16, 1, 0, 256},
	{16, 1, 1, 256},
	{16, 3, 1, 512},
	{16, 0.3, 1, 256},
	{16, 3, 0, tight},
	{16, 1, 2, tight},
	{32, 10, 1, 512},
	{32, 1, 0.5, content},
}

const (
	stages  = 16
	content = 128     // a packing that this share of the goal above it holds is near enough, less than a percent
	tight   = 1 << 62 // hardly any
	spare   = 200     // the share of the goal above it that there is to fill up what is nearly even
	heating = 400     // the share of the goal that heats a section once
	passing = 400     // looks, for each life, after which no stage is taken back
	leaping = 800     // as many if one stage lost half of what is near enough: another route may not lose it
	passage = 100     // looks, for each life, that the stages together cost beside those that are counted
	mending = 300     // looks, for each life, that mending is worth
)

// grow packs p as a skyline, mends that, and keeps it if it is lower than what there is.
func (p *part) grow(goal int64) {
	if goal > math.MaxInt64/4 {
		return // what is summed up on the way would not be numbers
	}
	s := newClimb(p, goal).run()
	grown := part{lives: p.lives, sections: p.sections, floor: p.floor, offsets: s.offsets, top: s.highest, by: "skyline"}
	grown.mend(goal, goal+goal/content, mending*len(p.lives))
	if grown.top < p.top {
		p.offsets, p.top, p.by = grown.offsets, grown.top, grown.by
	}
}

func newClimb(p *part, goal int64) *climb {
	c := &climb{goal: goal, floor: p.floor, heat: make([]int64, p.sections)}
	floor := newSkyline(p)
	c.stages[0].end = floor
	for i := range c.stages[1:] {
		c.stages[i+1] = stage{end: floor.twin(), top: math.MaxInt64}
	}
	for i := range c.trials {
		c.trials[i] = floor.twin()
	}
	return c
}

// run is a skyline of all lives.
func (c *climb) run() *skyline {
	for at := 1; at <= stages; {
		s := &c.stages[at]
		line := c.goal + c.goal/content*int64(at)/stages
		for n := 1; n <= len(c.trials) && s.top > line; n++ { // one is often enough
			c.tryAll(c.trials[:n], at, line)
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

// worth is the looks, for each life, that may be spent before a stage is left as it is.
func (c *climb) worth(at int) int {
	if c.stages[at].top-c.stages[at-1].top > c.goal/content/2 {
		return leaping
	}
	return passing
}

// tryAll tries as many routes to the end of a stage as there are trials, side by side.
func (c *climb) tryAll(trials []*skyline, at int, line int64) {
	s := &c.stages[at]
	done := make(chan bool)
	for i, t := range trials {
		t.route = routes[s.tries%len(routes)]
		if s.tries == 0 && at > 1 {
			t.route = c.stages[at-1].end.route
		}
		s.tries++
		if i > 0 {
			go func() { c.try(t, at); done <- true }()
		}
	}
	c.try(trials[0], at)
	for range trials[1:] {
		<-done
	}
	for i, t := range trials {
		if top := c.sure(t, line); top < s.top {
			s.top = top
			s.end, trials[i] = t, s.end
		}
	}
}

// try makes s what its route leads to in a stage.
func (c *climb) try(s *skyline, at int) {
	s.become(c.stages[at-1].end)
	s.top, s.ceiling = c.goal+c.goal/s.route.aim, c.goal+c.goal/spare
	for _, t := range c.hot {
		s.left.add(t, t+1, c.heat[t])
	}
	level := int64(math.MaxInt64)
	if at < stages {
		level = c.floor + (c.goal-c.floor)/stages*int64(at)
	}
	s.looks = passage * len(s.lives) / stages
	s.advance(level)
	for _, t := range c.hot {
		s.left.add(t, t+1, -c.heat[t])
	}
}

// sure is how high s will become at least. It heats the sections in which that is above the line.
func (c *climb) sure(s *skyline, line int64) (top int64) {
	c.looks += s.looks
	top = s.highest
	for a := int32(0); a < s.sections; a = s.end[a] {
		for b := a; b < s.end[a]; b++ {
			left, t := s.left.most(b, s.end[a])
			if left == 0 {
				break
			}
			top = max(top, s.height[a]+left)
			if s.height[a]+left <= line {
				break
			}
			if c.heat[t] == 0 {
				c.hot = append(c.hot, t)
			}
			c.heat[t] += max(1, c.goal/heating)
			b = t
		}
	}
	return top
}
