package planner

import (
	"fmt"
	"math"
	"slices"

	"memopt/planner/limits"
)

// solves is the solver of the search and its limits, which are made once.
func (s *Search) solves() *solver {
	if s.solver == nil {
		s.solver = s.newSolver()
		s.limits = limits.Of(limits.Program[*candidate]{Base: s.base, Floor: s.solver.floor, Operators: s.solver.operators(),
			Launches: len(s.base.t.steps), Cost: s.m.total, Align: alignment}, s.solver)
	}
	return s.solver
}

// find is the cheapest plan within a limit, or nil. Where one is known already a long program is sketched for the limit
// alone.
func (s *Search) find(limit int64) *candidate {
	if s.known == nil || slices.Contains(s.forced, true) {
		return s.limits.Within(limit)
	}
	c := (*candidate)(nil)
	if v := s.solver; v.operators() > limits.Mid {
		c = v.at(limit, math.Inf(1), sketched)
	} else {
		c = s.limits.Within(limit)
	}
	return limits.Cheaper(c, s.m.placeWithin(s.m.candidateOf(s.known, given), limit))
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
		return s.lowestMoved(s.limits.LowestWithin(most), most), nil
	}
	c := s.moved(limit, s.limits.Thorough(limit, s.find(limit)))
	// Plans that cost more than a known one of another form are not wanted, nor is the lowest plan where none fits.
	if target.Cost > 0 && overhead == 0 && (c != nil && c.cost > target.extra(s.m) || c == nil && v.operators() > limits.Small) ||
		target.Fits && (c == nil || c.cost > most) {
		return nil, missesTarget(s.plan.Floor)
	}
	if c != nil && c.cost <= most {
		return c, nil
	}
	hint := ""
	if c != nil {
		hint = fmt.Sprintf("a higher limit of extra %s may reach it", s.plan.Unit())
	}
	if overhead > 0 {
		c = s.lowestMoved(s.limits.LowestWithin(most), most)
	} else {
		c = s.limits.Lowest(limit)
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
	return w.QuickReject && s.plan.Request.Elsewhere == nil && !s.limits.Small() && v.at(limit-limit/quickRejectPart, most, usual) == nil
}
