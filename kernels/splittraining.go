package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// SplitTraining and ReduceSumTraining are operators of ONNX Runtime that have an input where
// ONNX's then had an attribute.
var _ = define(graph.Op{
	Name:    "SplitTraining",
	Domain:  microsoft,
	Doc:     "Split with the sizes as an input; an empty list means equal parts",
	In:      "input, split",
	Out:     "outputs...",
	Attrs:   "axis int=0",
	Known:   []int{1},
	Samples: []string{"f32[4,3], i64{1,3} -> a, b"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := n.Inputs
		if in[1].Shape.Elems().Is(0) {
			in = in[:1]
		}
		return b.Ops("Split", graph.A{"axis": n.Int("axis")}, len(n.Outputs), in...)
	},
})

var _ = define(graph.Op{
	Name:    "ReduceSumTraining",
	Domain:  microsoft,
	Doc:     "ReduceSum",
	In:      "data, axes",
	Out:     "reduced",
	Attrs:   "keepdims int=1, noop_with_empty_axes int=0",
	Known:   []int{1},
	Samples: []string{"f32[4,3], i64{1}"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		attrs := graph.A{"keepdims": n.Int("keepdims"), "noop_with_empty_axes": n.Int("noop_with_empty_axes")}
		return b.Ops("ReduceSum", attrs, 1, slices.Clone(n.Inputs)...)
	},
})
