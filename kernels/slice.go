package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var sliceOp = define(graph.Op{
	Name:  "Slice",
	Since: 10,
	Doc:   "elements from starts to ends by steps, along axes",
	In:    "data, starts, ends, axes?, steps?",
	Out:   "output",
	Known: []int{1, 2, 3, 4},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		n.Set(0, x.Type, slicedShape(n, x.Shape, 1))
		foldMoved(n, 0)
	},
	Ragged: raggedSlice,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		in := append([]*graph.Value{dy[0], shapeOf(b, n.Inputs[0])}, n.Inputs[1:]...)
		dx[0] = b.Op("com.microsoft.SliceGrad", nil, in...)
		return dx
	},
	// Asked only if the shape stays: then steps of 1 take the whole input.
	NoOp: func(n *graph.Node) bool {
		_, steps := sliceAxes(n, n.Inputs[0].Rank(), 1)
		return !slices.ContainsFunc(steps, func(s int64) bool { return s != 1 })
	},
	Whole: sameNumbers(0),
	Eval:  slicing.eval,
	Fast:  slicing.fast,
	Lower: lower.Moves(slicing, false, 1, 2, 3, 4),
	Flops: noFlops,
	Tests: graph.Tests{
		Work:      noWork,
		NoScalars: true,
		Pieces: []string{
			"f32[70,64], i64{-1}, i64{-71}, i64{0}, i64{-1}",
			"i64[70,64], i64{3}, i64{68}, i64{0}, i64{2}",
		},
	},
	Reads:     picks,
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[5,4], i64{1,0}, i64{4,3}",
		"f32[5,4], i64{1}, i64{9223372036854775807}, i64{1}",
		"f32[5,4], i64{-2}, i64{1000}, i64{-2}",
		"f32[5,4], i64{0}, i64{-1}, i64{0}",
		"f32[5,4], i64{4,0}, i64{0,4}, i64{0,1}, i64{-2,3}",
		"f32[5], i64{-1}, i64{-9223372036854775807}, i64{0}, i64{-1}",
		"f32[5], i64{20}, i64{-20}, i64{0}, i64{-3}",
		"f32[5], i64{3}, i64{2}",
		"f32[2,3,4], i64{1,0}, i64{2,2}, i64{2,0}",
		"f32[0,3], i64{0}, i64{5}",
		"f32[5], i32{1}, i32{4}, i32{0}, i32{2}",
		"i64{5,6,7}, i64{1}, i64{3}",
		"bool[4,2], i64{1}, i64{3}",
	},
})

var slicing mover = func(c *graph.Call) []lower.Move {
	y := c.Out[0]
	from, at := sliced(c, c.In[0].Shape, 1)
	return []lower.Move{{Shape: y.Shape, From: from, FromAt: at, To: index.Strides(y.Shape)}}
}

// SliceGrad is ONNX Runtime's gradient of Slice.
var _ = define(graph.Op{
	Name:   "SliceGrad",
	Domain: microsoft,
	Doc:    "the gradient of Slice: dy written into zeros of the given shape",
	In:     "dY, shape, starts, ends, axes?, steps?",
	Out:    "dX",
	Known:  []int{1, 2, 3, 4, 5},
	Infer: func(n *graph.Node) {
		shape := graph.Shape(knownDims(n, 1, "shape"))
		got := n.Inputs[0].Shape
		for i, d := range slicedShape(n, shape, 2) {
			if i < len(got) {
				n.Same(got[i], d, "dims of dY and of the slice")
			}
		}
		if len(got) != len(shape) {
			n.Fail("dY has rank %d, the slice %d", len(got), len(shape))
		}
		n.Set(0, n.Inputs[0].Type, shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { clear(c.Out[0].Bytes); unslicing.eval(c) },
	Fast:      func(c *graph.Call) { clearFast(c, c.Out[0].Bytes); unslicing.fast(c) },
	Lower:     lower.Moves(unslicing, true, 2, 3, 4, 5),
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,3], i64{5,4}, i64{1,0}, i64{4,3}",
		"f32[2,4], i64{5,4}, i64{-2}, i64{1000}, i64{-2}",
		"f32[2,2], i64{5,4}, i64{4,0}, i64{0,4}, i64{0,1}, i64{-2,3}",
		"f32[0], i64{5}, i64{3}, i64{2}",
	},
})

var unslicing mover = func(c *graph.Call) []lower.Move {
	x := c.In[0]
	to, at := sliced(c, c.Out[0].Shape, 2)
	return []lower.Move{{Shape: x.Shape, From: index.Strides(x.Shape), To: to, ToAt: at}}
}

// clearFast zeroes bytes with all workers.
func clearFast(c *graph.Call, b []byte) {
	c.Parallel(len(b), 8*f32.Grain, func(lo, hi int) { clear(b[lo:hi]) })
}

