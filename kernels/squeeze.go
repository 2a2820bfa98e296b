package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// Squeeze without axes removes every dim that is the constant 1. A symbolic dim that may be 1
// stays: the graph must be valid for all sizes.
var _ = defineView(graph.Op{
	Name:   "Squeeze",
	Since:  13,
	Doc:    "the same elements without dims of 1",
	In:     "data, axes?",
	Out:    "squeezed",
	Known:  []int{1},
	Ragged: func(b *graph.Builder, n *graph.Node) []*graph.Value { return raggedAxes(b, n, 0) },
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		var out graph.Shape
		if n.In(1) == nil {
			for _, d := range x.Shape {
				if !d.Is(1) {
					out = append(out, d)
				}
			}
		} else {
			axes := axesOf(n, knownInts(n, 1, "axes"), x.Rank())
			for i, d := range x.Shape {
				if !slices.Contains(axes, i) {
					out = append(out, d)
					continue
				}
				n.Same(d, graph.Num(1), "a squeezed dim must be 1")
			}
		}
		n.Set(0, x.Type, out)
		n.SetInts(0, x.Ints)
	},
	Simplify: viewOfView,
	Samples: []string{
		"f32[1,2,1]",
		"f32[1,2,1], i64{-1}",
		"f32[0,1], i64{1}",
		"f32[1,2,1], i64{0,2}",
		"f32[1,1], i64{1,0}",
		"f32[2], i64{}",
		"i64{7}, i64{0}",
	},
})

// Before opset 13 the axes are an attribute.
var _ = define(graph.Op{
	Name:  "Squeeze",
	Doc:   "the form before opset 13, with axes as an attribute",
	In:    "data",
	Out:   "squeezed",
	Attrs: "axes ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := []*graph.Value{n.Inputs[0]}
		if n.Has("axes") {
			in = append(in, b.Ints(graph.Dims(n.Ints("axes")...)...))
		}
		return []*graph.Value{b.Op("Squeeze", nil, in...)}
	},
})
