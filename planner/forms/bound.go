package forms

import (
	"memopt/internal/graph"
	"memopt/planner"
)

// leastOf is a lower bound of the cost of any plan of a choice whose step is not derived yet; 0 if
// nothing is known.
//
// Any plan of the choice becomes a plan of the form own by running the operators that the pieces
// replace instead of the pieces, and keeping all their results. It needs at most the bytes of the
// first plan plus those of the replaced nodes, and costs at most the cost of the first plan plus
// theirs. The same holds for their gradients.
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

// sameNode reports whether a graph has a node with the same operator and the same names of inputs
// and outputs.
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
