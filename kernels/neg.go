package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name: "Neg",
	Doc:  "y = −x",
	In:   "X",
	Out:  "Y",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		sameShape(n)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d.Neg(), true })
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Neg", nil, dy[0])}
	},
	Eval: negation.eval,
	Fast: negation.fast(func(y, x []float32) {
		for i, v := range x {
			y[i] = -v
		}
	}),
	Lower:     lower.Numberwise("-a"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f32[]", "i64[4]", "i8[3]", "f64[0,2]"},
})

var negation = unary{
	f: func(x float64) float64 { return -x },
	i: func(x int64) int64 { return -x },
}
