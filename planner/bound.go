package planner

import (
	"slices"
)

// Bound is what no plan in this order can undercut.
type Bound struct {
	Overhead float64 // least extra cost at the plan's arena limit, as a share of the step's
	Gap      float64 // the plan's overhead above it
}

// bound is the bound of a candidate against the plain one.
func (m *model) bound(plain, c *candidate, limit int64) Bound {
	if m.total == 0 {
		return Bound{}
	}
	b := Bound{Overhead: m.costBound(plain.t, limit) / m.total}
	b.Gap = c.cost/m.total - b.Overhead
	return b
}

// costBound is a proven lower bound on the extra cost of any plan whose peak
// is within limit: the best of the cuts at a few steps. It is infinite if no
// plan can be.
func (m *model) costBound(plain *timeline, limit int64) float64 {
	best := 0.0
	s := m.spans(plain)
	for _, at := range m.tight(plain, limit) {
		bound, _, _ := m.newCut(plain, s, at).solve(limit)
		best = max(best, bound)
	}
	return best
}

// windows is how many stretches of the step are looked at by their worst step.
const windows = 8

// tight lists the steps that cuts are made at: the first ones of the backward
// pass, where most is kept, and the worst of each window that is over limit.
func (m *model) tight(t *timeline, limit int64) (at []int) {
	add := func(i int) {
		if i >= 0 && i < len(t.live) && t.live[i] > limit && !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	border := m.sim.forward
	add(border)
	add(border + 1)
	add(border + 2)
	add(t.at)
	width := max(1, (len(t.live)+windows-1)/windows)
	for from := 0; from < len(t.live); from += width {
		worst := from
		for i := from; i < min(from+width, len(t.live)); i++ {
			if t.live[i] > t.live[worst] {
				worst = i
			}
		}
		add(worst)
	}
	return at
}
