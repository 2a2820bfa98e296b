package kernels

import (
	"math"
	"slices"

	"memopt/memopt/graph"
)

var (
	_ = defineArg("ArgMax", "where along the axis the greatest element is", false)
	_ = defineArg("ArgMin", "where along the axis the least element is", true)
)

// A NaN is both the greatest and the least, as in numpy.
func defineArg(name, doc string, least bool) *graph.Op {
	return define(graph.Op{
		Name:  name,
		Doc:   doc,
		In:    "data",
		Out:   "reduced",
		Attrs: "axis int=0, keepdims int=1, select_last_index int=0",
		Infer: func(n *graph.Node) {
			x := n.Inputs[0]
			wantType(n, 0, isNumber, "numbers")
			axis := axisOf(n, n.Int("axis"), x.Rank())
			if x.Shape[axis].Is(0) {
				n.Fail("dim %d is 0: there is no element to find", axis)
			}
			out := slices.Clone(x.Shape)
			out[axis] = graph.Num(1)
			if n.Int("keepdims") == 0 {
				out = slices.Delete(out, axis, axis+1)
			}
			n.Set(0, graph.Int64, out)
		},
		NoGrad:    true,
		Eval:      func(c *graph.Call) { argMost(c, least, serial) },
		Fast:      func(c *graph.Call) { argMost(c, least, c.Parallel) },
		Flops:     perElement(1),
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
	before, n, after := around(x.Shape, axisOf(c.Node, c.Node.Int("axis"), len(x.Shape)))
	last := c.Node.Int("select_last_index") != 0
	parallel(before*after, max(1, grain/(4*n)), func(lo, hi int) {
		for line := lo; line < hi; line++ {
			at := line/after*n*after + line%after
			best, found := uint64(0), 0
			for i := range n {
				k := orderOf(x, at+i*after)
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

// orderOf maps an element to a number that orders as elements of its type do.
// A NaN comes after everything, all of them the same; −0 is 0.
func orderOf(x *graph.Tensor, i int) uint64 {
	const sign = 1 << 63
	switch {
	case x.Type.IsFloat():
		v := x.Float(i)
		bits := math.Float64bits(v)
		switch {
		case v != v:
			return math.MaxUint64
		case v == 0:
			return sign
		case bits&sign != 0:
			return ^bits
		}
		return bits | sign
	case x.Type == graph.Uint64:
		return uint64(x.Int(i))
	}
	return uint64(x.Int(i)) ^ sign
}
