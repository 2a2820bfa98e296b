package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "ScatterND",
	Doc:   "data with slices of updates written, each at a row of indices",
	In:    "data, indices, updates",
	Out:   "output",
	Attrs: "reduction string=none",
	Infer: func(n *graph.Node) {
		scatterType(n)
		sliceUpdates(n, pickedShape(n, n.Inputs[0].Shape, n.Inputs[1], 0))
		sameShape(n)
		if n.Str("reduction") == "none" {
			foldMoved(n, 0, 2)
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		idx := n.Inputs[1]
		return scatterGrad(b, n, dy[0],
			func(v *graph.Value) *graph.Value { return b.Op("GatherND", nil, v, idx) },
			func(reduction string, data, updates *graph.Value) *graph.Value {
				return b.Op("ScatterND", graph.A{"reduction": reduction}, data, idx, updates)
			})
	},
	Eval: func(c *graph.Call) { copyBytes(c); scatterND(c, 0, c.Node.Str("reduction"), f32.Serial) },
	Fast: func(c *graph.Call) {
		copyFast(c, c.Out[0].Bytes, c.In[0].Bytes)
		scatterND(c, 0, c.Node.Str("reduction"), c.Parallel)
	},
	Lower: lower.Scatter(func(l *graph.Lowering) lower.Indexed {
		return lower.IndexedRows(l.In[1].Shape, l.Out[0].Shape, 0)
	}),
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[2].Shape.Elems() },
	Tests:     graph.Tests{Places: graph.PlaceTuples, Work: eachIn(2, 1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[8], i64[4,1]{4,3,1,7}, f32[4]",
		"f32[4,3], i64[2,1]{0,-2}, f32[2,3]",
		"f32[2,3], i64[1,2]{1,2}, f32[1]",
		"f32[4,3], i64[5,1]<4, f32[5,3]; reduction=\"add\"",
		"f32[2,3,2], i64[4,2]<2, f32[4,2]; reduction=\"add\"",
		"f32[4,2], i64[5,1]<4, f32[5,2]; reduction=\"mul\"",
		"f32[4,2], i64[5,1]<4, f32[5,2]; reduction=\"max\"",
		"f32[4,2], i64[5,1]<4, f32[5,2]; reduction=\"min\"",
		"f16[4], i64[5,1]<4, f16[5]; reduction=\"add\"",
		"i32[4], i64[5,1]<4, i32[5]; reduction=\"min\"",
		"bool[4], i64[2,1]{0,3}, bool[2]",
		"i64{5,6,7}, i64[1,1]{1}, i64{9}",
		"f32[3], i64[0,1], f32[0]",
	},
})

// scatterND applies slices of input 2 to output 0. Workers divide the columns, so that updates
// with equal indices are applied in order.
func scatterND(c *graph.Call, batch int, reduction string, parallel func(n, grain int, f func(lo, hi int))) {
	rows, width, at := rowsOf(c, c.In[1], c.Out[0].Shape, batch)
	meet := put(c.Out[0], c.In[2], reduction)
	parallel(width, max(16, f32.Grain/(4*max(1, rows))), func(lo, hi int) {
		for r := range rows {
			to := at(r)
			for a := lo; a < hi; a++ {
				meet(to+a, r*width+a)
			}
		}
	})
}
