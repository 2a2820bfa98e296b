package recompute

import "slices"

const (
	chainPlaces = 8       // that bind most, of which chains are made; more raise few bounds
	mostBefore  = 1 << 20 // edges that cuts may look at before the tails of a limit
)

// before bounds by the reruns after a place that states prove, and those for the operators from another place up to
// that.
func (s *Solver) before(at []bounded, limit int64, behind []tailBound) (least float64) {
	begin := s.cutWork
	for _, y := range slices.Backward(behind) {
		known := y.least / s.unit
		for _, x := range at[:min(chainPlaces, len(at))] {
			if x.c.at >= y.at || x.bound+known <= least || s.cutWork-begin > mostBefore {
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
