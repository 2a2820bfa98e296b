package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Exp",
	Doc:   "y = eˣ",
	In:    "X",
	Out:   "Y",
	Infer: floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Mul", nil, dy[0], n.Outputs[0])}
	},
	Eval:      unary{f: math.Exp}.eval,
	Fast:      unary{f: math.Exp}.fast(f32.Exp),
	Lower:     lower.Pointwise("exp(a)"),
	Pointwise: true,
	Flops:     perElement(10),
	Tests:     graph.Tests{Work: eachOut(10)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]", "f32[37]"},
})
