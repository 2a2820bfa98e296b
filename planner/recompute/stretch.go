package recompute

import (
	"cmp"
	"slices"
)

const (
	chainPlaces    = 8       // of a chain; more raise few bounds
	mostStretching = 1 << 20 // edges that cuts may look at for the chains of a limit
)

// stretches bounds by chains of places. Reruns before a place, for operators up to it, are not those after it. So a
// chain of places costs the sum, over its places, of what each must rerun for readers before the next.
func (s *Solver) stretches(at []bounded, limit int64) (least float64) {
	chain := slices.Clone(at[:min(chainPlaces, len(at))])
	slices.SortFunc(chain, func(a, b bounded) int { return cmp.Compare(b.c.at, a.c.at) })
	begin := s.cutWork
	for i := range chain { // its bound becomes that of the best chain that begins there
		x := &chain[i]
		alone := x.bound
		behind := slices.Clone(chain[:i])
		slices.SortStableFunc(behind, func(a, b bounded) int { return cmp.Compare(b.bound, a.bound) })
		for _, y := range behind {
			if s.cutWork-begin > mostStretching || alone+y.bound <= x.bound || y.bound == 0 {
				break
			}
			c := s.newCut(x.c.at, y.c.at)
			c.spent += foldWork * int64(len(c.values))
			first, sets, _ := c.best(1, float64(limit-c.fixed), nil)
			if s.count(c); first == 0 {
				continue
			}
			if first+y.bound > x.bound*nearly {
				room := limit - c.fixed
				first = max(first, s.byGrains(c, room, sets))
				if len(y.sets) > 0 {
					y.bound = max(y.bound, s.byGrains(y.c, y.room, y.sets))
				}
			}
			x.bound = max(x.bound, first+y.bound)
		}
		least = max(least, x.bound)
	}
	return least
}

// before bounds by the reruns after a place that states prove, and those for the operators from another place up to
// that.
func (s *Solver) before(at []bounded, limit int64, behind []tailBound) (least float64) {
	begin := s.cutWork
	for _, y := range slices.Backward(behind) {
		known := y.least / s.unit
		for _, x := range at[:min(chainPlaces, len(at))] {
			if x.c.at >= y.at || x.bound+known <= least || s.cutWork-begin > mostStretching {
				continue
			}
			c := s.newCut(x.c.at, y.at)
			c.spent += foldWork * int64(len(c.values))
			room := limit - c.fixed
			first, sets, _ := c.best(1, float64(room), nil)
			if s.count(c); first > 0 {
				least = max(least, known+max(first, s.byGrains(c, room, sets)))
			}
		}
	}
	return least
}

// byGrains is the best bound of a cut with rounded bytes.
func (s *Solver) byGrains(c *cut, room int64, sets []set) (bound float64) {
	for _, g := range c.grains() {
		b, _, _ := c.best(g, float64(room/g), sets)
		s.count(c)
		bound = max(bound, b)
	}
	return bound
}
