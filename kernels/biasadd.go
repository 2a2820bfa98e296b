package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:   "BiasAdd",
	Domain: microsoft,
	Doc:    "X + skip + a bias as long as the last dim",
	In:     "X, bias, skip",
	Out:    "Y",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Op("Add", nil, b.Op("Add", nil, n.Inputs[0], n.Inputs[1]), n.Inputs[2])}
	},
	Samples: []string{"f32[2,3,4], f32[4], f32[2,3,4]"},
})
