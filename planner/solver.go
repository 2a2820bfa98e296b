package planner

import (
	"errors"
	"math"

	"memopt/memopt/stop"
	"memopt/planner/pack"
	"memopt/planner/recompute"
)

// solver answers limits of the arena with placed plans.
type solver struct {
	m    *model
	r    *recompute.Solver
	base *candidate
	// sketchy has limits answered by sketches, anyhow by whatever costs no more
	// than most.
	sketchy, anyhow bool
	most            float64
	hasty           bool                 // a limit's first plan that is placed will do
	all             []*candidate         // the frontier of a small program, highest first
	answers         map[int64]answer     // by limit, as far as they were solved
	full            map[int64]*candidate // by limit, as far as all work was put into it
	found           *recompute.Answer    // the plan with the lowest peak, or nil, once that was sought
	sought          bool
	mate            *solver // works beside this one, once there was something to do
	ladder          ladder
}

// answer is what solving said.
type answer struct {
	recompute.Answer
	ok bool
}

// solve is what solving says of a limit. Ladders ask again for one that was too dear.
func (v *solver) solve(limit int64) (recompute.Answer, bool) {
	a, known := v.answers[limit]
	if !known {
		a.Answer, a.ok = v.asked(v.r.Quick(limit))
		if v.answers == nil {
			v.answers = map[int64]answer{}
		}
		v.answers[limit] = a
	}
	return a.Answer, a.ok
}

// How many operators there are to a program, from which on less is looked at.
const (
	// smallProgram is how many one may have of which each size is planned where the largest
	// is asked for, and the frontier is searched as a whole.
	smallProgram = 96
	// shortProgram is how many it may have for limits to be solved to find the lowest plan.
	shortProgram = 256
	// midProgram is how many make limits too long to solve where a plan is known.
	midProgram = 1024
	// largeProgram is how many launches make other limits too long to look at, and the
	// last bytes of a limit not worth a thought.
	largeProgram = 4096
)

// solves is the solver of the search, which is made once.
func (s *search) solves() (*solver, error) {
	if s.solver == nil {
		v, err := s.newSolver()
		if err != nil {
			return nil, err
		}
		s.solver = v
	}
	return s.solver, nil
}

func (s *search) newSolver() (*solver, error) {
	r, err := s.m.log.solverOf(s.m.problem(s.m.unit, s.forced))
	if err != nil {
		return nil, err
	}
	v := &solver{m: s.m, r: r, base: s.base}
	v.ladder = ladder{
		base: s.base, floor: s.plan.Floor.Peak, rungs: rungs, halving: halving, apart: apart * s.m.total,
		excludes: v.excludes, least: v.least, early: v.early, solve: v.both, near: v.near, sink: v.sink,
		known: map[int64]found{}, ways: map[fromTo]*candidate{},
	}
	if len(s.m.sim.plain) > largeProgram {
		v.ladder.rungs, v.ladder.halving = longRungs, 0
	}
	return v, nil
}

// within is the cheapest plan found whose arena is within limit, or nil.
func (v *solver) within(limit int64) (*candidate, error) {
	if v.base.placed.Height <= limit {
		return v.base, nil
	}
	if v.small() {
		return v.fromFrontier(limit)
	}
	return v.ladder.within(limit)
}

// What a ladder asks of bounds.
func (v *solver) least(limit int64) (float64, bool) { return v.r.Bound(v.m.aligned(limit)) }
func (v *solver) early(limit int64) (float64, bool) { return v.r.Early(v.m.aligned(limit)) }
func (v *solver) excludes(limit int64, cost float64) bool {
	return v.r.Excludes(v.m.aligned(limit), cost)
}

