package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "GatherND",
	Doc:   "slices of data, each picked by a row of indices",
	In:    "data, indices",
	Out:   "output",
	Attrs: "batch_dims int=0",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		n.Set(0, x.Type, pickedShape(n, x.Shape, n.Inputs[1], n.Int("batch_dims")))
		foldMoved(n, 0)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		return []*graph.Value{b.Op("com.microsoft.GatherNDGrad", graph.A{"batch_dims": n.Int("batch_dims")}, shapeOf(b, x), n.Inputs[1], dy[0]), nil}
	},
	Whole:     sameNumbers(0),
	Eval:      func(c *graph.Call) { gatherND(c, f32.Serial) },
	Fast:      func(c *graph.Call) { gatherND(c, c.Parallel) },
	Lower:     lowerGatherND,
	Flops:     noFlops,
	Tests:     graph.Tests{Places: graph.PlaceTuples, Work: noWork},
	Reads:     picks,
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,2], i64[3,2]<2",
		"f32[3,2], i64[2,1]<-3",
		"f32[2,3,4], i64[2,1]<3; batch_dims=1",
		"f32[2,3,4], i64[2,3,2,1]<4; batch_dims=2",
		"f32[2,3,4], i64[2,2,2]<-2",
		"f32[4], i64[1]<4",
		"f32[4,2], i64[0,1]<4",
		"i64{5,6,7}, i64{-1}",
		"bool[2,3], i64[2]<2",
	},
})

// GatherNDGrad is ONNX Runtime's.
var _ = define(graph.Op{
	Name:   "GatherNDGrad",
	Domain: microsoft,
	Doc:    "the gradient of GatherND: slices of dy added at their indices in zeros",
	In:     "shape, indices, update",
	Out:    "output",
	Attrs:  "batch_dims int=0",
	Known:  []int{0},
	Infer: func(n *graph.Node) {
		wantType(n, 2, isFloat, "floats")
		shape := graph.Shape(knownDims(n, 0, "shape"))
		sliceUpdates(n, pickedShape(n, shape, n.Inputs[1], n.Int("batch_dims")))
		n.Set(0, n.Inputs[2].Type, shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		clear(c.Out[0].Bytes)
		scatterND(c, c.Node.Int("batch_dims"), "add", f32.Serial)
	},
	Fast: func(c *graph.Call) {
		clearFast(c, c.Out[0].Bytes)
		scatterND(c, c.Node.Int("batch_dims"), "add", c.Parallel)
	},
	Lower:     lowerGatherNDGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[2].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(2, 1)},
	Recompute: graph.Cheap,
	Samples: []string{
		"i64{2,2}, i64[5,2]<2, f32[5]",
		"i64{2,3,4}, i64[2,5,1]<3, f32[2,5,4]; batch_dims=1",
		"i64{2,3}, i64[4,1]<-2, f16[4,3]",
	},
})

// pickedShape is the shape of the slices that rows of indices pick from a tensor of shape s,
// after the common batch dims.
func pickedShape(n *graph.Node, s graph.Shape, idx *graph.Value, batch int) graph.Shape {
	if idx.Type != graph.Int64 {
		n.Fail("indices are %s; int64 expected", idx.Type)
	}
	if idx.Rank() == 0 || len(s) == 0 {
		n.Fail("neither data nor indices can be a scalar")
	}
	k, ok := idx.Shape[idx.Rank()-1].Const()
	if !ok {
		n.Fail("the last dim of the indices must be constant, not %s", idx.Shape[idx.Rank()-1])
	}
	if batch < 0 || batch >= idx.Rank() || k < 1 || int(k) > len(s)-batch {
		n.Fail("rows of %d indices after %d batch dims do not fit data of rank %d and indices of rank %d", k, batch, len(s), idx.Rank())
	}
	for i := range batch {
		n.Same(idx.Shape[i], s[i], "batch dims of data and indices")
	}
	return slices.Concat(idx.Shape[:idx.Rank()-1], s[batch+int(k):])
}

// sliceUpdates checks input 2 against the shape of the slices.
func sliceUpdates(n *graph.Node, want graph.Shape) {
	if n.Inputs[2].Rank() != len(want) {
		n.Fail("updates have rank %d, not %d", n.Inputs[2].Rank(), len(want))
	}
	for i, d := range want {
		n.Same(n.Inputs[2].Shape[i], d, "dims of the updates and of the slices")
	}
}

// rowsOf reads rows of indices into a tensor of the given shape: the number of rows, the
// elements of each slice, and the first element of the slice of row r.
func rowsOf(c *graph.Call, idx *graph.Tensor, shape []int, batch int) (rows, width int, at func(r int) int) {
	k := idx.Shape[len(idx.Shape)-1]
	rows = index.Elems(idx.Shape[:len(idx.Shape)-1])
	st := index.Strides(shape)
	width = index.Elems(shape[batch+k:])
	batches := index.Elems(shape[:batch])
	return rows, width, func(r int) int {
		at := 0
		if batch > 0 {
			at = r / (rows / batches) * index.Elems(shape[batch:])
		}
		for j := range k {
			at += indexAt(c, idx, r*k+j, shape[batch+j]) * st[batch+j]
		}
		return at
	}
}

func gatherND(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	x, y := c.In[0], c.Out[0]
	rows, width, at := rowsOf(c, c.In[1], x.Shape, c.Node.Int("batch_dims"))
	size := width * int(x.Type.Size())
	parallel(rows, max(1, f32.Grain/(4+width)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			copy(y.Bytes[r*size:(r+1)*size], x.Bytes[at(r)*int(x.Type.Size()):])
		}
	})
}

func lowerGatherND(l *graph.Lowering) {
	lower.IndexedRows(l.In[1].Shape, l.In[0].Shape, l.Node.Int("batch_dims")).Append(l, lower.Take, lower.Reads(0), 1)
}

func lowerGatherNDGrad(l *graph.Lowering) {
	if l.Out[0].Type != graph.Float32 {
		l.Refuse("the output is %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	lower.Fill(l, 0, 0)
	lower.IndexedRows(l.In[1].Shape, l.Out[0].Shape, l.Node.Int("batch_dims")).Append(l, lower.Bring["add"], lower.Reads(2), 1)
}
