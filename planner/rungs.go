package planner

import "math"

// Where a plan is at its bound, no less memory does with less. Where one is not, what
// is found at a limit is chance to some degree, and a lower one may do better. So such
// a limit also looks at the plans of rungs, which are fixed shares of the plain arena:
// at those below it, as far down as their bounds leave room for a cheaper plan and
// chance is likely to have one, and at the one above, which a plan of its own is not to
// undercut. So of two limits with a rung between them the lower one does not cost less,
// if both look at that.
const (
	rungs = 256
	// closely is how many rungs are looked at one by one. Of those farther down, which
	// are of use where hardly any limit has a plan, one of so many is.
	closely, everySome, deepest = 5, 4, 16
	// atBound is how near to its bound a plan is taken to be at it, as a part of the plain
	// step's cost; atBoundLong is so of programs of many operators, whose plans differ by
	// small steps and are not chance that far above their bounds.
	atBound, atBoundLong = 0.001, 0.005
	manyOperators        = 512
)

// settled reports whether a plan, or that there is none, may stand without a look at
// rungs.
func (v *solver) settled(limit int64, own *candidate) bool {
	plain, near := len(v.m.sim.plain), atBound
	if plain > manyOperators {
		near = atBoundLong
	}
	least, ok := v.r.Bound(align(v.m.useful(limit)))
	return !ok || plain > largeProgram || own != nil && (own.cost <= least+near*v.m.total || len(own.t.steps) > 2*plain)
}

// onRungs is the cheapest of a plan found for a limit, or nil, and those of rungs.
func (v *solver) onRungs(limit int64, own *candidate) (best *candidate, err error) {
	if v.mate == nil {
		if v.mate, err = v.another(); err != nil {
			return nil, err
		}
	}
	hands := [...]*solver{v, v.mate}
	all, undercut := v.rungsFor(limit), math.Inf(-1)
	for len(all) > 0 {
		var found [len(hands)]*candidate
		var failed [len(hands)]error
		done := make(chan bool)
		now := all[:min(len(hands), len(all))]
		all = all[len(now):]
		if bound, ok := v.r.Bound(align(v.m.useful(now[0]))); !ok || best != nil && bound >= best.cost {
			break
		}
		for i, rung := range now {
			go func() {
				var known bool
				if found[i], known = v.onRung[rung]; !known {
					found[i], failed[i] = hands[i].at(rung, math.Inf(1))
				}
				done <- true
			}()
		}
		for range now {
			<-done
		}
		for i, rung := range now {
			c := found[i]
			if failed[i] != nil {
				return nil, failed[i]
			}
			v.onRung[rung] = c
			if c == nil {
				continue
			}
			if rung > limit {
				undercut = c.cost
			}
			if c.placed.Height <= limit && (best == nil || c.cost < best.cost) {
				best = c
			}
		}
	}
	if own != nil && (best == nil || own.cost < best.cost && own.cost >= undercut) {
		best = own
	}
	return best, nil
}

// rungsFor lists the rungs for a limit, the one above it first.
func (v *solver) rungsFor(limit int64) (all []int64) {
	top := v.base.placed.Height
	at := func(k int64) int64 { return top * k / rungs / alignment * alignment }
	above := limit*rungs/top + 1
	if at(above-1) > limit {
		above--
	}
	for k := above; k > max(0, above-deepest); k-- {
		if at := at(k); (k > above-closely || k%everySome == 0) && at > 0 && at < top {
			all = append(all, at)
		}
	}
	return all
}

// another is a solver of the same that may work beside this one.
func (v *solver) another() (*solver, error) {
	r, err := v.r.Another()
	return &solver{m: v.m.another(), r: r, base: v.base}, err
}