// near is a plan within a limit, or nil. It is found from one for a higher limit, if that
// leads to the bound.
func (v *solver) near(limit int64, from *candidate) (*candidate, error) {
	reaches := func(cost float64) bool {
		least, ok := v.least(limit)
		return !ok || cost <= least+atBound*v.m.total
	}
	if reaches(from.cost) { // or else what is found costs more than that, too
		f, err := v.by(func(limit int64) (recompute.Answer, bool) { return v.asked(v.r.Near(limit, from.answer)) }, limit, math.Inf(1), 0)
		if err != nil || f.plan != nil && reaches(f.plan.cost) {
			return f.plan, err
		}
	}
	return v.at(limit, math.Inf(1))
}

// both solves a limit, and another one beside it, if that is not 0, for plans that cost
// less than some other.
func (v *solver) both(limit, beside int64, other float64) (a, b found, err error) {
	one := func(by *solver, limit int64) (f found, err error) {
		if f, err = by.below(limit, other); err == nil {
			f.least, _ = by.least(limit)
		}
		return f, err
	}
	if beside == 0 {
		a, err = one(v, limit)
		return a, b, err
	}
	if v.mate == nil {
		r, err := v.r.Another()
		if err != nil {
			return a, b, err
		}
		v.mate = &solver{m: v.m.another(), r: r, base: v.base}
	}
	var failed error
	stop.All(func() { a, err = one(v, limit) }, func() { b, failed = one(v.mate, beside) })
	if err == nil {
		err = failed
	}
	return a, b, err
}

// at is a plan within limit, or nil if none is found that costs at most so much.
func (v *solver) at(limit int64, most float64) (*candidate, error) {
	if limit <= 0 {
		return nil, nil
	}
	solve := v.solve
	switch {
	case v.sketchy:
		solve = func(limit int64) (recompute.Answer, bool) { return v.asked(v.r.Sketch(limit)) }
	case v.anyhow:
		solve = func(limit int64) (recompute.Answer, bool) { return v.asked(v.r.FindSoon(limit, v.most)) }
	}
	f, err := v.by(solve, limit, most, 0)
	return f.plan, err
}

// below is a plan within limit that costs less than some other or about as much, and infinity;
// or nil, and what all plans cost at least that would be found, if that is as much. A plan for
// less memory that is cheaper than one that was not placed is chance, and is not taken,
// so that none needs to be placed that is too dear.
func (v *solver) below(limit int64, other float64) (found, error) {
	return v.by(v.solve, limit, math.Inf(1), other)
}

// by is at by some way of solving, or below if other is not 0.
func (v *solver) by(solve func(limit int64) (recompute.Answer, bool), limit int64, most, other float64) (f found, err error) {
	f.from = math.Inf(1)
	top := v.m.useful(limit)
	aim := top
	if len(v.m.sim.plain) > nestedProgram {
		aim -= limit / nestedLoss
	}
	whole := false              // the top itself was aimed at
	dear := 0.0                 // the cost of the last plan that was not placed
	var missed recompute.Answer // that plan
	for i := range placings {
		a, ok := v.lower(solve, v.m.align(aim), missed)
		if whole = whole || aim == top; !ok && !whole {
			aim, whole = top, true
			a, ok = solve(v.m.align(aim))
		}
		if !ok || a.Extra > most*(1+1e-9) {
			return f, nil
		}
		step := limit / 512 << i
		if other > 0 {
			// What is placed soon may cost a little less than its answer.
			if least := max(dear, a.Extra) - hardly*v.m.total; least >= other {
				f.from = least
				return f, nil
			}
			if a.Extra < dear {
				aim = min(aim, a.Peak) - max(step, v.m.unit)
				continue
			}
			dear = a.Extra
		}
		c, fits, err := v.placedSoon(solve, a, v.m.align(min(aim, a.Peak)-step), limit)
		if !fits && err == nil {
			c, fits, err = v.placed(a, limit, placingLooks)
		}
		if fits && i > 0 && !v.sketchy && !v.anyhow && !v.hasty {
			c, err = v.between(solve, limit, c, missed, placings-1-i)
		}
		if fits || err != nil {
			f.plan = c
			return f, err
		}
		if missed = a; c.placed.Offsets != nil {
			f.above = append(f.above, c)
		}
		// Placement takes more than the bytes alive: aim lower, at first by as little
		// as it missed the limit by. Where that is much, as few lives that do not nest
		// may miss it by, another plan that is hardly lower may do better. If that was
		// as far off, none that is not much lower will.
		less := max(c.placed.Height, a.Peak) - limit
		switch {
		case i > 0:
			less = max(step, less/2)
		case less <= 0 || less > 2*step && len(a.Launches) <= largeProgram:
			less = step
		}
		aim = min(aim, a.Peak) - max(less, v.m.unit)
	}
	return f, nil
}

