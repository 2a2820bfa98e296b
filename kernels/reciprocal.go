package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Reciprocal",
	Doc:   "y = 1/x",
	In:    "X",
	Out:   "Y",
	Infer: floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		y := n.Outputs[0]
		return []*graph.Value{b.Op("Neg", nil, b.Op("Mul", nil, dy[0], b.Op("Mul", nil, y, y)))}
	},
	Eval: unary{f: inverse}.eval,
	Fast: unary{f: inverse}.fast(func(y, x []float32) {
		for i, v := range x {
			y[i] = 1 / v
		}
	}),
	Lower:     lower.Pointwise("T(1) / a"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]>0", "f64[]>0", "f16[4]>0", "f32[0,2]"},
})

func inverse(x float64) float64 { return 1 / x }
