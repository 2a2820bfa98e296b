package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Mul",
	Since: 7,
	Doc:   "z = x·y, broadcast",
	In:    "A, B",
	Out:   "C",
	Infer: arithmetic(graph.Dim.Mul),
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, y := n.Inputs[0], n.Inputs[1]
		return []*graph.Value{
			sumTo(b, b.Op("Mul", nil, dy[0], y), x.Shape),
			sumTo(b, b.Op("Mul", nil, dy[0], x), y.Shape),
		}
	},
	NoOp:  timesOne,
	Whole: wholeArithmetic(wholeProduct),
	Eval:  multiplication.eval,
	Fast: multiplication.fast(
		f32.Mul,
		f32.Scale,
		func(z []float32, x float32, y []float32) { f32.Scale(z, y, x) }),
	Lower:     lower.Numberwise("a * b"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3], f32[2,3]",
		"f32[4,2,3], f32[3]",
		"f32[2,1], f32[4,1,3]",
		"f32[], f32[2]",
		"i64[3], i64[]",
		"u8[3], u8[3]",
		"f32[0,3], f32[3]",
		"f16[3], f16[3]",
	},
})

var _ = alignAt("Mul")

var multiplication = binary{
	f: func(x, y float64) float64 { return x * y },
	i: func(x, y int64) int64 { return x * y },
}

// timesOne reports whether input 1 is the constant 1.
func timesOne(n *graph.Node) bool {
	c, ok := oneNumber(n.Inputs[1])
	return ok && c == 1
}
