package planner

import "memopt/planner/recompute"

// Floor is the peak that no plan in this order can go below, and why.
type Floor struct {
	Peak int64  `json:"peak"`
	Node string `json:"node"`
}

// floor is the largest need of a single step: what it reads and writes, and
// what is alive across it in every plan.
func (m *model) floor() Floor {
	f := recompute.FloorOf(m.problem(1, nil))
	if f.Peak == 0 {
		return Floor{}
	}
	return Floor{f.Peak, m.g.Nodes[m.sim.plain[f.Op]].Name}
}
