package planner

import "math"

// The frontier of a small program is searched as a whole, so that a limit is answered
// from plans that do not depend on it without any rungs.
const (
	// smallArena is the most bytes that the plain arena of such a program has: values begin
	// so far apart in that, for their bytes, that plans found for two limits might not need
	// as much as these differ.
	smallArena   = 64 * rungs * alignment
	frontierMost = 128 // limits of a frontier
)

// small reports whether the frontier is searched as a whole.
func (v *solver) small() bool {
	return len(v.m.sim.plain) <= smallProgram && v.base.placed.Height <= smallArena
}

// fromFrontier is the cheapest plan of the frontier within a limit, or nil.
func (v *solver) fromFrontier(limit int64) (*candidate, error) {
	all, err := v.frontier()
	for _, c := range all {
		if c.placed.Height <= limit {
			return c, err
		}
	}
	return nil, err
}

// frontier is the plans of a small program, highest first: each costs more than the one
// before it. It is searched once.
func (v *solver) frontier() ([]*candidate, error) {
	if v.all == nil {
		all, err := v.goDown()
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			for n := len(v.all); n > 0 && v.all[n-1].cost >= c.cost; n-- { // it needs more and costs no less
				v.all = v.all[:n-1]
			}
			v.all = append(v.all, c)
		}
	}
	return v.all, nil
}

// goDown is what is found for limits from everything kept downwards, each plan with less
// arena than the one before.
func (v *solver) goDown() ([]*candidate, error) {
	all := []*candidate{v.m.sunk(v.base)}
	lowest, passed := all[0].placed.Height, (*candidate)(nil)
	width := max(lowest/frontierMost, 1)
	for next := lowest - 1; next > 0; {
		c, err := v.at(next, math.Inf(1))
		if err != nil {
			return nil, err
		}
		switch {
		case c != nil:
			c = v.m.sunk(c)
			lowest = c.placed.Height
			if low := all[len(all)-1]; lowest < low.placed.Height {
				if passed = c; c.t.peak <= low.t.peak {
					all, passed = append(all, c), nil
				}
			}
			next = min(next-width, lowest-1)
		case width == 0:
			next = 0
		default: // there may be one in between
			if width /= 2; width < alignment {
				width = 0
			}
			next = lowest - 1 - width
		}
	}
	// Arenas of few bytes may fall while the bytes alive in them rise. Less of both comes
	// first, but nothing comes before a plan for what no other is within.
	if passed != nil && passed.t.peak <= v.base.t.peak {
		for all[len(all)-1].t.peak < passed.t.peak {
			all = all[:len(all)-1]
		}
		all = append(all, passed)
	}
	return all, nil
}
