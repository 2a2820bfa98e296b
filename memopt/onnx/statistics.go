package onnx

import (
	"slices"

	"memopt/memopt/graph"
)

// runningUpdates adds the updates of running statistics that the file makes and
// nobody reads: PyTorch's older exporter writes batch norm in training with the
// new statistics as outputs of the node and not of the graph. A layer that is
// called twice goes on from what its first call has left.
func (r *reader) runningUpdates() {
	g := r.b.Graph
	last := map[*graph.Value]int{} // by state: its update
	for i, u := range g.Updates {
		last[u.State] = i
	}
	given := len(g.Updates)
	for _, n := range g.Nodes {
		for _, pair := range n.Op.Running {
			state, next := n.In(pair[0]), n.Output(pair[1])
			if state == nil || next == nil || !state.Kind.Stored() || state.Type != next.Type || !state.Shape.Equal(next.Shape) {
				continue
			}
			i, again := last[state]
			switch {
			case !again:
				last[state] = len(g.Updates)
				g.Updates = append(g.Updates, graph.Update{State: state, New: next})
			case i >= given: // the file says what replaces the others
				n.Inputs[pair[0]] = g.Updates[i].New
				g.Updates[i].New = next
			}
		}
	}
	g.Updates = slices.Clip(g.Updates)
}
