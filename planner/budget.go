package planner

import (
	"cmp"
	"math"
	"slices"
)

// What a request asks of the staircase: the cheapest plan within a budget, the lowest within a limit of cost, or the
// lowest of all.

// solves is the solver of the search and its staircase, which are made once.
func (s *search) solves() (*solver, error) {
	if s.solver == nil {
		v, err := s.newSolver()
		if err != nil {
			return nil, err
		}
		s.solver = v
		s.stairs = newStaircase(v, s.base, s.plan.Floor.Peak, v.small(), v.operators() > largeProgram, apart*s.m.total)
	}
	return s.solver, nil
}

// find is the cheapest plan within a limit, or nil. Where one is known already a long program is sketched for the limit
// alone.
func (s *search) find(limit int64) (c *candidate, err error) {
	if s.known == nil || slices.Contains(s.forced, true) {
		return s.stairs.within(limit)
	}
	if v := s.solver; v.operators() > midProgram {
		c, err = v.at(limit, math.Inf(1), sketched)
	} else {
		c, err = s.stairs.within(limit)
	}
	if err != nil {
		return nil, err
	}
	known, err := s.m.candidateOf(s.known)
	if err == nil {
		known, err = s.m.into(known, limit)
	}
	return cheaper(c, known), err
}

// withinLimits answers a budget with the cheapest plan that is found within it, or a limit of extra cost with the
// lowest.
func withinLimits(s *search, limit int64, limited bool) (*candidate, error) {
	overhead := s.plan.Request.MaxOverhead
	if !limited && overhead == 0 || s.base.cost > s.m.allows(overhead) { // running more again costs more
		return s.base, nil
	}
	v, err := s.solves()
	if err != nil {
		return nil, err
	}
	if no, err := s.hopeless(s.plan.Request.Worth, limit, limited, s.m.allows(overhead)); no || err != nil {
		return nil, cmp.Or(err, worthless(s.plan.Floor))
	}
	if !limited {
		return s.lowestWithin(s.m.allows(overhead))
	}
	// Beside a plan of another form, dearer ones are of no use, and neither is the lowest one where solving finds none.
	worth := s.plan.Request.Worth
	beside := worth.Cost > 0 && overhead == 0
	c, err := s.find(limit)
	if err == nil {
		c, err = s.stairs.thorough(limit, c)
	}
	if err != nil {
		return nil, err
	}
	if c != nil && beside && c.cost > worth.extra(s.m) || c == nil && beside && v.operators() > smallProgram ||
		worth.Fits && (c == nil || c.cost > s.m.allows(overhead)) {
		return nil, worthless(s.plan.Floor)
	}
	if c != nil && c.cost <= s.m.allows(overhead) {
		return c, nil
	}
	hint := ""
	if c != nil {
		hint = "a higher limit of extra compute may reach it"
	}
	if overhead > 0 {
		c, err = s.lowestWithin(s.m.allows(overhead))
	} else {
		c, err = s.last(limit)
	}
	if err != nil {
		return nil, err
	}
	if c.placed.Height <= limit {
		return c, nil
	}
	return nil, s.cannot(limit, c, hint)
}

// hopeless reports whether it is proven that no plan comes to what the request asks for, of those that have to fit in
// limit bytes too, if they are limited, and may cost so much extra; or whether it looks so at a glance.
func (s *search) hopeless(w Worth, limit int64, limited bool, most float64) (bool, error) {
	v := s.solver
	if w == (Worth{}) {
		return false, nil
	}
	if w.Arena > 0 && (!limited || w.Arena < limit) {
		limit, limited = w.Arena, true
	}
	if !limited || v.base.placed.Height <= limit {
		return false, nil
	}
	most = min(most*(1+1e-9), w.extra(v.m))
	if least, ok := v.least(limit); !ok || least > most {
		return true, nil
	}
	if !w.Glance || v.small() {
		return false, nil
	}
	c, err := v.at(limit-limit/glanced, most, usual)
	return c == nil, err
}

