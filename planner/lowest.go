package planner

import (
	"errors"
	"math"

	"memopt/planner/pack"
	"memopt/planner/recompute"
)

// sink tells of plans that are lower and lower, from the first down to the floor.
func (v *solver) sink(first *candidate, lower func(*candidate)) error {
	floor, n, lowest := v.ladder.floor, len(v.m.sim.plain), first.placed.Height
	at := func(limit int64) (bool, error) {
		c, err := v.at(limit, math.Inf(1))
		if c == nil {
			return false, err
		}
		lowest = min(lowest, c.placed.Height)
		lower(c)
		return true, err
	}
	for down := newStair(lowest, floor, sinking); n <= midProgram && down.more(); {
		if ok, err := at(down.limit()); err != nil {
			return err
		} else if ok {
			down.height = lowest
		} else {
			down.closer()
		}
	}
	c, err := v.surely(lowest)
	if err != nil || c == nil {
		return err
	}
	lower(c)
	if lowest = min(lowest, c.placed.Height); n <= midProgram && c.t.peak == floor && lowest > floor { // another at the floor may be placed there
		_, err = at(floor)
	}
	for ok := n <= shortProgram; ok && lowest > floor+lowest/leap && err == nil; {
		ok, err = at(lowest - lowest/leap)
	}
	return err
}

// surely is the plan with the lowest peak that is found, whatever it costs, or nil. Where the peak is below some arena it is worth
// some effort to place it there.
func (v *solver) surely(below int64) (*candidate, error) {
	if !v.sought {
		v.found, v.sought = v.lowestFound(v.ladder.floor), true
	}
	if v.found == nil {
		return nil, nil
	}
	c := v.candidate(*v.found, v.found.Peak)
	c, err := v.m.placeWithin(c, v.m.align(c.t.peak+c.t.peak/lowestLoss))
	var beyond *pack.CapacityError
	if errors.As(err, &beyond) {
		err = nil
	}
	if err == nil && (c.placed.Offsets == nil || c.t.peak < below && c.placed.Height >= below) {
		c, err = v.m.placeSoon(c)
	}
	return c, err
}

// lowestFound is the plan with the lowest peak that is found, not placed yet, or nil.
func (v *solver) lowestFound(floor int64) *recompute.Answer {
	from, to := v.m.align(floor), v.m.align(v.base.placed.Height) // none below from is known
	var found *recompute.Answer
	if a, ok := v.asked(v.r.Any(from)); ok { // often there is one
		found, from = &a, to
	}
	for i := 0; i < halvings && from < to; i++ {
		m := v.m.align(from + (to-from)/2)
		a, ok := v.asked(v.r.Any(m))
		if !ok && found == nil {
			a, ok = v.asked(v.r.Quick(m)) // which has more ways
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

// last is the lowest plan that is found, for whoever asks for less than any takes. Its arena is a limit that has a plan.
func (v *solver) last(limit int64) (*candidate, error) {
	if v.small() {
		all, err := v.frontier()
		if err != nil {
			return nil, err
		}
		return all[len(all)-1], nil
	}
	if c, err := v.lastSoon(limit); c != nil || err != nil {
		return c, err
	}
	lows, err := v.ladder.bottom()
	if err != nil {
		return nil, err
	}
	c := v.base
	if n := len(lows); n == 0 { // where no rung near the floor has one, others may be lower all the same
		c, err = v.surely(limit + 1)
	} else if lows[n-1] != v.ladder.dear {
		c = lows[n-1]
	}
	if c == nil {
		c = v.base
	}
	return c, err
}

// lastSoon is the lowest plan without the descent to it, where that takes long or hardly leads any lower; or nil.
func (v *solver) lastSoon(limit int64) (*candidate, error) {
	n, floor := len(v.m.sim.plain), v.ladder.floor
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
		if d, err := v.at(floor, math.Inf(1)); d != nil || err != nil {
			return d, err
		}
	}
	return c, nil
}

// under leads from a plan to lower ones, each a little below the one before, down to the
// floor. Plans found for limits far below are no lower: from a plan at hand repairs lead
// farther.
func (v *solver) under(a recompute.Answer, floor int64) *recompute.Answer {
	for a.Peak > floor {
		limit := max(v.m.align(a.Peak-a.Peak/deeper)-v.m.unit, floor)
		b, ok := v.asked(v.r.Under(limit, a))
		if !ok && len(v.m.sim.plain) <= midProgram {
			b, ok = v.asked(v.r.Any(limit))
		}
		if !ok {
			break
		}
		a = b
	}
	return &a
}

const (
	deeper     = 256 // the part of its peak that the plan below the lowest takes less at least
	leap       = 32  // that part where finding one takes long
	sinking    = 4   // steps from the lowest rung down to the floor, if none is between
	farBelow   = 32  // the part of the floor that a limit is below it, so that not the last bytes matter
	halvings   = 7   // how often the distance to the floor is halved for the lowest plan
	lowestLoss = 512 // the part of its peak that placing it may lose
)

// shares are the parts of the plain arena that the lowest plan within a cost is looked
// for at; so many below where any plan is found, the cheapest is looked for.
const (
	shares = 8 * rungs
	closer = 16
)

// cheap is the plan with the least arena whose extra cost is within most.
func (v *solver) cheap(most float64) (*candidate, error) {
	best := v.base
	dear := func(c *candidate) bool { return c == nil || c.cost > most }
	if v.small() {
		all, err := v.frontier()
		for _, c := range all { // highest first, and cheapest
			if !dear(c) {
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
			if dear(c) {
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
	v.anyhow, v.most = true, most
	some, err := halve(0, shares, func(limit int64) (*candidate, error) { return v.at(limit, most) })
	v.anyhow = false
	if err != nil {
		return nil, err
	}
	v.ladder.useful(most)
	// What is found for a limit is chance to some degree, but plans of lower limits cost no less.
	from, to := max(0, some-closer), some+1
	for further := int64(closer); from > 0; further *= 2 {
		c, err := v.within(top * from / shares)
		if err != nil {
			return nil, err
		}
		if dear(c) {
			break
		}
		from, to = max(0, from-further), from+1 // which may be asked again: it is known by then
	}
	if some, err = halve(from, to, v.within); err != nil {
		return nil, err
	}
	v.ladder.dear = nil
	for k := v.ladder.rungOf(best.placed.Height - 1); k > 0 && v.ladder.rung(k) >= v.ladder.floor; k-- { // more work may lead lower
		c, err := v.thorough(v.ladder.rung(k), nil)
		if err != nil {
			return nil, err
		}
		if dear(c) {
			break
		}
		if c.placed.Height < best.placed.Height {
			best = c
		}
	}
	if floor := v.ladder.floor; v.ladder.halving == 0 && top*(some-1)/shares < floor { // nothing is below but what is lowest
		c, err := v.surely(0)
		if err != nil {
			return nil, err
		}
		if !dear(c) && c.placed.Height < best.placed.Height {
			best = c
		}
	}
	return best, nil
}
