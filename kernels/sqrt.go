package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Sqrt",
	Doc:   "y = √x",
	In:    "X",
	Out:   "Y",
	Infer: floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		y := n.Outputs[0]
		return []*graph.Value{b.Op("Div", nil, b.Op("Mul", nil, dy[0], num(b, y, 0.5)), y)}
	},
	Eval:      unary{f: math.Sqrt}.eval,
	Fast:      unary{f: math.Sqrt}.fast(scalarRows(math.Sqrt)),
	Lower:     lower.Pointwise("sqrt(a)"),
	Pointwise: true,
	Flops:     perElement(2),
	Tests:     graph.Tests{Work: eachOut(2)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]>0", "f64[]>0", "f16[4]>0", "f32[0]"},
})
