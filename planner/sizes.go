package planner

import (
	"slices"

	"memopt/internal/graph"
	"memopt/planner/formulas"
)

// pointPlan is the plan of a point of a curve.
type pointPlan struct {
	Point
	search *Search
	plan   *candidate
}

// LargestAt is the largest size of a dim at which the decisions of a point of the curve fit in so many bytes for the whole step, and 0 if
// there is none. Unlike Largest it looks for no other decisions, so that each size that it tries is only placed. It is not known of a
// point that has values or states elsewhere.
func (c *Curve) LargestAt(p Point, dim string, bytes int64) (size int64, known bool, err error) {
	i := slices.IndexFunc(c.plans, func(q pointPlan) bool {
		return q.Peak == p.Peak && q.Arena == p.Arena && q.Total == p.Total && q.Overhead == p.Overhead && q.Again == p.Again && q.Moved == p.Moved
	})
	if i < 0 || p.Moved > 0 || p.Sent != nil {
		return 0, false, nil
	}
	s, steps := c.plans[i].search, c.plans[i].plan.t.steps
	if !slices.Contains(s.m.g.Names(), dim) {
		return 0, false, nil
	}
	if bytes <= 0 {
		return 0, true, nil
	}
	r := s.r
	r.Budget = Size{Bytes: bytes}
	err = graph.Try(func() {
		var f *formulas.Formulas
		if f, err = s.m.formulas(c.plans[i].plan.t); err == nil {
			l := newLargest(s.m.g, r, dim)
			size = l.under(decisions{steps, f})
		}
	})
	return size, err == nil, err
}

// under is the largest size at which a way fits: the bytes alive tell where to look, and placing takes a little more, so that sizes go
// down in growing steps until one fits, and up again in shrinking ones.
func (l *largest) under(w decisions) int64 {
	most := l.reach(w)
	fits := func(size int64) int64 {
		if size = l.nearest(size, 0, size+1); size == 0 || !l.fits(w, size) {
			return 0
		}
		return size
	}
	size, step := most, int64(1)
	found := fits(size)
	for ; found == 0 && size > 1; step *= 2 {
		size = max(1, size-step)
		found = fits(size)
	}
	for step /= 4; step > 0; step /= 2 { // sizes that were skipped
		if next := found + step; found > 0 && next < most {
			found = max(found, fits(next))
		}
	}
	return found
}
