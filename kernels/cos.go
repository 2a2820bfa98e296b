package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Cos",
	Doc:   "y = cos x",
	In:    "X",
	Out:   "Y",
	Infer: floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Neg", nil, b.Op("Mul", nil, dy[0], b.Op("Sin", nil, n.Inputs[0])))}
	},
	Eval:      unary{f: math.Cos}.eval,
	Fast:      unary{f: math.Cos}.fast(scalarRows(math.Cos)),
	Lower:     lower.Pointwise("wave(a, 1)"),
	Pointwise: true,
	Flops:     perElement(15),
	Tests:     graph.Tests{Work: eachOut(15)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]"},
})
