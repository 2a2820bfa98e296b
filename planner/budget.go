package planner

import (
	"cmp"
	"math"
	"slices"
)

// What a request asks of the staircase: the cheapest plan within a budget, the lowest within a limit of cost, or the
// lowest of all.

// solves is the solver of the search and its staircase, which are made once.
func (s *Search) solves() *solver {
	if s.solver == nil {
		v := s.newSolver()
		s.solver = v
		s.stairs = newStaircase(v, s.base, s.plan.Floor.Peak, v.small(), v.operators() > largeProgram, apart*s.m.total)
	}
	return s.solver
}

// find is the cheapest plan within a limit, or nil. Where one is known already a long program is sketched for the limit
// alone.
func (s *Search) find(limit int64) *candidate {
	if s.known == nil || slices.Contains(s.forced, true) {
		return s.stairs.within(limit)
	}
	c := (*candidate)(nil)
	if v := s.solver; v.operators() > midProgram {
		c = v.at(limit, math.Inf(1), sketched)
	} else {
		c = s.stairs.within(limit)
	}
	return cheaper(c, s.m.placeWithin(s.m.candidateOf(s.known, given), limit))
}

// withinLimits answers a budget with the cheapest plan that is found within it, or a limit of extra cost with the
// lowest.
func withinLimits(s *Search, limit int64, limited bool) (*candidate, error) {
	target, overhead := s.plan.Request.Target, s.plan.Request.MaxOverhead
	most := s.m.allows(overhead)
	if !limited && overhead == 0 || s.base.cost > most { // running more again costs more
		return s.base, nil
	}
	v := s.solves()
	if s.cannotBeat(target, limit, limited, most) {
		return nil, missesTarget(s.plan.Floor)
	}
	if !limited {
		return s.lowestMoved(s.lowestWithin(most), most), nil
	}
	c := s.moved(limit, s.stairs.thorough(limit, s.find(limit)))
	// Plans that cost more than a known one of another form are not wanted, nor is the lowest plan where none fits.
	if target.Cost > 0 && overhead == 0 && (c != nil && c.cost > target.extra(s.m) || c == nil && v.operators() > smallProgram) ||
		target.Fits && (c == nil || c.cost > most) {
		return nil, missesTarget(s.plan.Floor)
	}
	if c != nil && c.cost <= most {
		return c, nil
	}
	hint := ""
	if c != nil {
		hint = "a higher limit of extra compute may reach it"
	}
	if overhead > 0 {
		c = s.lowestMoved(s.lowestWithin(most), most)
	} else {
		c = s.last(limit)
	}
	if c.placed.Height > limit {
		return nil, s.cannot(limit, c, hint)
	}
	return c, nil
}

// cannotBeat reports whether bounds prove that no plan within a limit, if there is one, and with at most so much extra cost
// meets the target; or, with QuickReject, whether one quick solve finds none.
func (s *Search) cannotBeat(w Target, limit int64, limited bool, most float64) bool {
	v := s.solver
	if w == (Target{}) {
		return false
	}
	if w.Arena > 0 && (!limited || w.Arena < limit) {
		limit, limited = w.Arena, true
	}
	if !limited || v.base.placed.Height <= limit {
		return false
	}
	most = min(most*(1+1e-9), w.extra(v.m))
	if least, ok := s.least(limit); !ok || least > most {
		return true
	}
	return w.QuickReject && s.plan.Request.Elsewhere == nil && !v.small() && v.at(limit-limit/quickRejectPart, most, usual) == nil
}

// last is the lowest plan found, for a request below every plan. Its arena is a limit that has a plan.
func (s *Search) last(limit int64) *candidate {
	v := s.solver
	if s.stairs.small {
		all := v.whole()
		return all[len(all)-1]
	}
	if c := s.lowestQuick(limit); c != nil {
		return c
	}
	lows := s.stairs.bottom()
	if len(lows) == 0 { // where no grid limit near the floor has one, others may be lower all the same
		return cmp.Or(v.lowestPeak(limit+1), v.base)
	}
	return lows[len(lows)-1]
}

// lowestQuick is the lowest plan found without a descent, where a descent would take long or could not lead much lower;
// else nil.
func (s *Search) lowestQuick(limit int64) *candidate {
	v := s.solver
	n, floor := v.operators(), v.floor
	if n <= midProgram && limit >= floor {
		return nil
	}
	c := v.lowestPeak(limit + 1)
	if c == nil {
		return nil
	}
	lowest, far := c.placed.Height, limit < floor-floor/farBelow
	switch {
	case n > midProgram, lowest == floor, far && (n > shortProgram || lowest <= floor+lowest/longStep):
		return c
	case n <= shortProgram:
		return nil
	case !far && c.t.peak == floor: // another at the floor may be placed there
		return cmp.Or(v.at(floor, math.Inf(1), usual), c)
	}
	return c
}

// shares is how many parts of the plain arena there are, at which the lowest plan within a cost is looked for. The lowest
// part with any plan is found first, and then the cheapest plans are looked for from closer parts below it.
const (
	shares = 8 * gridLimits
	closer = 16
)

// lowestWithin is the plan with the least arena whose extra cost is within most.
func (s *Search) lowestWithin(most float64) *candidate {
	v, stairs := s.solver, s.stairs
	best := v.base
	// take reports whether there is a plan that is not too dear, and keeps it if it is lower.
	take := func(c *candidate) bool {
		if c == nil || c.cost > most {
			return false
		}
		if c.placed.Height < best.placed.Height || c.placed.Height == best.placed.Height && c.cost < best.cost {
			best = c
		}
		return true
	}
	if stairs.small {
		for _, c := range v.whole() {
			take(c)
		}
		return best
	}
	top := v.base.placed.Height
	// halve halves the shares between some that are too few and some that are not.
	halve := func(from, to int64, at func(limit int64) *candidate) int64 {
		for from+1 < to {
			if m := (from + to) / 2; take(at(top * m / shares)) {
				to = m
			} else {
				from = m
			}
		}
		return to
	}
	some := halve(0, shares, func(limit int64) *candidate { return v.at(limit, most, anyCosting(most)) })
	// What is found for a limit is chance to some degree, but plans of lower limits cost no less.
	from, to := max(0, some-closer), some+1
	for further := int64(closer); from > 0; further *= 2 {
		if c := stairs.within(top * from / shares); c == nil || c.cost > most {
			break
		}
		from, to = max(0, from-further), from+1 // which may be asked again: it is known by then
	}
	some = halve(from, to, stairs.within)
	for k := stairs.below(best.placed.Height - 1); k > 0 && stairs.at(k) >= v.floor; k-- { // more work may lead lower
		if !take(stairs.thorough(stairs.at(k), nil)) {
			break
		}
	}
	if top*(some-1)/shares < v.floor { // nothing is below but what is lowest
		if stairs.halving == 0 {
			take(v.lowestPeak(0))
		} else {
			take(stairs.within(v.floor))
		}
	}
	return best
}
