package kernels

import "memopt/memopt/graph"

var _ = define(graph.Op{
	Name:  "CastLike",
	Since: 15,
	Doc:   "the numbers in the element type of another tensor",
	In:    "input, target_type",
	Out:   "output",
	Attrs: "saturate int=1, round_mode string=up",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Op("Cast", graph.A{"to": int(n.Inputs[1].Type)}, n.Inputs[0])}
	},
})
