package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// SafeSoftmax is PyTorch's _safe_softmax, which guards attention against fully masked rows.
// Exporters write it as Softmax, IsNaN and Where, whose gradients keep two tensors and the
// mask; this operator's keeps only its output.
var _ = define(graph.Op{
	Name:   "SafeSoftmax",
	Domain: own,
	Doc:    "eˣ / Σ eˣ along an axis, 0 where that is NaN",
	In:     "input",
	Out:    "output",
	Attrs:  "axis int=-1",
	Infer:  axisInfer,
	// Rows of zeros have gradient 0, as in SoftmaxGrad.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return b.Ops("com.microsoft.SoftmaxGrad_13", graph.A{"axis": n.Int("axis")}, 1, dy[0], n.Outputs[0])
	},
	Fuse: func(m *graph.Match) []*graph.Value {
		n, p := m.Node, pieces{m}
		if n.Op.FullName() != "Where" || !p.is(n.Inputs[1], 0) || !n.Inputs[2].Shape.Equal(n.Outputs[0].Shape) {
			return nil
		}
		guard, y := p.Inner(n.Inputs[0], "IsNaN"), n.Inputs[2]
		softmax := p.Piece(y, "Softmax")
		if guard == nil || softmax == nil || guard.Inputs[0] != y {
			return nil
		}
		return []*graph.Value{m.Builder.Op("memopt.SafeSoftmax", graph.A{"axis": softmax.Int("axis")}, softmax.Inputs[0])}
	},
	Eval: func(c *graph.Call) {
		softmax := callAs(c, "Softmax", 1)
		softmax.Node.Op.Eval(softmax)
		y := c.Out[0]
		for i := range y.Len() {
			if v := y.Float(i); v != v {
				y.SetFloat(i, 0)
			}
		}
	},
	Fast: func(c *graph.Call) {
		onAxisF32(c, c.Node.Int("axis"), func(y []float32, x [][]float32) {
			f32.Softmax(y, x[0])
			// The sum divides the whole row: if one element is NaN, all are.
			if len(y) > 0 && y[0] != y[0] {
				clear(y)
			}
		})
	},
	Lower:     lowerRow(lower.RowSafeSoftmax),
	Flops:     perElement(12),
	Tests:     graph.Tests{Work: eachOut(12), NoScalars: true},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   axisSamples,
})
