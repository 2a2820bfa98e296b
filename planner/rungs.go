package planner

import "math"

// What is found for a limit is chance to some degree, so that more memory might cost
// more than less does. So a limit is answered from plans that do not depend on it. Those
// are of rungs, which are fixed shares of the plain arena, and of halves, quarters and so
// on between two rungs, as far as bounds differ there.
//
//   - A rung's plan is the cheapest of those found for all rungs up to it, and of those that
//     missed a lower one when they were placed, but not it. If there is none, it is what was
//     found for the next one, should that be within.
//   - Halfway between two limits that have plans there is what was found there, unless
//     that costs more than the plan of the lower one or less than that of the upper one:
//     then there is the plan of the lower one.
//   - From there a few steps lead down: each is what is found with less than the plan
//     before it takes, as long as that costs no less, and no more than the next limit
//     below does.
//   - Any other limit has the plan of the next one above, if that is within it, or else
//     of the next one below.
//   - Below the lowest rung that has a plan, where a hair less memory may take far more compute,
//     there are the plans of a descent from there to the floor, each for all limits that it is
//     the cheapest within, unless it is cheaper than that rung's.
//
// So no limit's plan costs more than that of a lower one, whatever solving finds. Most
// rungs need not be solved to know that: where the bound of one is not below what a
// known plan costs, none from there down is cheaper. Mostly that is the next one.
//
// In long programs, where a plan takes long, rungs are closer and nothing is halved.
const (
	rungs     = 100 // so that whole shares of a hundred are answered by what was asked for
	longRungs = 500
	halving   = 6 // how often the distance of two rungs is halved at most
	steps     = 3 // from what is next above a limit
)

// apart is how much bounds of two limits differ, as a part of the plain step's cost, if
// it is worth looking between them; or, where bounds are low, as a part of these.
const apart, apartOfBound = 0.0005, 0.05

// atBound is how near to its bound a plan is taken to be at it, as such a part.
const atBound = 0.003

// nearFloor is the part of the floor that a rung without a plan may be above it.
const nearFloor = 8

// levelBounds is by how much of itself a bound is hardly higher than another.
const levelBounds = 0.01

// found is what solving found for a limit: a plan or nil, and a bound for it and all below.
// Without a plan, what might be found for it costs from so much on: that is too much for
// whoever asked. Plans above were to be within the limit, but their arenas are not.
type found struct {
	plan  *candidate
	above []*candidate
	least float64
	from  float64
}

// ladder answers limits of one program.
type ladder struct {
	base           *candidate
	floor          int64 // no plan is within less
	rungs, halving int64
	apart          float64
	// excludes reports whether it is known at once that nothing within a limit costs less;
	// least is a bound, and whether there may be a plan; early is that as it was at first,
	// so that it does not depend on what was asked.
	excludes     func(limit int64, cost float64) bool
	least, early func(limit int64) (float64, bool)
	// solve solves a limit, and another one beside it, if that is not 0, for plans that
	// cost less than some other.
	solve func(limit, beside int64, other float64) (a, b found, err error)
	// sink tells of plans that are lower and lower, all below the first, which is the lowest of a rung.
	sink func(first *candidate, lower func(*candidate)) error
	lows []*candidate // the bottom, once it was asked for
	// near is a plan for a limit from that of a higher one, or nil.
	near  func(limit int64, from *candidate) (*candidate, error)
	known map[int64]found
	ways  map[fromTo]*candidate
	// dear stands for all plans that cost clearly more than is of use to whoever asks: it costs
	// as much as the cheapest of them, and is within any limit, as a limit's plan costs no less
	// than those of higher ones, so that nothing more need be known. Nil is none.
	dear *candidate
	most float64 // what a plan of use costs at most; the dear one is not close to it
}

// useful has plans that cost more than so much be of no use.
func (l *ladder) useful(most float64) {
	if l.most = most; !math.IsInf(most, 1) {
		l.dear = &candidate{cost: math.Nextafter(most+l.apart, math.Inf(1))}
	}
}

// orDear is a plan, or nil, or what stands for it.
func (l *ladder) orDear(c *candidate) *candidate {
	if c != nil && l.dear != nil && c.cost >= l.dear.cost {
		return l.dear
	}
	return c
}

// fromTo leads from a plan to a lower limit.
type fromTo struct {
	from  *candidate
	limit int64
}

// rung is the limit of one.
func (l *ladder) rung(k int64) int64 {
	top := l.base.placed.Height
	return top/l.rungs*k + top%l.rungs*k/l.rungs
}

// rungOf is the rung at a limit, or the next one below it.
func (l *ladder) rungOf(limit int64) int64 {
	k := min(int64(float64(limit)/float64(l.base.placed.Height)*float64(l.rungs))+1, l.rungs-1)
	for k > 0 && l.rung(k) > limit {
		k--
	}
	return k
}