// lower solves a limit that is hardly below that of a plan that was not placed. That plan
// may lead to one as good.
func (v *solver) lower(solve func(limit int64) (recompute.Answer, bool), limit int64, missed recompute.Answer) (recompute.Answer, bool) {
	if !v.sketchy && !v.anyhow {
		if a, ok := v.asked(v.r.Lower(limit, missed)); ok {
			return a, true
		}
	}
	return solve(limit)
}

// between is the cheapest plan within a limit that is found between one that is and one
// that missed it when it was placed, halfway each time.
func (v *solver) between(solve func(limit int64) (recompute.Answer, bool), limit int64, c *candidate, missed recompute.Answer, times int) (*candidate, error) {
	low, high := c.t.peak, missed.Peak
	for range times {
		if high-low <= limit/512 || c.cost <= missed.Extra+far*v.m.total || len(missed.Launches) > largeProgram {
			break
		}
		aim := low + (high-low)/2
		a, ok := v.lower(solve, v.m.align(aim), missed)
		if !ok || a.Extra >= c.cost {
			low = aim
			continue
		}
		d, fits, err := v.placed(a, limit, placingLooks)
		if err != nil {
			return nil, err
		}
		if fits {
			c, low = d, aim
		} else {
			high, missed = aim, a
		}
	}
	return c, nil
}

// placedSoon is what is placed at once: the plan of an answer, or one for an aim below that costs
// about as much, where both are so near their bounds that they were found soon, too. A search for
// places within the last bytes takes longer than all of that.
func (v *solver) placedSoon(solve func(limit int64) (recompute.Answer, bool), a recompute.Answer, below, limit int64) (c *candidate, fits bool, err error) {
	if v.sketchy || v.anyhow || a.Extra > a.Bound+soon*v.m.total {
		return nil, false, nil
	}
	if c, fits, err = v.placed(a, limit, atOnce); fits || err != nil {
		return c, fits, err
	}
	if b, ok := solve(below); ok && math.Abs(b.Extra-a.Extra) <= hardly*v.m.total {
		return v.placed(b, limit, atOnce)
	}
	return nil, false, nil
}

// placed is the plan of an answer whose lives have places, and whether those are within a limit.
// A search for them may look at so much.
func (v *solver) placed(a recompute.Answer, limit int64, looks int) (c *candidate, fits bool, err error) {
	c, err = v.m.placeIn(v.candidate(a, limit), limit, looks)
	var beyond *pack.CapacityError
	if errors.As(err, &beyond) {
		return c, false, nil
	}
	c.answer, c.answer.Launches = a, nil
	return c, err == nil, err
}

// The lives of very long programs are only nested, which loses hardly any bytes
// and saves time: their plans leave so small a share of a limit to it.
const (
	nestedProgram = 1 << 15 // operators
	nestedLoss    = 1 << 13
)

const (
	placings = 6      // plans that are placed for a limit
	atOnce   = 1      // looks for places, which leave none for a search
	soon     = 0.0005 // how near to its bound a plan is that was found soon, as a part of the plain step's cost
	hardly   = 0.0001 // what a plan may cost more or less than one that needs a search for places, as such a part
)

// steps are launches of operators as steps of nodes.
func (v *solver) steps(launches []int32) []Step {
	ran := make([]bool, len(v.m.sim.plain))
	steps := make([]Step, len(launches))
	for i, op := range launches {
		steps[i] = Step{v.m.sim.plain[op], ran[op]}
		ran[op] = true
	}
	return steps
}
