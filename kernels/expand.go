package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Expand",
	Doc:   "broadcast to a shape and the input's own",
	In:    "input, shape",
	Out:   "output",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		n.Set(0, x.Type, broadcast(n, x.Shape, knownDims(n, 1, "shape")))
		foldMoved(n, 0)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{sumTo(b, dy[0], n.Inputs[0].Shape), nil}
	},
	NoOp:  func(*graph.Node) bool { return true }, // asked only if the shape stays
	Whole: sameNumbers(0),
	Eval:  expansion.eval,
	Fast:  expansion.fast,
	Lower: lower.Moves(expansion, false),
	Flops: noFlops,
	Tests: graph.Tests{
		Work: noWork,
		Pieces: []string{
			"f32[64], i64{70,64}",
		},
	},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,1], i64{2,1,6}",
		"f32[3,1], i64{3,4}",
		"f32[2,3], i64{1,1}",
		"f32[], i64{2,2}",
		"f32[1,4], i64{3,1}",
		"f32[1], i64{0}",
		"f32[3], i64{}",
		"i64{7}, i64{3}",
		"bool[1,2], i64{3,2}",
	},
})

var expansion mover = func(c *graph.Call) []lower.Move {
	y := c.Out[0]
	return []lower.Move{{Shape: y.Shape, From: index.Broadcast(c.In[0].Shape, y.Shape), To: index.Strides(y.Shape)}}
}
