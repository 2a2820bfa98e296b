package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "GatherElements",
	Doc:   "elements of data, each picked along the axis by its index",
	In:    "data, indices",
	Out:   "output",
	Attrs: "axis int=0",
	Infer: func(n *graph.Node) {
		elementIndices(n, n.Inputs[0].Shape, n.Inputs[1])
		n.Set(0, n.Inputs[0].Type, n.Inputs[1].Shape)
		foldMoved(n, 0)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		return []*graph.Value{b.Op("com.microsoft.GatherElementsGrad", graph.A{"axis": n.Int("axis")}, dy[0], shapeOf(b, x), n.Inputs[1]), nil}
	},
	Whole:     sameNumbers(0),
	Index:     indexInto(1, func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape[axisOf(n, n.Int("axis"), n.Inputs[0].Rank())] }),
	Eval:      func(c *graph.Call) { gatherElements(c, f32.Serial) },
	Fast:      func(c *graph.Call) { gatherElements(c, c.Parallel) },
	Lower:     lowerGatherElements,
	Flops:     noFlops,
	Tests:     graph.Tests{Places: graph.PlaceEach, Work: noWork, NoScalars: true},
	Reads:     picks,
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,3], i64[2,3]<3",
		"f32[3,4], i64[3,6]<-4; axis=1",
		"f32[2,3,2], i32[2,2,1]<3; axis=-2",
		"f32[4], i64[7]<4",
		"bool[3,2], i64[2,1]<3",
		"i64{5,6,7}, i64{2,-3}",
		"f32[3,2], i64[0,2]<3",
	},
})

// GatherElementsGrad is ONNX Runtime's.
var _ = define(graph.Op{
	Name:   "GatherElementsGrad",
	Domain: microsoft,
	Doc:    "the gradient of GatherElements: dy added at its indices in zeros",
	In:     "dY, shape, indices",
	Out:    "dX",
	Attrs:  "axis int=0",
	Known:  []int{1},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		shape := graph.Shape(knownDims(n, 1, "shape"))
		elementIndices(n, shape, n.Inputs[2])
		likeIndices(n, n.Inputs[0], n.Inputs[2])
		n.Set(0, n.Inputs[0].Type, shape)
	},
	NoGrad: true,
	Eval:   func(c *graph.Call) { clear(c.Out[0].Bytes); scatterElements(c, c.In[2], c.In[0], "add", f32.Serial) },
	Fast: func(c *graph.Call) {
		clearFast(c, c.Out[0].Bytes)
		scatterElements(c, c.In[2], c.In[0], "add", c.Parallel)
	},
	Lower:     lowerGatherElementsGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(0, 1)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[4,3], i64{3,3}, i64[4,3]<3",
		"f32[2,6], i64{3,4}, i64[2,6]<-4; axis=1",
		"f32[2,2,1], i64{2,3,2}, i64[2,2,1]<3; axis=-2",
		"f16[7], i64{4}, i64[7]<4",
	},
})

// elementIndices checks indices of GatherElements or ScatterElements: one for each element.
func elementIndices(n *graph.Node, s graph.Shape, idx *graph.Value) {
	if !isIndex(idx.Type) {
		n.Fail("indices are %s; int32 or int64 expected", idx.Type)
	}
	axis := axisOf(n, n.Int("axis"), len(s))
	if idx.Rank() != len(s) {
		n.Fail("indices have rank %d, the data has rank %d", idx.Rank(), len(s))
	}
	for i, d := range idx.Shape {
		if i != axis {
			n.Same(d.Max(s[i]), s[i], "dims of the indices exceed those of the data")
		}
	}
}

// likeIndices checks that v has one element for each index.
func likeIndices(n *graph.Node, v, idx *graph.Value) {
	if v.Rank() != idx.Rank() {
		n.Fail("%q has rank %d, the indices have rank %d", v.Name, v.Rank(), idx.Rank())
	}
	for i, d := range idx.Shape {
		n.Same(v.Shape[i], d, "shapes of the indices and of "+v.Name)
	}
}

// lines calls f for each line of the indices along the axis: no two lines touch the same
// data. f gets the line's first element in the indices and in the data, and the strides
// along it.
func lines(parallel func(n, grain int, f func(lo, hi int)), indices, data []int, axis int, f func(n, i, iStep, at, atStep int)) {
	si, sd := index.Strides(indices), index.Strides(data)
	n := indices[axis]
	if index.Elems(indices) == 0 {
		return
	}
	outer := append(append([]int{}, indices[:axis]...), indices[axis+1:]...)
	from := append(append([]int{}, si[:axis]...), si[axis+1:]...)
	to := append(append([]int{}, sd[:axis]...), sd[axis+1:]...)
	parallel(index.Elems(outer), max(1, f32.Grain/(4*n)), func(lo, hi int) {
		index.Walk(outer, lo, hi, func(_ int, at []int) { f(n, at[0], si[axis], at[1], sd[axis]) }, from, to)
	})
}

func gatherElements(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	x, idx, y := c.In[0], c.In[1], c.Out[0]
	axis := axisOf(c.Node, c.Node.Int("axis"), len(x.Shape))
	size := int(x.Type.Size())
	lines(parallel, idx.Shape, x.Shape, axis, func(n, i, iStep, at, atStep int) {
		for range n {
			from := (at + indexAt(c, idx, i, x.Shape[axis])*atStep) * size
			copy(y.Bytes[i*size:(i+1)*size], x.Bytes[from:])
			i += iStep
		}
	})
}

func lowerGatherElements(l *graph.Lowering) {
	lower.IndexedElements(axisOf(l.Node, l.Node.Int("axis"), len(l.In[0].Shape)), l.In[1].Shape, l.In[0].Shape).Append(l, lower.Take, lower.Reads(0), 1)
}

func lowerGatherElementsGrad(l *graph.Lowering) {
	if l.Out[0].Type != graph.Float32 {
		l.Refuse("dX is %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	lower.Fill(l, 0, 0)
	lower.IndexedElements(axisOf(l.Node, l.Node.Int("axis"), len(l.Out[0].Shape)), l.In[2].Shape, l.Out[0].Shape).Append(l, lower.Bring["add"], lower.Reads(0), 2)
}
