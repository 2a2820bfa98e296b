package planner

import (
	"math"

	"memopt/planner/limits"
	"memopt/planner/recompute"
)

// nestedProgram: above so many operators live ranges are only nested, which is fast and loses up to limit/nestedLoss bytes.
// Plans aim that much lower.
const (
	nestedProgram = 1 << 15
	nestedLoss    = 1 << 13
)

// Constants of solving a limit. Costs are shares of the plain step's.
const (
	placings  = 6      // plans placed for a limit
	firstStep = 512    // the second placing aims limit/firstStep lower, each later one twice as much
	noSearch  = 1      // looks that suffice to place, without a search
	atBound   = 0.003  // a plan this near to its bound counts as at it
	nearBound = 0.0005 // a plan this near to its bound was found fast
	sameCost  = 0.0001 // costs this near to each other count as the same
	far       = 0.001  // a gap from here on is searched
)

// Constants of the search for the lowest peak.
const (
	peakStep   = 256 // each repair lowers the peak by at least peak/peakStep
	halvings   = 7   // times that the distance to the floor is halved
	lowestLoss = 512 // placing may lose peak/lowestLoss bytes
)

// solver finds plans within limits of the arena, and places them. It is what limits ask.
type solver struct {
	m       *model
	r       *recompute.Solver
	problem *recompute.Problem
	base    *candidate
	floor   int64
	answers map[int64]answer     // by limit, as far as they were solved
	full    map[int64]*candidate // by limit, as far as all work was put into it
	lowest  *recompute.Answer    // the plan with the lowest peak, or nil, once that was sought
	sought  bool
}

// answer is what solving said.
type answer struct {
	recompute.Answer
	ok bool
}

// way is how a limit is solved; hasty is that the first plan that is placed for a lowered aim will do.
type way struct {
	recompute.Ask
	hasty bool
}

var (
	usual    = way{Ask: recompute.Ask{Effort: recompute.Quick}}  // for a limit of the grid
	sketched = way{Ask: recompute.Ask{Effort: recompute.Sketch}} // for the limits of a curve
)

// anyCosting finds whatever costs no more than most.
func anyCosting(most float64) way {
	return way{Ask: recompute.Ask{Effort: recompute.Quarter, Most: most}}
}

// rough reports whether the first plan that is placed will do, whatever others there are.
func (w way) rough() bool {
	return w.From == nil && (w.Effort == recompute.Sketch || w.Effort == recompute.Quarter)
}

// solve is what recompute says of a limit. Limits ask again for one that cost too much.
func (v *solver) solve(limit int64, ask recompute.Ask) (recompute.Answer, bool) {
	if ask != usual.Ask {
		return v.asked(v.r.Solve(limit, ask))
	}
	a, known := v.answers[limit]
	if !known {
		a.Answer, a.ok = v.asked(v.r.Solve(limit, ask))
		v.answers[limit] = a
	}
	return a.Answer, a.ok
}

func (s *Search) newSolver() *solver {
	p := s.m.problem(s.m.unit, s.forced)
	r := s.m.solverOf(p)
	floor := s.plan.Floor.Peak
	if s.plan.Request.Elsewhere != nil {
		floor = s.m.floor(nil).Peak // of plans that move nothing, which are all that is solved
	}
	return &solver{m: s.m, r: r, problem: p, base: s.base, floor: floor, answers: map[int64]answer{}, full: map[int64]*candidate{}}
}

func (v *solver) operators() int { return len(v.m.nodes) }

func (v *solver) Least(limit int64) (float64, bool) { return v.r.Bound(v.m.aligned(limit), 0) }
func (v *solver) Early(limit int64) (float64, bool) { return v.r.Early(v.m.aligned(limit)) }
func (v *solver) Excludes(limit int64, cost float64) bool {
	return v.r.Excludes(v.m.aligned(limit), cost)
}
func (v *solver) Wide(cost, bound float64) bool { return v.r.Wide(cost, bound) }

// Trimmed is a candidate in the fewest bytes that it can be placed in.
func (v *solver) Trimmed(c *candidate) *candidate { return v.m.trimmed(c) }

// At is a plan within a limit, or nil if none is found that costs at most so much.
func (v *solver) At(limit int64, most float64, e limits.Effort) *candidate {
	switch w := usual; e {
	case limits.Sketched:
		return v.at(limit, most, sketched)
	case limits.Hasty:
		w.hasty = true
		return v.at(limit, most, w)
	case limits.Any:
		return v.at(limit, most, anyCosting(most))
	}
	return v.at(limit, most, usual)
}

