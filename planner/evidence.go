package planner

import (
	"fmt"

	"memopt/planner/recompute"
)

// Floor is the peak that no plan in this order can go below, and why.
type Floor struct {
	Peak int64  `json:"peak"`
	Node string `json:"node"`
}

// floor is the largest need of a single step: what it reads and writes, and what is alive across it in every plan.
func (m *model) floor(e *Elsewhere) Floor {
	p := m.problem(1, nil)
	if e != nil {
		p.Away, p.Far = make([]bool, len(p.Bytes)), m.far(e).Bytes
		for v := range p.Away {
			p.Away[v] = !p.Held[v]
		}
	}
	f := recompute.FloorOf(p)
	if f.Peak == 0 {
		return Floor{}
	}
	return Floor{f.Peak, m.g.Nodes[m.nodes[f.Op]].Name}
}

// Bound is what no plan in this order can undercut.
type Bound struct {
	Overhead float64 `json:"overhead"` // least extra cost at the plan's arena limit, as a share of the step's
	Gap      float64 `json:"gap"`      // the plan's overhead above it
}

// bound is the bound of a candidate for a limit of the arena.
func (s *Search) bound(c *candidate, limit int64) (b Bound) {
	m, least := s.m, 0.0
	if s.plan.Request.Elsewhere != nil && c.cost > 0 {
		s.solves()
		if least, _ = s.least(limit); checking && least > c.cost+1e-6*m.total {
			panic(fmt.Sprintf("planner: a plan costs %v, below the bound of %v", c.cost, least))
		}
		b.Overhead = m.overhead(min(least, c.cost))
		b.Gap = m.overhead(c.cost) - b.Overhead
		return b
	}
	switch limit = m.aligned(limit); {
	case c.cost == 0:
	case s.solver == nil:
		least, _ = m.solverOf(m.problem(m.unit, nil)).Bound(limit, c.cost)
	default:
		// Solving proved what it could for the limits that it aimed at, of which this mostly is the first.
		if least, _ = s.solver.r.Bound(limit, 0); c.cost > least+far*m.total {
			least, _ = s.solver.r.Bound(limit, c.cost)
		}
	}
	if b.Overhead = m.overhead(least); c.cost > 0 {
		b.Gap = m.overhead(c.cost) - b.Overhead
	}
	return b
}
