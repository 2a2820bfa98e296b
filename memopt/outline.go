package memopt

import (
	"slices"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/planner"
)

// readOutline takes the nodes of a trainer's file as it spells them: clusters
// are named after those, not after what reading has made of them.
func (m *Model) readOutline() (err error) {
	if !slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op.Border }) {
		return nil
	}
	if m.Outline, err = onnx.ReadOutline(m.Path); err != nil {
		return input(err)
	}
	return nil
}

// boundary reports whether clusters end where layers do. ONNX Runtime does so at
// its levels only.
func boundary(c configs.Config) bool {
	if _, given := c.Source("boundary"); !given && c.Compat != "" {
		return c.Level > 0
	}
	return c.Boundary
}

// as adds to a request how clusters are found, and what was measured.
func (m *Model) as(r planner.Request) planner.Request {
	r.Costs = m.costs
	r.Outline, r.Compat, r.Boundary = m.Outline, m.Config.Compat, boundary(m.Config)
	return r
}
