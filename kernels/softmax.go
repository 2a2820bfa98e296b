package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Softmax",
	Since: 13,
	Doc:   "eˣ / Σ eˣ along an axis",
	In:    "input",
	Out:   "output",
	Attrs: "axis int=-1",
	Infer: axisInfer,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return b.Ops("com.microsoft.SoftmaxGrad_13", graph.A{"axis": n.Int("axis")}, 1, dy[0], n.Outputs[0])
	},
	Eval: func(c *graph.Call) {
		onAxis(c, c.Node.Int("axis"), func(y []float64, x [][]float64) {
			top, sum := greatestOf(x[0]), 0.0
			for i, v := range x[0] {
				y[i] = math.Exp(v - top)
				sum += y[i]
			}
			for i := range y {
				y[i] /= sum
			}
		})
	},
	Fast: func(c *graph.Call) {
		onAxisF32(c, c.Node.Int("axis"), func(y []float32, x [][]float32) { f32.Softmax(y, x[0]) })
	},
	Lower: lowerRow(lower.RowSoftmax),
	Flops: perElement(12),
	Tests: graph.Tests{
		Work:      eachOut(12),
		NoScalars: true,
		Pieces: []string{
			"f32[70,32]",
			"f16[140,32]",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   axisSamples,
})

var _ = define(graph.Op{
	Name:   "SoftmaxGrad_13",
	Domain: microsoft,
	Doc:    "dx = y·(dy − Σ dy·y) along an axis",
	In:     "dY, Y",
	Out:    "dX",
	Attrs:  "axis int=-1",
	Infer:  axisInfer,
	NoGrad: true,
	Eval: func(c *graph.Call) {
		onAxis(c, c.Node.Int("axis"), func(dx []float64, in [][]float64) {
			dy, y, dot := in[0], in[1], 0.0
			for i := range y {
				dot += dy[i] * y[i]
			}
			for i := range y {
				dx[i] = y[i] * (dy[i] - dot)
			}
		})
	},
	Fast: func(c *graph.Call) {
		onAxisF32(c, c.Node.Int("axis"), func(dx []float32, in [][]float32) { f32.SoftmaxSlope(dx, in[0], in[1]) })
	},
	Lower:     lowerRow(lower.RowSoftmaxGrad),
	Flops:     perElement(4),
	Tests:     graph.Tests{Work: eachOut(4)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   pairs(axisSamples),
})

var _ = flatAxis("Softmax")

// flatAxis defines the form that an operator along an axis had before opset 13: it flattens the
// input to a matrix, split before the axis, and works on its rows.
func flatAxis(name string) *graph.Op {
	return define(graph.Op{
		Name:  name,
		Doc:   "the form before opset 13, over all dims from axis on",
		In:    "input",
		Out:   "output",
		Attrs: "axis int=1",
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			x := n.Inputs[0]
			axis := n.Int("axis")
			if axis != x.Rank() {
				axis = axisOf(n, axis, x.Rank())
			}
			flat := reshape(b, x, graph.Shape{x.Shape[:axis].Elems(), x.Shape[axis:].Elems()})
			y := b.Op(name, graph.A{"axis": -1}, flat)
			return []*graph.Value{reshape(b, y, x.Shape)}
		},
	})
}

// lowerRow lowers a rule along attribute axis.
func lowerRow(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if !lower.OnlyF32(l) {
			return
		}
		shape := l.Out[0].Shape
		before, n, after := index.Around(shape, axisOf(l.Node, l.Node.Int("axis"), len(shape)))
		lower.Lines(l, rule, before*after, n, after, lower.Reads(0), lower.Reads(len(l.In)-1))
	}
}
