package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

var (
	_ = defineArg("ArgMax", "index of the greatest element along the axis", false)
	_ = defineArg("ArgMin", "index of the least element along the axis", true)
)

// defineArg defines ArgMax or ArgMin. As in NumPy, a NaN counts as the greatest and as
// the least element.
func defineArg(name, doc string, least bool) *graph.Op {
	return define(graph.Op{
		Name:  name,
		Doc:   doc,
		In:    "data",
		Out:   "reduced",
		Attrs: "axis int=0, keepdims int=1, select_last_index int=0",
		Whole: wholePlaces(0),
		Infer: func(n *graph.Node) {
			x := n.Inputs[0]
			wantType(n, 0, isNumber, "numbers")
			axis := axisOf(n, n.Int("axis"), x.Rank())
			if x.Shape[axis].Is(0) {
				n.Fail("dim %d is 0: an empty axis has no greatest or least element", axis)
			}
			out := slices.Clone(x.Shape)
			out[axis] = graph.Num(1)
			if n.Int("keepdims") == 0 {
				out = slices.Delete(out, axis, axis+1)
			}
			n.Set(0, graph.Int64, out)
		},
		NoGrad:    true,
		Eval:      func(c *graph.Call) { argMost(c, least, f32.Serial) },
		Fast:      func(c *graph.Call) { argMost(c, least, c.Parallel) },
		Lower:     lowerArg(least),
		Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems() },
		Tests:     graph.Tests{Work: eachIn(0, 1)},
		Recompute: graph.Cheap,
		Samples: []string{
			"f32[2,3,4]",
			"f32[2,3,4]; axis=1 keepdims=0",
			"f32[5]; axis=-1",
			"i64[3,9]<3; axis=1",
			"i64[3,9]<3; axis=1 select_last_index=1",
			"u8[2,3]",
			"f32[2,0,1]; axis=2",
		},
	})
}

func argMost(c *graph.Call, least bool, parallel func(n, grain int, f func(lo, hi int))) {
	x, y := c.In[0], c.Out[0]
	before, n, after := index.Around(x.Shape, axisOf(c.Node, c.Node.Int("axis"), len(x.Shape)))
	order, last := orders(x), c.Node.Int("select_last_index") != 0
	parallel(before*after, max(1, f32.Grain/(4*n)), func(lo, hi int) {
		for line := lo; line < hi; line++ {
			at := line/after*n*after + line%after
			best, found := uint64(0), 0
			for i := range n {
				k := order(at + i*after)
				if least && !(x.Type.IsFloat() && k == math.MaxUint64) {
					k = ^k
				}
				if i == 0 || k > best || last && k == best {
					best, found = k, i
				}
			}
			y.SetInt(line, int64(found))
		}
	})
}

// orders maps elements to unsigned integers that compare as the elements do. All NaNs
// map to the largest integer, and −0 equals 0.
func orders(x *graph.Tensor) func(i int) uint64 {
	const sign = 1 << 63
	ofFloat := func(v float64) uint64 {
		switch {
		case v != v:
			return math.MaxUint64
		case v == 0:
			return sign
		}
		// Invert the bits of negative numbers and set the sign bit of the others, without
		// a branch: signs are unpredictable.
		bits := math.Float64bits(v)
		return bits ^ (uint64(int64(bits)>>63) | sign)
	}
	switch {
	case x.Type == graph.Float32:
		xs := x.F32()
		return func(i int) uint64 { return ofFloat(float64(xs[i])) }
	case x.Type.IsFloat():
		return func(i int) uint64 { return ofFloat(x.Float(i)) }
	case x.Type == graph.Uint64:
		return func(i int) uint64 { return uint64(x.Int(i)) }
	}
	return func(i int) uint64 { return uint64(x.Int(i)) ^ sign }
}

func lowerArg(least bool) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		axis := axisOf(l.Node, l.Node.Int("axis"), len(l.In[0].Shape))
		lowerRanked(l, least, l.Node.Int("select_last_index") != 0, true, axis, 1, -1, 0)
	}
}
