package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:    "CastLike",
	Since:   15,
	Doc:     "the numbers in the element type of another tensor",
	In:      "input, target_type",
	Out:     "output",
	Attrs:   "saturate int=1, round_mode string=up",
	Samples: []string{"f32[2,3], i32[1]", "i8[3], f16[1]", "f32[5], f8e5m2[1]; saturate=0"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Op("Cast", castTo(n, n.Inputs[1].Type), n.Inputs[0])}
	},
})
