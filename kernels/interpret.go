package kernels

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// Interpret runs a whole graph with the operators' Eval, each value in memory of its own. It
// is the slow reference that devices are compared with. The result has a tensor for every
// value, by ID.
func Interpret(g *graph.Graph, b *graph.Binding, given map[string]*graph.Tensor) ([]*graph.Tensor, error) {
	ts := make([]*graph.Tensor, len(g.Values))
	for _, v := range g.Values {
		if v.Kind == graph.Computed {
			continue
		}
		if x := given[v.Name]; x != nil {
			ts[v.ID] = x
			continue
		}
		x, err := v.Tensor(b)
		if err != nil {
			return nil, err
		}
		ts[v.ID] = x.Aligned()
	}
	for _, n := range g.Nodes {
		c := &graph.Call{Node: n, Parallel: f32.Serial, In: make([]*graph.Tensor, len(n.Inputs)), Out: make([]*graph.Tensor, len(n.Outputs))}
		for i, v := range n.Inputs {
			if v != nil {
				c.In[i] = ts[v.ID]
			}
		}
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			shape, err := b.Shape(v.Shape)
			if err != nil {
				return nil, fmt.Errorf("node %q: %w", n.Name, err)
			}
			c.Out[i] = graph.NewTensor(v.Type, shape...)
			ts[v.ID] = c.Out[i]
		}
		n.Op.Eval(c)
	}
	return ts, nil
}
