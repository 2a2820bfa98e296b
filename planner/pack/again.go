package pack

import "math"

// again is for what is worth more than one climb: it goes up again and again, with routes side by side for each stage, and
// takes the one on which all sections together press least against the goal, for what is worst now tells little about what
// will be.

const (
	scope   = 0.025  // the share of the goal above it in which a section is seen as pressed
	hardest = 0.0025 // the share of it that a section has to spare there at least, as it is seen
	rounds  = 2      // routes for a stage, by each trial
	polish  = 2      // the share of the looks that a skyline is worth that is near enough but not close
)

// again is the best of several climbs, and of best, until that is near or so many looks are spent.
func (c *climb) again(best *skyline, looks int) *skyline {
	if best.highest <= c.line(stages) {
		return best
	}
	c.best = c.base.twin()
	for i := range c.trials {
		c.trials[i] = c.base.twin()
	}
	for next := c.base.twin(); best.highest > c.line(stages) && c.looks < looks; {
		if best.highest <= c.goal+c.goal/fair && c.looks >= looks/polish {
			break
		}
		next.become(c.base)
		if c.once(next, best.highest-1) {
			best, next = next, best
		}
	}
	return best
}

// once takes s all the way up, unless that is sure to be higher than most. One round is enough for a stage that comes to no
// more than the line.
func (c *climb) once(s *skyline, most int64) bool {
	c.turn++ // so that no climb is as the one before
	for at := 1; at <= stages; at++ {
		least := math.Inf(1)
		for round := 0; round < rounds && (round == 0 || c.best.sure() > c.line(at)); round++ {
			for i, pressed := range c.pair(s, at) {
				if pressed < least {
					least = pressed
					c.best, c.trials[i] = c.trials[i], c.best
				}
			}
		}
		*s, *c.best = *c.best, *s
		if s.sure() > most {
			return false
		}
	}
	return true
}

// pair takes the trials from s to the end of a stage, side by side, and says how hard each is pressed there.
func (c *climb) pair(s *skyline, at int) (pressed [2]float64) {
	for _, t := range c.trials {
		t.route = routes[c.turn%len(routes)]
		c.turn++
	}
	c.sideBySide(c.trials[:], func(i int, t *skyline) {
		t.become(s)
		c.ascend(t, at)
		pressed[i] = t.pressed(c.goal)
	})
	return pressed
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
