package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Sub",
	Since: 7,
	Doc:   "z = x − y, broadcast",
	In:    "A, B",
	Out:   "C",
	Infer: arithmetic(graph.Dim.Sub),
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{
			sumTo(b, dy[0], n.Inputs[0].Shape),
			b.Op("Neg", nil, sumTo(b, dy[0], n.Inputs[1].Shape)),
		}
	},
	Whole: wholeArithmetic(wholeDifference),
	Eval:  subtraction.eval,
	Fast: subtraction.fast(
		f32.Sub,
		func(z, x []float32, y float32) {
			x = x[:len(z)]
			for i := range z {
				z[i] = x[i] - y
			}
		},
		func(z []float32, x float32, y []float32) {
			y = y[:len(z)]
			for i := range z {
				z[i] = x - y[i]
			}
		}),
	Lower:     lower.Numberwise("a - b"),
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
		"i32[3], i32[1]",
		"u8[3], u8[3]",
		"f32[0,3], f32[3]",
	},
})

var _ = alignAt("Sub")

var subtraction = binary{
	f: func(x, y float64) float64 { return x - y },
	i: func(x, y int64) int64 { return x - y },
}