// within is the plan for a limit below the plain arena, or nil; or dear.
func (l *ladder) within(limit int64) (*candidate, error) {
	c, err := l.answer(limit)
	if c != nil && l.dear != nil && c.cost > l.most {
		c = l.dear
	}
	return c, err
}

// answer is that plan, of use or not.
func (l *ladder) answer(limit int64) (*candidate, error) {
	if _, ok := l.least(limit); !ok {
		return nil, nil
	}
	k := l.rungOf(limit)
	low, high := l.rung(k), l.rung(k+1)
	if l.halving == 0 {
		return l.onRung(k)
	}
	switch has, err := l.has(k); {
	case err != nil:
		return nil, err
	case !has:
		return l.below(limit)
	case low == limit:
		return l.onRung(k)
	}
	upper, err := l.onRung(k + 1)
	if err != nil {
		return nil, err
	}
	g := &gap{ladder: l, k: k, low: low, high: high, upper: upper}
	for more := true; more && !g.answers(limit); {
		if more, err = g.narrow(limit); err != nil {
			return nil, err
		}
	}
	if g.answers(limit) {
		return g.upper, nil
	}
	return g.reach()
}

// gap is what lies between two limits: all those in it have the plan of the upper one, if
// that is within, or that of the lower one.
type gap struct {
	*ladder
	k            int64 // of the rung below
	low, high    int64
	upper, lower *candidate
	reached      bool  // the lower plan is known
	halved       int64 // how often it was
	steps        int   // that were made
}

// answers reports whether a limit has the plan of the upper one, or none.
func (g *gap) answers(limit int64) bool {
	return g.upper == nil || g.upper.placed.Height <= limit
}

// narrow has other plans on either side of a limit, and reports whether it found any.
func (g *gap) narrow(limit int64) (bool, error) {
	if even, err := g.even(); even || err != nil {
		return false, err
	}
	if mid := g.between(g.low, g.high); mid > 0 && g.halved < g.halving {
		g.halved++
		return true, g.halve(mid, limit)
	}
	return g.step()
}

// even reports whether the plans of both limits cost about the same.
func (g *gap) even() (bool, error) {
	if bound, ok := g.early(g.low); !ok || !g.close(bound, g.upper.cost) {
		return false, nil
	}
	lower, err := g.reach()
	return lower != nil && g.close(lower.cost, g.upper.cost), err
}

// reach is the plan of the lower limit.
func (g *gap) reach() (c *candidate, err error) {
	if !g.reached {
		g.lower, err = g.onRung(g.k)
	}
	g.reached = true
	return g.lower, err
}

// halve makes the gap that half of it in which a limit is.
func (g *gap) halve(mid, limit int64) error {
	plan, err := g.from(g.upper, mid)
	if err != nil {
		return err
	}
	if out := plan == nil || plan.cost < g.upper.cost; out || g.mayBeat(g.low, plan) {
		lower, err := g.reach()
		if err != nil {
			return err
		}
		if out || lower != nil && lower.cost < plan.cost {
			plan = lower
		}
	}
	if mid <= limit {
		g.low, g.lower, g.reached = mid, plan, true
	} else {
		g.high, g.upper = mid, plan
	}
	return nil
}

// step puts a plan below that of the upper limit in its place, and reports whether there
// was one.
func (g *gap) step() (bool, error) {
	next := g.upper.placed.Height - 1
	if g.steps++; g.steps > steps || next <= g.low {
		return false, nil
	}
	plan, err := g.from(g.upper, next)
	if err != nil || plan == nil || plan.cost < g.upper.cost {
		return false, err
	}
	if g.mayBeat(g.low, plan) {
		if lower, err := g.reach(); err != nil || lower != nil && lower.cost <= plan.cost {
			return false, err
		}
	}
	g.upper = plan
	return true, nil
}

// from is what is found for a limit from the plan of a higher one.
func (l *ladder) from(upper *candidate, limit int64) (c *candidate, err error) {
	key := fromTo{upper, limit}
	c, known := l.ways[key]
	if !known {
		if c, err = l.near(limit, upper); err == nil {
			c = l.orDear(c)
			l.ways[key] = c
		}
	}
	return c, err
}

// between is the limit halfway between two, 0 if it is not worth looking there.
func (l *ladder) between(low, high int64) int64 {
	if high-low <= alignment {
		return 0
	}
	if a, ok := l.early(low); ok {
		if b, _ := l.early(high); l.close(a, b) {
			return 0
		}
	}
	return low + (high-low)/2
}

// close reports whether a cost is hardly above another one, or no more than that.
func (l *ladder) close(a, b float64) bool {
	return a-b < min(l.apart, apartOfBound*a) || a <= b
}

