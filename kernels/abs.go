package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name: "Abs",
	Doc:  "y = |x|",
	In:   "X",
	Out:  "Y",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		sameShape(n)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d.Max(d.Neg()), true })
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Mul", nil, dy[0], b.Op("Sign", nil, n.Inputs[0]))}
	},
	Eval: unary{f: math.Abs, i: magnitude}.eval,
	Fast: unary{f: math.Abs, i: magnitude}.fast(func(y, x []float32) {
		for i, v := range x {
			y[i] = math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
		}
	}),
	Lower:     lower.Numberwise("abs(a)"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]", "i64[4]", "i8[3]", "u16[3]>0"},
})

// magnitude is |x|. uint64 values from 2⁶³ on arrive as negative int64s and come out wrong.
func magnitude(x int64) int64 {
	return max(x, -x)
}
