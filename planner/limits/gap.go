package limits

// gap is what lies between two limits: all those in it have the plan of the upper one, if that is within, or that of
// the lower one.
type gap[P Plan] struct {
	*Limits[P]
	k            int64 // of the grid limit below
	low, high    int64
	upper, lower P
	reached      bool // the lower plan is known
	halved       int64
	steps        int
}

// answers reports whether a limit has the plan of the upper one, or none.
func (g *gap[P]) answers(limit int64) bool { return none(g.upper) || g.upper.Height() <= limit }

// narrow has other plans on either side of a limit, and reports whether it found any.
func (g *gap[P]) narrow(limit int64) bool {
	if bound, may := g.Early(g.low); may && g.close(bound, g.upper.Cost()) {
		if lower := g.reach(); !none(lower) && g.close(lower.Cost(), g.upper.Cost()) { // both cost about the same
			return false
		}
	}
	if g.halved < g.halving && g.differ() {
		g.halved++
		g.halve(g.low+(g.high-g.low)/2, limit)
		return true
	}
	return g.step()
}

// differ reports whether it is worth looking between the limits.
func (g *gap[P]) differ() bool {
	if g.high-g.low <= g.Align {
		return false
	}
	a, may := g.Early(g.low)
	b, _ := g.Early(g.high)
	return !may || !g.close(a, b)
}

// close reports whether a cost is about as low as another one, or lower.
func (l *Limits[P]) close(a, b float64) bool {
	return a-b < min(l.apart, apartOfBound*a) || a <= b
}

// reach is the plan of the lower limit.
func (g *gap[P]) reach() P {
	if !g.reached {
		g.lower, g.reached = g.onGrid(g.k), true
	}
	return g.lower
}

// halve makes the gap that half of it in which a limit is.
func (g *gap[P]) halve(mid, limit int64) {
	plan := g.from(g.upper, mid)
	if out := none(plan) || plan.Cost() < g.upper.Cost(); out || g.mayBeat(g.low, plan) {
		if lower := g.reach(); out || !none(lower) && lower.Cost() < plan.Cost() {
			plan = lower
		}
	}
	if mid <= limit {
		g.low, g.lower, g.reached = mid, plan, true
	} else {
		g.high, g.upper = mid, plan
	}
}

// step puts a plan below that of the upper limit in its place, and reports whether there was one.
func (g *gap[P]) step() bool {
	next := g.upper.Height() - 1
	if g.steps++; g.steps > mostSteps || next <= g.low {
		return false
	}
	plan := g.from(g.upper, next)
	if none(plan) || plan.Cost() < g.upper.Cost() {
		return false
	}
	if g.mayBeat(g.low, plan) {
		if lower := g.reach(); !none(lower) && lower.Cost() <= plan.Cost() {
			return false
		}
	}
	g.upper = plan
	return true
}

// from is what is found for a limit from the plan of a higher one.
func (l *Limits[P]) from(upper P, limit int64) P {
	key := fromTo[P]{upper, limit}
	c, known := l.ways[key]
	if !known {
		c = l.Near(limit, upper)
		l.ways[key] = c
	}
	return c
}
