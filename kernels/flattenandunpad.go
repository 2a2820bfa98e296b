package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// FlattenAndUnpad (ONNX Runtime) removes padding: of a padded batch of sequences [M, N, …] it
// gathers the rows at indices into M·N. PadAndUnflatten is its inverse and gradient.
var _ = define(graph.Op{
	Name:   "FlattenAndUnpad",
	Domain: microsoft,
	Doc:    "the rows of [M, N, …] at the indices, and M and N",
	In:     "input, indices",
	Out:    "output, unflatten_dims?",
	Infer: func(n *graph.Node) {
		x, idx := n.Inputs[0], n.Inputs[1]
		wantType(n, 1, isIndex, "int32 or int64")
		if x.Rank() < 2 || idx.Rank() != 1 {
			n.Fail("the input must be [M, N, …] and the indices a list, but they are %s and %s", x.Shape, idx.Shape)
		}
		n.Set(0, x.Type, slices.Concat(idx.Shape, x.Shape[2:]))
		n.Set(1, graph.Int64, graph.Dims(2))
		n.SetInts(1, slices.Clone(x.Shape[:2]))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("com.microsoft.PadAndUnflatten", nil, dy[0], n.Inputs[1], b.Ints(n.Inputs[0].Shape[:2]...)), nil}
	},
	Eval: func(c *graph.Call) {
		x, idx, y := c.In[0], c.In[1], c.Out[0]
		rows := x.Shape[0] * x.Shape[1]
		size := index.Elems(x.Shape[2:]) * int(x.Type.Size())
		for i := range idx.Len() {
			copy(y.Bytes[i*size:(i+1)*size], x.Bytes[indexAt(c, idx, i, rows)*size:])
		}
		if dims := output(c, 1); dims != nil {
			dims.SetInt(0, int64(x.Shape[0]))
			dims.SetInt(1, int64(x.Shape[1]))
		}
	},
	Lower:     lowerFlattenAndUnpad,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,4], i64{1,3,5} -> y",
		"f32[2,3], i64{5,0} -> y, n",
		"f32[2,3,2,2], i64{} -> y",
	},
})

var _ = define(graph.Op{
	Name:   "PadAndUnflatten",
	Domain: microsoft,
	Doc:    "the rows at their indices in a [M, N, …] of zeros",
	In:     "input, indices, unflatten_dims",
	Out:    "output",
	Known:  []int{2},
	Infer: func(n *graph.Node) {
		x, idx := n.Inputs[0], n.Inputs[1]
		wantType(n, 1, isIndex, "int32 or int64")
		dims := knownDims(n, 2, "unflatten_dims")
		if x.Rank() < 1 || idx.Rank() != 1 || len(dims) != 2 {
			n.Fail("the input must be [rows, …], the indices [rows] and unflatten_dims two numbers, but they are %s, %s and %d numbers", x.Shape, idx.Shape, len(dims))
		}
		n.Same(x.Shape[0], idx.Shape[0], "rows and indices")
		n.Set(0, x.Type, slices.Concat(graph.Shape(dims), x.Shape[1:]))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Ops("com.microsoft.FlattenAndUnpad", nil, 2, dy[0], n.Inputs[1])[0], nil, nil}
	},
	Eval: func(c *graph.Call) {
		x, idx, y := c.In[0], c.In[1], c.Out[0]
		size := index.Elems(x.Shape[1:]) * int(x.Type.Size())
		clear(y.Bytes)
		for i := range idx.Len() {
			at := indexAt(c, idx, i, y.Shape[0]*y.Shape[1]) * size
			copy(y.Bytes[at:at+size], x.Bytes[i*size:])
		}
	},
	Lower:     lowerPadAndUnflatten,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,4], i64{1,3,5}, i64{2,3}",
		"f32[2], i64{5,0}, i64{2,3}",
		"f32[0,2,2], i64{}, i64{2,3}",
	},
})

func lowerFlattenAndUnpad(l *graph.Lowering) {
	x := l.In[0].Shape
	rowsPicked{1, x[0] * x[1], index.Elems(x[2:]), l.In[1].Len(), 1, -1}.pick(l)
	if lower.Out(l, 1) != nil {
		lower.KnownInts(l, 1)
	}
}

func lowerPadAndUnflatten(l *graph.Lowering) {
	lower.Fill(l, 0, 0)
	y := l.Out[0].Shape
	lower.IndexedRows([]int{l.In[1].Len(), 1}, []int{y[0] * y[1], index.Elems(y[2:])}, 0).Append(l, lower.Bring["none"], lower.Reads(0), 1)
}
