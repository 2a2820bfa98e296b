package planner

import "memopt/planner/recompute"

// Bound is what no plan in this order can undercut.
type Bound struct {
	Overhead float64 // least extra cost at the plan's arena limit, as a share of the step's
	Gap      float64 // the plan's overhead above it
}

// bound is the bound of a candidate for a limit of the arena.
func (m *model) bound(c *candidate, limit int64, v *solver) (Bound, error) {
	if c.cost == 0 {
		return Bound{Overhead: m.overhead(0)}, nil
	}
	var least float64
	if v != nil {
		least, _ = v.r.Bound(align(limit)) // as far as solving went
	} else {
		r, err := recompute.New(m.problem(alignment, nil))
		if err != nil {
			return Bound{}, err
		}
		least, _ = r.Prove(align(limit))
	}
	b := Bound{Overhead: m.overhead(least)}
	b.Gap = m.overhead(c.cost) - b.Overhead
	return b, nil
}
