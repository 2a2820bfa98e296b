package onnx

import "memopt/internal/graph"

// torchProducer is the producer of PyTorch's exporters.
const torchProducer = "pytorch"

// runningUpdates adds updates of running statistics for node outputs that nobody reads:
// PyTorch's older exporter does not make the new statistics of batch normalization outputs of
// the graph. There the variance is the unbiased one, as in the exported model. If a layer is
// called twice, the second call updates the result of the first.
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
				continue // the file has an update
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

// behind runs a rule and moves its nodes right after node i.
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
