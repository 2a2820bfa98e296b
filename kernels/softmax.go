package kernels

import (
	"math"

	"memopt/memopt/graph"
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
	Fast:      func(c *graph.Call) { onAxisF32(c, c.Node.Int("axis"), softmaxRow) },
	Lower:     lowerRow(rowSoftmax),
	Flops:     perElement(12),
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   axisSamples,
})

// topRow is the greatest number of a row but for NaN, which shows in the
// exponentials anyway.
func topRow(x []float32) float32 {
	if vectors && len(x) >= worthVectors {
		var s rowSums
		for i := range s.top {
			s.top[i] = minusInf
		}
		a := mapping(x, x)
		a.sums, a.pad[0] = &s, minusInf
		a.greatest(len(x))
		return s.top[0]
	}
	a := float32(math.Inf(-1))
	b, c, d := a, a, a
	for ; len(x) >= 4; x = x[4:] {
		if x[0] > a {
			a = x[0]
		}
		if x[1] > b {
			b = x[1]
		}
		if x[2] > c {
			c = x[2]
		}
		if x[3] > d {
			d = x[3]
		}
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(a, b, c, d)
}

func softmaxRow(y []float32, in [][]float32) {
	x := in[0]
	if vectors && len(x) >= worthVectors {
		var s rowSums
		for i := range s.top {
			s.top[i] = minusInf
		}
		a := mapping(y, x)
		a.sums, a.pad[0] = &s, minusInf
		a.greatest(len(x))
		a.scalars[0] = s.top[0]
		a.expSum(len(x))
		a.in[0], a.scalars[0] = a.out[0], float32(1/s.total(0))
		a.scale(len(x))
		return
	}
	scaleRow(y, y, float32(1/expSumRow(y, x, topRow(x))))
}

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
		onAxisF32(c, c.Node.Int("axis"), func(dx []float32, in [][]float32) { softmaxSlopeRow(dx, in[0], in[1]) })
	},
	Lower:     lowerRow(rowSoftmaxGrad),
	Flops:     perElement(4),
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   pairs(axisSamples),
})

// softmaxSlopeRow may write over dy or y.
func softmaxSlopeRow(dx, dy, y []float32) { slopeRow(dx, dy, y, float32(dotRow(dy, y))) }

// slopeRow is dx = y·(dy − dot).
func slopeRow(dx, dy, y []float32, dot float32) {
	if vectors {
		a := mapping2(dx, dy, y)
		a.scalars[0] = dot
		a.softmaxSlope(len(y))
		return
	}
	for i, v := range y {
		dx[i] = v * (dy[i] - dot)
	}
}

// dotRow adds in the order of sumRow.
func dotRow(x, y []float32) float64 {
	if vectors && len(x) >= worthVectors {
		var s rowSums
		a := mapping2(x, x, y)
		a.sums = &s
		a.dot(len(x))
		return s.total(0)
	}
	var a, b, c, d float64
	for y = y[:len(x)]; len(x) >= 4 && len(y) >= 4; x, y = x[4:], y[4:] {
		a += float64(x[0]) * float64(y[0])
		b += float64(x[1]) * float64(y[1])
		c += float64(x[2]) * float64(y[2])
		d += float64(x[3]) * float64(y[3])
	}
	for i, v := range x {
		a += float64(v) * float64(y[i])
	}
	return (a + b) + (c + d)
}

var _ = flatAxis("Softmax")

// flatAxis adds the form that an operator along an axis had before opset 13: it
// saw the input as a matrix, split before the axis, and went along its rows.
func flatAxis(name string) *graph.Op {
	return define(graph.Op{
		Name:  name,
		Doc:   "the form before opset 13, along all axes from one on",
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
