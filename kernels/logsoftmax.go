package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "LogSoftmax",
	Since: 13,
	Doc:   "x − ln Σ eˣ along an axis",
	In:    "input",
	Out:   "output",
	Attrs: "axis int=-1",
	Infer: axisInfer,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return b.Ops("com.microsoft.LogSoftmaxGrad_13", graph.A{"axis": n.Int("axis")}, 1, dy[0], n.Outputs[0])
	},
	Eval: func(c *graph.Call) {
		onAxis(c, c.Node.Int("axis"), func(y []float64, x [][]float64) {
			top, sum := greatestOf(x[0]), 0.0
			for _, v := range x[0] {
				sum += math.Exp(v - top)
			}
			log := math.Log(sum)
			for i, v := range x[0] {
				y[i] = v - top - log
			}
		})
	},
	Fast: func(c *graph.Call) {
		onAxisF32(c, c.Node.Int("axis"), func(y []float32, x [][]float32) { f32.LogSoftmax(y, x[0]) })
	},
	Lower:     lowerRow(lower.RowLogSoftmax),
	Flops:     perElement(12),
	Tests:     graph.Tests{Work: eachOut(12), NoScalars: true},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   axisSamples,
})

var _ = define(graph.Op{
	Name:   "LogSoftmaxGrad_13",
	Domain: microsoft,
	Doc:    "dx = dy − eʸ·Σ dy along an axis",
	In:     "dY, Y",
	Out:    "dX",
	Attrs:  "axis int=-1",
	Infer:  axisInfer,
	NoGrad: true,
	Eval: func(c *graph.Call) {
		onAxis(c, c.Node.Int("axis"), func(dx []float64, in [][]float64) {
			dy, y, sum := in[0], in[1], 0.0
			for _, d := range dy {
				sum += d
			}
			for i := range y {
				dx[i] = dy[i] - math.Exp(y[i])*sum
			}
		})
	},
	Fast: func(c *graph.Call) {
		onAxisF32(c, c.Node.Int("axis"), func(dx []float32, in [][]float32) { f32.LogSoftmaxSlope(dx, in[0], in[1]) })
	},
	Lower:     lowerRow(lower.RowLogSoftmaxGrad),
	Flops:     perElement(12),
	Tests:     graph.Tests{Work: eachOut(12)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   pairs(axisSamples),
})

var _ = flatAxis("LogSoftmax")