// Near is a plan within a limit, or nil. It is repaired from that of a higher limit if the result is at the bound, or
// else solved.
func (v *solver) Near(limit int64, from *candidate) *candidate {
	reaches := func(cost float64) bool {
		least, ok := v.Least(limit)
		return !ok || cost <= least+atBound*v.m.total
	}
	if reaches(from.cost) { // or else what is found costs more than that, too
		c := v.at(limit, math.Inf(1), way{Ask: recompute.Ask{Effort: recompute.Sketch, From: &from.answer}})
		if c != nil && reaches(c.cost) {
			return c
		}
	}
	return v.at(limit, math.Inf(1), usual)
}

// Fully is the plan within a limit that all work finds, or nil.
func (v *solver) Fully(limit int64) (c *candidate) {
	c, known := v.full[limit]
	if !known {
		c = v.at(limit, math.Inf(1), way{})
		v.full[limit] = c
	}
	return c
}

// Find looks for a plan within a limit that costs less than other, up to sameCost. If there is none, Found.From is the
// cost, other or above, from which on plans were not placed. A tighter plan that is cheaper than a looser one that could
// not be placed is rejected: it would break monotonicity.
func (v *solver) Find(limit int64, other float64) limits.Found[*candidate] {
	f := v.by(usual, limit, math.Inf(1), other)
	f.Least, _ = v.Least(limit)
	return f
}

// at is a plan within limit, or nil if none is found that costs at most so much.
func (v *solver) at(limit int64, most float64, w way) *candidate {
	if limit <= 0 {
		return nil
	}
	return v.by(w, limit, most, 0).Plan
}

// by does the work of at and of Find, for which other is not 0.
func (v *solver) by(w way, limit int64, most, other float64) (f limits.Found[*candidate]) {
	f.From = math.Inf(1)
	top := v.m.useful(limit)
	aim := top
	if v.operators() > nestedProgram {
		aim -= limit / nestedLoss
	}
	whole := false              // whether the top itself was aimed at
	unplaced := 0.0             // the cost of the last plan that was not placed
	var missed recompute.Answer // that plan
	for i := range placings {
		a, ok := v.lower(w, v.m.align(aim), missed)
		if whole = whole || aim == top; !ok && !whole {
			aim, whole = top, true
			a, ok = v.solve(v.m.align(aim), w.Ask)
		}
		if !ok || a.Extra > most*(1+1e-9) {
			return f
		}
		step := limit / firstStep << i
		if other > 0 {
			// What is placed quickly may cost a little less than its answer.
			if least := max(unplaced, a.Extra) - sameCost*v.m.total; least >= other {
				f.From = least
				return f
			}
			if a.Extra < unplaced {
				aim = min(aim, a.Peak) - max(step, v.m.unit)
				continue
			}
			unplaced = a.Extra
		}
		c, fits := v.placedQuick(w, a, v.m.align(min(aim, a.Peak)-step), limit)
		if !fits {
			c, fits = v.placed(a, limit, placingLooks)
		}
		if fits && i > 0 && !w.rough() && !w.hasty {
			c = v.between(w, limit, c, missed, placings-1-i)
		}
		if fits {
			f.Plan = c
			return f
		}
		if missed = a; c.placed.Offsets != nil {
			f.Above = append(f.Above, c)
		}
		// Placement takes more than the bytes alive: aim lower, at first by as little as it missed the limit by. Where
		// that is much, as few lives that do not nest may miss it by, another plan that is a little lower may do better.
		// If that was as far off, none that is not much lower will.
		less := max(c.placed.Height, a.Peak) - limit
		switch {
		case i > 0:
			less = max(step, less/2)
		case less <= 0 || less > 2*step && len(a.Launches) <= limits.Large:
			less = step
		}
		aim = min(aim, a.Peak) - max(less, v.m.unit)
	}
	return f
}

// lower solves a limit that is a little below that of a plan which could not be placed, first by repairs of that plan.
func (v *solver) lower(w way, limit int64, missed recompute.Answer) (recompute.Answer, bool) {
	if !w.rough() {
		if a, ok := v.solve(limit, recompute.Ask{Effort: recompute.Sketch, From: &missed, Only: true}); ok {
			return a, true
		}
	}
	return v.solve(limit, w.Ask)
}

