package kernels

import (
	"cmp"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// TopK always sorts its result, even with sorted=0; equal elements are in the order of their
// indices.
var _ = define(graph.Op{
	Name:  "TopK",
	Since: 10,
	Doc:   "the K greatest or least elements along the axis, and their indices",
	In:    "X, K",
	Out:   "Values, Indices",
	Attrs: "axis int=-1, largest int=1, sorted int=1",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		wantType(n, 0, isNumber, "numbers")
		if len(n.Outputs) != 2 {
			n.Fail("%d outputs; Values and Indices expected", len(n.Outputs))
		}
		k := knownDims(n, 1, "K")
		if len(k) != 1 {
			n.Fail("K has %d elements; one expected", len(k))
		}
		axis := axisOf(n, n.Int("axis"), x.Rank())
		n.Same(x.Shape[axis].Max(k[0]), x.Shape[axis], "K is greater than the dim")
		out := slices.Clone(x.Shape)
		out[axis] = k[0]
		n.Set(0, x.Type, out)
		n.Set(1, graph.Int64, out)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		if dy[0] == nil {
			return make([]*graph.Value, 2)
		}
		x := n.Inputs[0]
		return []*graph.Value{b.Op("com.microsoft.GatherElementsGrad", graph.A{"axis": n.Int("axis")}, dy[0], shapeOf(b, x), n.Outputs[1]), nil}
	},
	Eval:  func(c *graph.Call) { topK(c, f32.Serial) },
	Fast:  func(c *graph.Call) { topK(c, c.Parallel) },
	Whole: wholePlaces(1),
	Lower: lowerTopK,
	// A comparison for each element and for each result.
	Flops: func(n *graph.Node) graph.Dim {
		return n.Inputs[0].Shape.Elems().Add(n.Outputs[0].Shape.Elems())
	},
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.in(0) + c.out(0) }), NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,4], i64{3}; axis=1",
		"f32[3,4], i64{2}; axis=0",
		"f32[3,40], i64{2}; largest=0",
		"f32[2,3,4], i64{2}; axis=-2 sorted=0",
		"i64[3,40]<5, i64{6}",
		"i64[3,9]<3, i64{6}; largest=0",
		"u64[4], i64{4}",
		"f32[4], i64{0}",
		"f32[0,4], i64{1}",
		"f32[0,4], i64{1}",
	},
})

// ranked is an element of a line: its sort key (see orders) and index.
type ranked struct {
	order uint64
	at    int
}

// ahead sorts by descending key, then by index.
func ahead(a, b ranked) int {
	if c := cmp.Compare(b.order, a.order); c != 0 {
		return c
	}
	return cmp.Compare(a.at, b.at)
}

func topK(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	x, values, indices := c.In[0], c.Out[0], c.Out[1]
	axis := axisOf(c.Node, c.Node.Int("axis"), len(x.Shape))
	outer, n, after := index.Around(x.Shape, axis)
	k, size := values.Shape[axis], int(x.Type.Size())
	order, least := orders(x), c.Node.Int("largest") == 0
	parallel(outer*after, max(1, f32.Grain/(16*max(1, n))), func(lo, hi int) {
		best := make([]ranked, 0, max(n, k+1))
		for line := lo; line < hi; line++ {
			from, to := line/after*n*after+line%after, line/after*k*after+line%after
			best = best[:0]
			for i := range n {
				e := ranked{order(from + i*after), i}
				if least {
					e.order = ^e.order
				}
				best = addBest(best, e, k, n)
			}
			slices.SortFunc(best, ahead)
			for i, e := range best[:k] {
				copy(values.Bytes[(to+i*after)*size:(to+i*after+1)*size], x.Bytes[(from+e.at*after)*size:])
				indices.SetInt(to+i*after, int64(e.at))
			}
		}
	})
}

// addBest inserts e into the sorted list of the best k, if k is small against n; else it
// appends, and the caller sorts.
func addBest(best []ranked, e ranked, k, n int) []ranked {
	if 8*k >= n {
		return append(best, e)
	}
	if len(best) == k {
		if k == 0 || ahead(e, best[k-1]) > 0 {
			return best
		}
		best = best[:k-1]
	}
	i, _ := slices.BinarySearchFunc(best, e, ahead)
	return slices.Insert(best, i, e)
}

// Before opset 10 k is an attribute.
var _ = define(graph.Op{
	Name:  "TopK",
	Doc:   "the form before opset 10, with k as an attribute",
	In:    "X",
	Out:   "Values, Indices",
	Attrs: "axis int=-1, k int",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		if !n.Has("k") {
			n.Fail("attribute k is missing")
		}
		k := b.Ints(graph.Num(int64(n.Int("k"))))
		return b.Ops("TopK", graph.A{"axis": n.Int("axis")}, len(n.Outputs), n.Inputs[0], k)
	},
})

func lowerTopK(l *graph.Lowering) {
	axis := axisOf(l.Node, l.Node.Int("axis"), len(l.In[0].Shape))
	if lower.Out(l, 0) == nil || lower.Out(l, 1) == nil {
		l.Refuse("only one of the outputs is used")
		return
	}
	lowerRanked(l, l.Node.Int("largest") == 0, false, false, axis, l.Out[0].Shape[axis], 0, 1)
}

var topKKernel = lower.Shader("topk", "topk.comp")

// lowerRanked finds the first k elements of lines; values is the output number for them, or −1.
func lowerRanked(l *graph.Lowering, least, last, nans bool, axis, k, values, places int) {
	x := l.In[0]
	whole, known := map[graph.DType]uint32{graph.Float32: 0, graph.Int32: 1, graph.Int64: 2}[x.Type]
	if !known {
		l.Refuse("the input is %s; there is a kernel for f32, i32 and i64", x.Type)
		return
	}
	before, n, after := index.Around(x.Shape, axis)
	if before*after*k == 0 {
		return
	}
	y := lower.Unused(true)
	if values >= 0 {
		y = lower.Writes(values)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: topKKernel,
		Spec:   []uint32{uint32(l.Limits.Subgroup), lower.OneIf(least), whole, lower.OneIf(values >= 0), lower.OneIf(last), lower.OneIf(nans)},
		Push:   lower.Words(l, before*after, n, after, k), Buffers: []graph.Buffer{y, lower.Reads(0), lower.Writes(places)}, Groups: lower.InLine(l, before*after),
	})
}
