package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var addition = binary{
	f: func(x, y float64) float64 { return x + y },
	i: func(x, y int64) int64 { return x + y },
}

var _ = define(graph.Op{
	Name:  "Add",
	Since: 7,
	Doc:   "z = x + y, broadcast",
	In:    "A, B",
	Out:   "C",
	Infer: arithmetic(graph.Dim.Add),
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{sumTo(b, dy[0], n.Inputs[0].Shape), sumTo(b, dy[0], n.Inputs[1].Shape)}
	},
	Whole: wholeArithmetic(wholeSum),
	Eval:  addition.eval,
	Fast: addition.fast(
		f32.Add,
		func(z, x []float32, y float32) {
			x = x[:len(z)]
			for i := range z {
				z[i] = x[i] + y
			}
		},
		func(z []float32, x float32, y []float32) {
			y = y[:len(z)]
			for i := range z {
				z[i] = x + y[i]
			}
		}),
	Lower:     lower.Numberwise("a + b"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests: graph.Tests{
		Work: eachOut(1),
		Pieces: []string{
			"f32[60,100], f32[100]",
			"f32[3001], f32[3001]",
			"f32[600,10], f32[600,1]",
			"f16[3001], f16[3001]",
			"i64[2000], i64[2000]",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3], f32[2,3]",
		"f32[4,2,3], f32[3]",
		"f32[2,1], f32[4,1,3]",
		"f32[], f32[2]",
		"i64[3], i64[3]",
		"f32[0,3], f32[3]",
	},
})

var _ = alignAt("Add")
