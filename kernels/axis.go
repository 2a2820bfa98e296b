package kernels

import (
	"math"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// onAxis runs f over every line along an axis of output 0 and of the inputs, which have
// its shape. Lines are copies, so the output may share memory with an input.
func onAxis(c *graph.Call, axis int, f func(y []float64, x [][]float64)) {
	out := c.Out[0]
	before, n, after := index.Around(out.Shape, axisOf(c.Node, axis, len(out.Shape)))
	y, x := make([]float64, n), make([][]float64, len(c.In))
	for k := range x {
		x[k] = make([]float64, n)
	}
	for line := range before * after {
		at := line/after*n*after + line%after
		for k, in := range c.In {
			for i := range n {
				x[k][i] = in.Float(at + i*after)
			}
		}
		f(y, x)
		for i := range n {
			out.SetFloat(at+i*after, y[i])
		}
	}
}

// onAxisF32 is onAxis for float32 and any number of workers; other types go to Eval.
// f must allow y to be one of x.
func onAxisF32(c *graph.Call, axis int, f func(y []float32, x [][]float32)) {
	out := c.Out[0]
	if out.Type != graph.Float32 {
		c.Node.Op.Eval(c)
		return
	}
	before, n, after := index.Around(out.Shape, axisOf(c.Node, axis, len(out.Shape)))
	all := out.F32()
	in := make([][]float32, len(c.In))
	for k := range in {
		in[k] = c.In[k].F32()
	}
	c.Parallel(before*after, max(1, f32.Grain/max(1, 4*n)), func(lo, hi int) {
		x := make([][]float32, len(in))
		if after == 1 {
			for at := lo * n; at < hi*n; at += n {
				for k := range x {
					x[k] = in[k][at : at+n]
				}
				f(all[at:at+n], x)
			}
			return
		}
		// Adjacent lines are gathered together: each cache line is read once.
		const side = 16
		room := make([][]float32, len(in))
		for k := range room {
			room[k] = make([]float32, side*n)
		}
		y := make([]float32, side*n)
		for lo < hi {
			at := lo/after*n*after + lo%after
			width := min(side, hi-lo, after-lo%after)
			for k := range in {
				for i := range n {
					for j, v := range in[k][at+i*after:][:width] {
						room[k][j*n+i] = v
					}
				}
			}
			for j := range width {
				for k := range x {
					x[k] = room[k][j*n : j*n+n]
				}
				f(y[j*n:j*n+n], x)
			}
			for i := range n {
				line := all[at+i*after:][:width]
				for j := range line {
					line[j] = y[j*n+i]
				}
			}
			lo += width
		}
	})
}

// axisInfer infers an operator on floats along the attribute axis; all inputs
// have one shape.
func axisInfer(n *graph.Node) {
	sameTypes(n)
	wantType(n, 0, isFloat, "floats")
	axisOf(n, n.Int("axis"), n.Inputs[0].Rank())
	for _, v := range n.Inputs[1:] {
		sameDims(n, v.Shape, n.Inputs[0].Shape)
	}
	sameShape(n)
}

// sameDims fails on shapes that are known to differ.
func sameDims(n *graph.Node, a, b graph.Shape) {
	if len(a) != len(b) {
		n.Fail("shapes %s and %s differ", a, b)
	}
	for i := range a {
		n.Same(a[i], b[i], "shapes")
	}
}

// greatestOf is the maximum of a line: −∞ if it is empty, NaN if it has one.
func greatestOf(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	return top
}

// axisSamples are samples for operators with one input and an axis.
var axisSamples = []string{
	"f32[2,5]",
	"f32[2,3,4]; axis=1",
	"f32[3,2]; axis=0",
	"f32[2,3,4]; axis=-2",
	"f32[37]",
	"f32[2,300]",
	"f64[3]",
	"f16[2,3]",
	"f32[0,3]",
	"f32[3,0]",
}

// pairs repeats the input of each sample: samples for operators with two equal inputs.
func pairs(samples []string) []string {
	out := make([]string, len(samples))
	for i, s := range samples {
		input, attrs, _ := strings.Cut(s, ";")
		out[i] = input + ", " + input + "; " + attrs
	}
	return out
}