// last is the lowest plan found, for a request below every plan. Its arena is a limit that has a plan.
func (s *search) last(limit int64) (*candidate, error) {
	v := s.solver
	if s.stairs.small {
		all, err := v.whole()
		if err != nil {
			return nil, err
		}
		return all[len(all)-1], nil
	}
	if c, err := s.lastSoon(limit); c != nil || err != nil {
		return c, err
	}
	lows, err := s.stairs.bottom()
	if err != nil {
		return nil, err
	}
	c := v.base
	if n := len(lows); n == 0 { // where no grid limit near the floor has one, others may be lower all the same
		c, err = v.surely(limit + 1)
	} else if lows[n-1] != s.stairs.tooCostly {
		c = lows[n-1]
	}
	if c == nil {
		c = v.base
	}
	return c, err
}

// lastSoon is the lowest plan without the descent to it, where that takes long or hardly leads any lower; or nil.
func (s *search) lastSoon(limit int64) (*candidate, error) {
	v := s.solver
	n, floor := v.operators(), v.floor
	if n <= midProgram && limit >= floor {
		return nil, nil
	}
	c, err := v.surely(limit + 1)
	if c == nil || err != nil {
		return nil, err
	}
	lowest, far := c.placed.Height, limit < floor-floor/farBelow
	switch {
	case n > midProgram, lowest == floor, far && (n > shortProgram || lowest <= floor+lowest/leap):
		return c, nil
	case n <= shortProgram:
		return nil, nil
	case !far && c.t.peak == floor: // another at the floor may be placed there
		if d, err := v.at(floor, math.Inf(1), usual); d != nil || err != nil {
			return d, err
		}
	}
	return c, nil
}

// shares are the parts of the plain arena that the lowest plan within a cost is looked for at; so many below where any
// plan is found, the cheapest is looked for.
const (
	shares = 8 * gridLimits
	closer = 16
)

// lowestWithin is the plan with the least arena whose extra cost is within most.
func (s *search) lowestWithin(most float64) (*candidate, error) {
	v, stairs := s.solver, s.stairs
	best := v.base
	costly := func(c *candidate) bool { return c == nil || c.cost > most }
	if stairs.small {
		all, err := v.whole()
		for _, c := range all { // highest first, and cheapest
			if !costly(c) {
				best = c
			}
		}
		return best, err
	}
	top := v.base.placed.Height
	// halve halves the shares between some that are too few and some that are not.
	halve := func(from, to int64, at func(limit int64) (*candidate, error)) (int64, error) {
		for from+1 < to {
			m := (from + to) / 2
			c, err := at(top * m / shares)
			if err != nil {
				return 0, err
			}
			if costly(c) {
				from = m
				continue
			}
			to = m
			if c.placed.Height < best.placed.Height || c.placed.Height == best.placed.Height && c.cost < best.cost {
				best = c
			}
		}
		return to, nil
	}
	some, err := halve(0, shares, func(limit int64) (*candidate, error) { return v.at(limit, most, anyCosting(most)) })
	if err != nil {
		return nil, err
	}
	stairs.useful(most)
	// What is found for a limit is chance to some degree, but plans of lower limits cost no less.
	from, to := max(0, some-closer), some+1
	for further := int64(closer); from > 0; further *= 2 {
		c, err := stairs.within(top * from / shares)
		if err != nil {
			return nil, err
		}
		if costly(c) {
			break
		}
		from, to = max(0, from-further), from+1 // which may be asked again: it is known by then
	}
	if some, err = halve(from, to, stairs.within); err != nil {
		return nil, err
	}
	stairs.tooCostly = nil
	for k := stairs.below(best.placed.Height - 1); k > 0 && stairs.at(k) >= v.floor; k-- { // more work may lead lower
		c, err := stairs.thorough(stairs.at(k), nil)
		if err != nil {
			return nil, err
		}
		if costly(c) {
			break
		}
		if c.placed.Height < best.placed.Height {
			best = c
		}
	}
	if top*(some-1)/shares < v.floor { // nothing is below but what is lowest
		c, err := (*candidate)(nil), error(nil)
		if stairs.halving == 0 {
			c, err = v.surely(0)
		} else {
			c, err = stairs.within(v.floor)
		}
		if err != nil {
			return nil, err
		}
		if !costly(c) && c.placed.Height < best.placed.Height {
			best = c
		}
	}
	return best, nil
}