// onRung is the plan of a rung.
func (l *ladder) onRung(k int64) (best *candidate, err error) {
	if k == l.rungs {
		return l.base, nil
	}
	if l.dear != nil && !l.mayBeat(l.rung(k), l.dear) {
		return l.dear, nil
	}
	least := 0.0
	for at := k; at > 0; at-- {
		limit, next, beside := l.rung(at), l.rung(at-1), int64(0)
		rival := best
		if best != nil { // whether there is one at all is known
			rival = cheaper(best, l.dear)
		}
		if rival != nil && (least >= rival.cost || !l.mayBeat(limit, rival)) {
			break
		}
		bound, ok := l.least(limit)
		if !ok {
			break
		}
		// What comes next, where this one will hardly say that it need not; but long programs
		// have no other hand for it.
		if l.halving > 0 && (rival != nil && l.mayBeat(next, rival) || rival == nil && l.level(next, bound)) {
			beside = next
		}
		other := math.Inf(1)
		if rival != nil {
			other = rival.cost
		}
		c, err := l.look(limit, beside, other)
		if err != nil {
			return nil, err
		}
		best, least = cheaper(best, c.plan), max(least, bound, c.least)
		for _, plan := range c.above {
			if plan.placed.Height <= l.rung(k) {
				best = cheaper(best, plan)
			}
		}
	}
	if best == nil && k > 0 && k+1 < l.rungs {
		c, err := l.look(l.rung(k+1), 0, math.Inf(1))
		if c.plan == nil || c.plan.placed.Height > l.rung(k) {
			return nil, err
		}
		return l.orDear(c.plan), err
	}
	return l.orDear(best), nil
}

// has reports whether a rung has a plan, of use or not. Those far above the floor are taken to have one.
func (l *ladder) has(k int64) (bool, error) {
	if limit := l.rung(k); limit < l.floor || limit >= l.floor+l.floor/nearFloor {
		return limit >= l.floor, nil
	}
	dear := l.dear
	l.dear = nil
	c, err := l.onRung(k)
	l.dear = dear
	return c != nil, err
}

// below is the plan of a limit below all rungs that have one, or nil; or dear.
func (l *ladder) below(limit int64) (*candidate, error) {
	lows, err := l.bottom()
	for _, c := range lows {
		if c == l.dear || c.placed.Height <= limit {
			return c, err
		}
	}
	return nil, err
}

// bottom is the plans below all rungs that have one, highest first, each dearer than the one before it; the first is that of the
// lowest of those rungs. They do not depend on any limit, and what is cheaper than the first is none of them: so the plan of a
// limit costs no less than those of higher ones here, too. There is only the dear one if that is the first, and none if no rung is
// as low as those that are taken to have one.
func (l *ladder) bottom() ([]*candidate, error) {
	if l.lows != nil {
		return l.lows, nil
	}
	k := int64(1)
	for {
		has, err := l.has(k)
		if err != nil {
			return nil, err
		}
		if has {
			break
		}
		k++
	}
	first, err := l.onRung(k)
	if first == nil || err != nil {
		return nil, err
	}
	lows := []*candidate{first}
	if first == l.dear {
		return lows, nil
	}
	err = l.sink(first, func(c *candidate) {
		if c.placed.Height >= lows[len(lows)-1].placed.Height || c.cost < first.cost {
			return
		}
		n := len(lows)
		for ; n > 1 && lows[n-1].cost >= c.cost; n-- {
		}
		lows = append(lows[:n], c)
	})
	if err == nil {
		l.lows = lows
	}
	return lows, err
}

// mayBeat reports whether a plan within a limit may be cheaper than another one.
func (l *ladder) mayBeat(limit int64, best *candidate) bool {
	if l.excludes(limit, best.cost) {
		return false
	}
	bound, ok := l.least(limit)
	return ok && bound < best.cost
}

// level reports whether the bound for a limit is hardly higher than another.
func (l *ladder) level(limit int64, than float64) bool {
	bound, ok := l.least(limit)
	return ok && bound <= than*(1+levelBounds)
}

// look is what is found for a limit that costs less than some other plan. It makes
// another limit known by the way.
func (l *ladder) look(limit, beside int64, other float64) (found, error) {
	known := func(limit int64) bool {
		c, known := l.known[limit]
		return known && c.from >= other
	}
	if known(limit) || limit <= 0 {
		return l.known[limit], nil
	}
	if known(beside) {
		beside = 0
	}
	c, next, err := l.solve(limit, beside, other)
	if err != nil {
		return found{}, err
	}
	if l.known[limit] = c; beside > 0 {
		l.known[beside] = next
	}
	return c, nil
}

// cheaper is the cheaper of two plans, either of which may be nil; of equals the first.
func cheaper(a, b *candidate) *candidate {
	if a == nil || b != nil && b.cost < a.cost {
		return b
	}
	return a
}
