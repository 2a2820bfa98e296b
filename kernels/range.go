package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var counting = define(graph.Op{
	Name:  "Range",
	Doc:   "start, start + delta, …, before limit",
	In:    "start, limit, delta",
	Out:   "output",
	Attrs: "stash_type int=1",
	Known: []int{0, 1, 2},
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isNumber, "numbers")
		for i, what := range []string{"start", "limit", "delta"} {
			wantOne(n, i, what)
		}
		start, limit, delta := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		if a, b, d, ok := threeNumbers(start, limit, delta); ok {
			size := math.Ceil((b - a) / d)
			if !(math.Abs(size) < math.MaxInt32) {
				n.Fail("the range from %v to %v by %v has no valid size", a, b, d)
			}
			n.Set(0, start.Type, graph.Dims(int64(max(0, size))))
		} else {
			n.Set(0, start.Type, graph.Shape{rangeSize(n, wholeNumber(n, start), wholeNumber(n, limit), wholeNumber(n, delta))})
		}
		if size, ok := n.Outputs[0].Shape[0].Const(); ok && size <= graph.MaxInts && start.Ints != nil && delta.Ints != nil {
			foldEach(n, int(size), func(i int) (graph.Dim, bool) {
				return start.Ints[0].Add(delta.Ints[0].Mul(graph.Num(int64(i)))), true
			})
		}
	},
	NoGrad: true,
	Whole:  wholeRange,
	Eval: func(c *graph.Call) {
		start, delta, y := c.In[0], c.In[2], c.Out[0]
		for i := range y.Len() {
			if y.Type.IsFloat() {
				y.SetFloat(i, start.Float(0)+float64(i)*delta.Float(0))
			} else {
				y.SetInt(i, start.Int(0)+int64(i)*delta.Int(0))
			}
		}
	},
	Lower:     lowerRange,
	Flops:     perElement(2),
	Tests:     graph.Tests{Work: eachOut(2)},
	Recompute: graph.Cheap,
	Samples: []string{
		"i64[]{3}, i64[]{9}, i64[]{3}",
		"i64[]{10}, i64[]{4}, i64[]{-2}",
		"i32[]{0}, i32[]{5}, i32[]{2}",
		"i64[]{3}, i64[]{3}, i64[]{1}",
		"i64[]{5}, i64[]{3}, i64[]{1}",
		"f32[]{0}, f32[]{2.5}, f32[]{0.5}",
		"f64[]{1}, f64[]{-1}, f64[]{-0.6}",
	},
})

// rangeSize is max(0, ⌈(limit − start)/delta⌉).
func rangeSize(n *graph.Node, start, limit, delta graph.Dim) graph.Dim {
	order, known := delta.Compare(graph.Num(0))
	if !known || order == 0 {
		n.Fail("delta is %s; it must be known to be positive or negative", delta)
	}
	way := limit.Sub(start)
	if order < 0 {
		way, delta = way.Neg(), delta.Neg()
	}
	return way.CeilDiv(delta).Max(graph.Num(0))
}

// threeNumbers returns the values of three float scalars that depend only on constants. Parameters are allowed, too:
// a size has no gradient, so training does not change them.
func threeNumbers(start, limit, delta *graph.Value) (a, b, d float64, ok bool) {
	var out [3]float64
	for i, v := range []*graph.Value{start, limit, delta} {
		if !v.Type.IsFloat() {
			return 0, 0, 0, false
		}
		x := v.Contents()
		if x == nil {
			return 0, 0, 0, false
		}
		out[i] = x.Float(0)
	}
	return out[0], out[1], out[2], true
}

// wholeNumber is a scalar as a dim. It may be a float: exporters cast sizes to the type of the
// range.
func wholeNumber(n *graph.Node, v *graph.Value) graph.Dim {
	if f, ok := fractionOf(v); ok && f.den.Is(1) {
		return f.num
	}
	n.Fail("%q is not known before the step runs", v.Name)
	return graph.Dim{}
}

var rangeKernel = lower.Shader("range", "range.comp")

// lowerRange supports only known integers in the range of int32.
func lowerRange(l *graph.Lowering) {
	start, known := l.Ints(0)
	delta, also := l.Ints(2)
	n := l.Out[0].Len()
	if l.Out[0].Type != graph.Int64 || !known || !also {
		l.Refuse("there is only a kernel for i64 with start and delta known while planning")
		return
	}
	last := start[0] + int64(n)*delta[0]
	if n == 0 || start[0] != int64(int32(start[0])) || last != int64(int32(last)) || delta[0] != int64(int32(delta[0])) {
		if n > 0 {
			l.Refuse("the numbers exceed 32 bits")
		}
		return
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: rangeKernel, Push: append(lower.Words(l, n), uint32(start[0]), uint32(delta[0])), Buffers: []graph.Buffer{lower.Writes(0)}, Groups: lower.InLine(l, index.CeilDiv(n, 256)),
	})
}
