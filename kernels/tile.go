package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Tile",
	Doc:   "repeats the tensor along each axis",
	In:    "input, repeats",
	Out:   "output",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		repeats := knownDims(n, 1, "repeats")
		if len(repeats) != x.Rank() {
			n.Fail("repeats has %d elements, but the input has rank %d", len(repeats), x.Rank())
		}
		out := make(graph.Shape, len(repeats))
		for i, r := range repeats {
			out[i] = x.Shape[i].Mul(r)
		}
		n.Set(0, x.Type, out)
		foldMoved(n, 0)
	},
	// View every dim as [repeats, own] and sum over the repeats.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		var split graph.Shape
		var axes []graph.Dim
		for i, r := range n.Inputs[1].Ints {
			if !r.Is(1) {
				axes = append(axes, graph.Num(int64(len(split))))
				split = append(split, r)
			}
			split = append(split, x.Shape[i])
		}
		if axes == nil {
			return []*graph.Value{dy[0], nil}
		}
		sum := b.Op("ReduceSum", graph.A{"keepdims": 0}, reshape(b, dy[0], split), b.Ints(axes...))
		return []*graph.Value{sum, nil}
	},
	NoOp:      func(*graph.Node) bool { return true }, // asked only if the shape stays
	Whole:     sameNumbers(0),
	Eval:      tiling.eval,
	Fast:      tiling.fast,
	Lower:     lower.Moves(tiling, false),
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3], i64{2,2}",
		"f32[2,3], i64{1,3}",
		"f32[2,1,2], i64{3,1,1}",
		"f32[2,3], i64{1,1}",
		"f32[2], i64{0}",
		"f32[], i64{}",
		"i64{1,2}, i64{2}",
		"bool[2,2], i64{1,2}",
	},
})

var tiling mover = func(c *graph.Call) []lower.Move {
	x, y := c.In[0], c.Out[0]
	sx, sy := index.Strides(x.Shape), index.Strides(y.Shape)
	m := lower.Move{}
	for i, d := range x.Shape {
		if d == 0 {
			return nil
		}
		m.Shape = append(m.Shape, y.Shape[i]/d, d)
		m.From = append(m.From, 0, sx[i])
		m.To = append(m.To, d*sy[i], sy[i])
	}
	return []lower.Move{m}
}