// between bisects the peaks between those of a plan that was placed within a limit and of a cheaper one that was not, and
// is the cheapest plan that it places.
func (v *solver) between(w way, limit int64, c *candidate, missed recompute.Answer, times int) *candidate {
	low, high := c.t.peak, missed.Peak
	for range times {
		if high-low <= limit/firstStep || c.cost <= missed.Extra+far*v.m.total || len(missed.Launches) > limits.Large {
			break
		}
		aim := low + (high-low)/2
		a, ok := v.lower(w, v.m.align(aim), missed)
		if !ok || a.Extra >= c.cost {
			low = aim
			continue
		}
		d, fits := v.placed(a, limit, placingLooks)
		if fits {
			c, low = d, aim
		} else {
			high, missed = aim, a
		}
	}
	return c
}

// placedQuick places the plan of an answer near its bound without a search for places, or else the plan of a lower aim if
// it costs the same. Answers near their bounds take less time to find than places within the last bytes.
func (v *solver) placedQuick(w way, a recompute.Answer, below, limit int64) (c *candidate, fits bool) {
	if w.rough() || a.Extra > a.Bound+nearBound*v.m.total {
		return nil, false
	}
	if c, fits = v.placed(a, limit, noSearch); fits {
		return c, fits
	}
	if b, ok := v.solve(below, w.Ask); ok && math.Abs(b.Extra-a.Extra) <= sameCost*v.m.total {
		return v.placed(b, limit, noSearch)
	}
	return nil, false
}

// placed is the plan of an answer with places for its lives, and whether these are within a limit. looks bounds the search
// for them.
func (v *solver) placed(a recompute.Answer, limit int64, looks int) (c *candidate, fits bool) {
	c, fits = v.m.place(v.candidate(a, limit), limit, looks)
	c.answer, c.answer.Launches = a, nil
	return c, fits
}

// LowestPeak is the plan with the lowest peak found, at any cost, or nil. If its peak is below some arena and its first
// placement is not, the lowest placement is searched for.
func (v *solver) LowestPeak(below int64) *candidate {
	if !v.sought {
		v.lowest, v.sought = v.lowestFound(v.floor), true
	}
	if v.lowest == nil {
		return nil
	}
	c := v.candidate(*v.lowest, v.lowest.Peak)
	c, _ = v.m.place(c, v.m.align(c.t.peak+c.t.peak/lowestLoss), placingLooks)
	if c.placed.Offsets == nil || c.t.peak < below && c.placed.Height >= below {
		c, _ = v.m.place(c, 0, placingLooks)
	}
	return c
}

// lowestFound is the plan with the lowest peak that is found, not placed yet, or nil.
func (v *solver) lowestFound(floor int64) *recompute.Answer {
	from, to := v.m.align(floor), v.m.align(v.base.placed.Height) // none below from is known
	var found *recompute.Answer
	if a, ok := v.solve(from, recompute.Ask{Effort: recompute.Any}); ok { // often there is one
		found, from = &a, to
	}
	for i := 0; i < halvings && from < to; i++ {
		m := v.m.align(from + (to-from)/2)
		a, ok := v.solve(m, recompute.Ask{Effort: recompute.Any})
		if !ok && found == nil {
			a, ok = v.solve(m, recompute.Ask{Effort: recompute.Quick}) // which has more ways
		}
		if !ok {
			from = m
			continue
		}
		if to = m; found == nil || a.Peak < found.Peak {
			found, to = &a, min(m, v.m.align(a.Peak))
		}
	}
	if found == nil {
		return nil
	}
	return v.under(*found, v.m.align(floor))
}

// under repairs a plan to lower ones, each a little below the one before, down to the floor. That leads farther than
// solving limits far below.
func (v *solver) under(a recompute.Answer, floor int64) *recompute.Answer {
	for a.Peak > floor {
		limit := max(v.m.align(a.Peak-a.Peak/peakStep)-v.m.unit, floor)
		b, ok := v.solve(limit, recompute.Ask{Effort: recompute.Any, From: &a, Only: true})
		if !ok && v.operators() <= limits.Mid {
			b, ok = v.solve(limit, recompute.Ask{Effort: recompute.Any})
		}
		if !ok {
			break
		}
		a = b
	}
	return &a
}

// steps are launches of operators as steps of nodes.
func (v *solver) steps(launches []int32) []Step {
	ran := make([]bool, len(v.m.nodes))
	steps := make([]Step, len(launches))
	for i, op := range launches {
		steps[i] = Step{Node: v.m.nodes[op], Again: ran[op]}
		ran[op] = true
	}
	return steps
}
