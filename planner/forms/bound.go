package forms

import (
	"memopt/memopt/graph"
	"memopt/planner"
)

// leastOf is at least what any plan of a choice costs, before its step is derived: 0 where
// nothing is known.
//
// Whatever plan the choice has, the own form has one that does the same with the operators
// that those in pieces stand for, and keeps all that these make. So it takes no more bytes
// than the other and these together, and what it costs is no more than what the other does
// and these do. Of the gradients as much is true as of the forward pass.
func (own *trial) leastOf(c choice) float64 {
	forward, err := c.step.outline()
	if err != nil {
		return 0
	}
	apart := planner.Apart{Bytes: own.freed(all(len(own.found)))}
	gone := map[string]bool{}
	for _, n := range own.Graph.Nodes {
		isForward := n.Phase == graph.Forward
		if (!isForward || sameNode(n, forward.Graph)) && !n.GradientOf(gone) {
			continue
		}
		if apart.Nodes = append(apart.Nodes, n); isForward {
			gone[n.GradientScope()] = true
		}
	}
	for _, v := range own.Graph.Values {
		if v.Kind != graph.Computed && v.Kind != graph.State && forward.Graph.ByName(v.Name) == nil {
			apart.Values = append(apart.Values, v)
		}
	}
	least, err := own.look.LeastApart(apart)
	if err != nil {
		return 0
	}
	return least
}

// sameNode reports whether a graph has a node that does the same under the same names.
func sameNode(n *graph.Node, in *graph.Graph) bool {
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		w := in.ByName(v.Name)
		if w == nil || w.Def == nil || w.Def.Op != n.Op || int(w.Out) != i || len(w.Def.Inputs) != len(n.Inputs) {
			return false
		}
		for k, x := range n.Inputs {
			if y := w.Def.Inputs[k]; (x == nil) != (y == nil) || x != nil && x.Name != y.Name {
				return false
			}
		}
	}
	return true
}
