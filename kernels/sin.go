package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Sin",
	Doc:   "y = sin x",
	In:    "X",
	Out:   "Y",
	Infer: floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Mul", nil, dy[0], b.Op("Cos", nil, n.Inputs[0]))}
	},
	Eval:      unary{f: math.Sin}.eval,
	Fast:      unary{f: math.Sin}.fast(scalarRows(math.Sin)),
	Lower:     lower.Pointwise("wave(a, 0)"),
	Pointwise: true,
	Flops:     perElement(15),
	Tests:     graph.Tests{Work: eachOut(15)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]"},
})

// SinGrad is ONNX Runtime's gradient.
var _ = define(graph.Op{
	Name:    "SinGrad",
	Doc:     "dx = dy·cos x",
	In:      "dY, X",
	Out:     "dX",
	Samples: []string{"f32[2,3], f32[2,3]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Op("Mul", nil, n.Inputs[0], b.Op("Cos", nil, n.Inputs[1]))}
	},
})
