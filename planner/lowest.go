package planner

import (
	"errors"
	"math"

	"memopt/planner/pack"
	"memopt/planner/recompute"
)

// lowest is the plan with the least arena that is found between the floor and
// the plain arena. A limit that its peak is within is worth any effort to place it within
// that; else it is placed for what is said of it.
func (v *solver) lowest(floor, limit int64) (*candidate, error) {
	if v.small() {
		all, err := v.frontier()
		if err != nil {
			return nil, err
		}
		return all[len(all)-1], nil
	}
	best, found := v.base, v.lowestFound(floor)
	if found == nil {
		return best, nil
	}
	c := &candidate{t: v.m.simulate(v.steps(found.Launches))}
	c, err := v.m.placeWithin(c, align(c.t.peak+c.t.peak/lowestLoss))
	var beyond *pack.CapacityError
	if errors.As(err, &beyond) {
		err = nil
	}
	if err == nil && (c.placed.Offsets == nil || c.t.peak <= limit && c.placed.Height > limit) {
		c, err = v.m.placeSoon(c)
	}
	if err != nil {
		return nil, err
	}
	if c.placed.Height < best.placed.Height {
		best = c
	}
	// Of the plans at the floor another may be placed there. That takes as long as any plan
	// does, and says little to whoever asks for far less.
	asked := limit == 0 || limit >= floor-floor/farBelow
	if asked && c.t.peak == floor && best.placed.Height > floor && len(v.m.sim.plain) <= midProgram {
		if c, err = v.at(floor, math.Inf(1)); c != nil {
			best = c
		}
	}
	for err == nil && best.placed.Height > max(limit, floor+best.placed.Height/leap) && len(v.m.sim.plain) <= shortProgram {
		if c, err = v.at(best.placed.Height-best.placed.Height/leap, math.Inf(1)); c == nil {
			break
		}
		best = c
	}
	return best, err
}

// lowestFound is the plan with the lowest peak that is found, not placed yet, or nil.
func (v *solver) lowestFound(floor int64) *recompute.Answer {
	from, to := align(floor), align(v.base.placed.Height) // none below from is known
	var found *recompute.Answer
	if a, ok := v.r.Any(from); ok { // often there is one
		found, from = &a, to
	}
	for i := 0; i < halvings && from < to; i++ {
		m := align(from + (to-from)/2)
		a, ok := v.r.Any(m)
		if !ok && found == nil {
			a, ok = v.r.Solve(m) // which has more ways
		}
		if !ok {
			from = m
			continue
		}
		if to = m; found == nil || a.Peak < found.Peak {
			found, to = &a, min(m, align(a.Peak))
		}
	}
	if found == nil {
		return nil
	}
	return v.under(*found, align(floor))
}

// last is the lowest plan, or one within a limit where that is not and solving finds one
// all the same.
func (v *solver) last(floor, limit int64) (*candidate, error) {
	c, err := v.lowest(floor, limit)
	if err != nil || c.placed.Height <= limit || len(v.m.sim.plain) > midProgram || v.small() {
		return c, err
	}
	within, err := v.at(limit, math.Inf(1))
	if within != nil {
		c = within
	}
	return c, err
}

// under leads from a plan to lower ones, each a little below the one before, down to the
// floor. Plans found for limits far below are no lower: from a plan at hand repairs lead
// farther.
func (v *solver) under(a recompute.Answer, floor int64) *recompute.Answer {
	for a.Peak > floor {
		limit := max(align(a.Peak-a.Peak/deeper)-alignment, floor)
		b, ok := v.r.Under(limit, a)
		if !ok && len(v.m.sim.plain) <= midProgram {
			b, ok = v.r.Any(limit)
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
	halvings   = 7   // how often the distance to the floor is halved for the lowest plan
	lowestLoss = 512 // the part of its peak that placing it may lose
	farBelow   = 32  // the part of the floor that a limit is below it, so that not the last bytes matter
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
	if floor := v.ladder.floor; top*(some-1)/shares < floor { // nothing is below but what is lowest
		c, err := v.lowest(floor, 0)
		if err != nil {
			return nil, err
		}
		if !dear(c) && c.placed.Height < best.placed.Height {
			best = c
		}
	}
	return best, nil
}
