package onnx

import "memopt/memopt/graph"

// torchProducer is the producer of PyTorch's exporters.
const torchProducer = "pytorch"

// runningUpdates adds the updates of running statistics that the file makes and
// nobody reads: PyTorch's older exporter writes batch norm in training with the
// new statistics as outputs of the node and not of the graph. There the
// variance is the sample's, as in the model that was exported. A layer that is
// called twice goes on from what its first call has left.
func (r *reader) runningUpdates() {
	g := r.b.Graph
	last := map[*graph.Value]int{} // by state: its update
	for i, u := range g.Updates {
		last[u.State] = i
	}
	given := len(g.Updates)
	for i := 0; i < len(g.Nodes); i++ {
		n := g.Nodes[i]
		for _, s := range n.Op.Running {
			state, next := n.In(s.In), n.Output(s.Out)
			if state == nil || next == nil || !state.Kind.Stored() || state.Type != next.Type || !state.Shape.Equal(next.Shape) {
				continue
			}
			at, again := last[state]
			if again && at < given {
				continue // the file says what replaces it
			}
			if again {
				n.Inputs[s.In] = g.Updates[at].New
			}
			if s.Sample != nil && r.model.producer == torchProducer {
				next = r.behind(i, func() *graph.Value { return s.Sample(r.b, n) })
			}
			if again {
				g.Updates[at].New = next
				continue
			}
			last[state] = len(g.Updates)
			g.Updates = append(g.Updates, graph.Update{State: state, New: next})
		}
	}
}

// behind runs a rule whose nodes are to stand right behind node i.
func (r *reader) behind(i int, rule func() *graph.Value) (v *graph.Value) {
	g := r.b.Graph
	before := len(g.Nodes)
	r.b.Scope = g.Nodes[i].Name
	defer func() { r.b.Scope = "" }()
	if err := graph.Try(func() { v = rule() }); err != nil {
		fail("%s", err)
	}
	made := append([]*graph.Node(nil), g.Nodes[before:]...)
	copy(g.Nodes[i+1+len(made):], g.Nodes[i+1:before])
	copy(g.Nodes[i+1:], made)
	for k, n := range g.Nodes {
		n.ID = int32(k)
	}
	return v
}
