package kernels

import (
	"slices"

	"memopt/internal/graph"
)

var _ = defineView(graph.Op{
	Name:  "Unsqueeze",
	Since: 13,
	Doc:   "inserts dims of 1; axes count in the result",
	In:    "data, axes",
	Out:   "expanded",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		axes := knownInts(n, 1, "axes")
		out := slices.Clone(x.Shape)
		for _, a := range axesOf(n, axes, x.Rank()+len(axes)) {
			out = slices.Insert(out, a, graph.Num(1))
		}
		n.Set(0, x.Type, out)
		n.SetInts(0, x.Ints)
	},
	Ragged:   func(b *graph.Builder, n *graph.Node) []*graph.Value { return raggedAxes(b, n, 1) },
	Simplify: viewOfView,
	Samples: []string{
		"f32[2,3], i64{0}",
		"f32[2,3], i64{-1}",
		"f32[2,3], i64{3,0}",
		"f32[], i64{0}",
		"f32[], i64{0,1}",
		"f32[0], i64{1}",
		"i64[]{7}, i64[]{0}",
	},
})

// Before opset 13 the axes are an attribute.
var _ = define(graph.Op{
	Name:  "Unsqueeze",
	Doc:   "the form before opset 13, with axes as an attribute",
	In:    "data",
	Out:   "expanded",
	Attrs: "axes ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		if !n.Has("axes") {
			n.Fail("attribute axes is missing")
		}
		return []*graph.Value{b.Op("Unsqueeze", nil, n.Inputs[0], b.Ints(graph.Dims(n.Ints("axes")...)...))}
	},
})
