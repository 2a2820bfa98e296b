package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:  "Bernoulli",
	Since: 15,
	Doc:   "1 with the probability that the input says, else 0",
	In:    "input",
	Out:   "output",
	Attrs: "dtype int, seed float",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		p := n.Inputs[0]
		if !p.Type.IsFloat() {
			n.Fail("the input is %s; probabilities are floats", p.Type)
		}
		to := p.Type
		if n.Has("dtype") {
			to = graph.DType(n.Int("dtype"))
		}
		drawn := draw(b, n, shapeOf(b, p), p.Type, 0)
		return []*graph.Value{b.Op("Cast", graph.A{"to": int64(to)}, b.Op("Less", nil, drawn, p))}
	},
	Samples: []string{"f32[2,3]", "f64[5]; dtype=9 seed=2.0"},
})