// sliceAxes returns the axis and step of each start; starts are input number at.
func sliceAxes(n *graph.Node, rank, at int) (axes []int, steps []int64) {
	starts := len(knownDims(n, at, "starts"))
	axes, steps = make([]int, starts), slices.Repeat([]int64{1}, starts)
	for i := range axes {
		axes[i] = i
	}
	if n.In(at+2) != nil {
		given := knownInts(n, at+2, "axes")
		axesOf(n, given, rank)
		axes = axes[:0]
		for _, a := range given {
			axes = append(axes, axisOf(n, int(a), rank))
		}
	}
	if n.In(at+3) != nil {
		steps = knownInts(n, at+3, "steps")
	}
	if ends := len(knownDims(n, at+1, "ends")); ends != starts || len(axes) != starts || len(steps) != starts || starts > rank {
		n.Fail("there are %d starts, %d ends, %d axes and %d steps for rank %d; their numbers must agree", starts, ends, len(axes), len(steps), rank)
	}
	if slices.Contains(steps, 0) {
		n.Fail("steps must not be 0")
	}
	return axes, steps
}

// slicedShape is the shape of a slice.
func slicedShape(n *graph.Node, s graph.Shape, at int) graph.Shape {
	axes, steps := sliceAxes(n, len(s), at)
	starts, ends := knownDims(n, at, "starts"), knownDims(n, at+1, "ends")
	out := slices.Clone(s)
	for i, a := range axes {
		out[a] = sliceLen(n, s[a], starts[i], ends[i], steps[i])
	}
	return out
}

// sliceLen is the number of elements from start to end in a dim d. Bounds are clamped only on
// the side where it matters: a start beyond the end gives a negative count, which becomes 0.
func sliceLen(n *graph.Node, d, start, end graph.Dim, step int64) graph.Dim {
	zero, one := graph.Num(0), graph.Num(1)
	start, end = fromEnd(n, start, d), fromEnd(n, end, d)
	if step > 0 {
		if isFar(start, -1) {
			start = zero
		}
		if isFar(end, 1) {
			end = d
		}
		end = end.Min(d)
		// The minimum equals end − max(start, 0), but simplifies better.
		return end.Min(end.Sub(start)).CeilDiv(graph.Num(step)).Max(zero)
	}
	if isFar(start, 1) {
		start = d
	}
	if isFar(start, -1) {
		start = graph.Num(-1)
	}
	if isFar(end, -1) {
		end = graph.Num(-1)
	}
	return start.Min(d.Sub(one)).Sub(end.Max(graph.Num(-1))).CeilDiv(graph.Num(-step)).Max(zero)
}

// fromEnd adds d to a negative bound. A symbolic bound of unknown sign is assumed not to be
// negative; the graph records that as a condition.
func fromEnd(n *graph.Node, x, d graph.Dim) graph.Dim {
	if isFar(x, -1) || isFar(x, 1) || atLeast(x, 0) {
		return x
	}
	if order, known := x.Compare(graph.Num(0)); known && order < 0 {
		return x.Add(d)
	}
	n.Same(x.Max(graph.Num(0)), x, "a bound of a slice must not be negative")
	return x
}

// isFar reports whether x is a huge number that exporters write for "to the end" (sign 1) or
// "to the beginning" (sign −1).
func isFar(x graph.Dim, sign int64) bool {
	v, ok := x.Const()
	return ok && (sign > 0 && v >= math.MaxInt32 || sign < 0 && v <= -math.MaxInt32)
}

// sliced returns the strides and the first element of a slice of a tensor.
func sliced(c *graph.Call, shape []int, at int) (st []int, first int) {
	st = index.Strides(shape)
	unit := slices.Clone(st)
	starts := c.In[at]
	for i := range starts.Len() {
		a, step := i, 1
		if axes := input(c, at+2); axes != nil {
			a = axisOf(c.Node, int(axes.Int(i)), len(shape))
		}
		if steps := input(c, at+3); steps != nil {
			step = int(steps.Int(i))
		}
		d := shape[a]
		start := int(starts.Int(i))
		if start < 0 {
			start = max(0, start+d)
		}
		if step > 0 {
			start = min(start, d)
		} else {
			start = min(start, d-1)
		}
		first += start * unit[a]
		st[a] = unit[a] * step
	}
	return st, first
}

// Before opset 10 the bounds are attributes, and steps are 1.
var _ = define(graph.Op{
	Name:  "Slice",
	Doc:   "the form before opset 10, with bounds as attributes",
	In:    "data",
	Out:   "output",
	Attrs: "axes ints, ends ints, starts ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := []*graph.Value{n.Inputs[0]}
		for _, name := range []string{"starts", "ends", "axes"} {
			switch {
			case n.Has(name):
				in = append(in, b.Ints(graph.Dims(n.Ints(name)...)...))
			case name != "axes":
				n.Fail("attribute %s is missing", name)
			}
		}
		return []*graph.Value{b.Op("Slice", nil, in...)}
	},
})
