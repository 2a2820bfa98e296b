package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Concat",
	Doc:   "tensors one after the other along an axis",
	In:    "inputs...",
	Out:   "concat_result",
	Attrs: "axis int",
	Infer: func(n *graph.Node) {
		if !n.Has("axis") {
			n.Fail("attribute axis is missing")
		}
		if len(n.Inputs) == 0 {
			n.Fail("no inputs")
		}
		sameTypes(n)
		first := n.Inputs[0]
		axis := axisOf(n, n.Int("axis"), first.Rank())
		out := slices.Clone(first.Shape)
		all := []int{0}
		for i, v := range n.Inputs[1:] {
			if v.Rank() != len(out) {
				n.Fail("input %d has rank %d, but input 0 has rank %d", i+1, v.Rank(), len(out))
			}
			for k, d := range v.Shape {
				if k == axis {
					out[k] = out[k].Add(d)
					continue
				}
				n.Same(out[k], d, "dims other than the axis")
			}
			all = append(all, i+1)
		}
		n.Set(0, first.Type, out)
		foldMoved(n, all...)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		if len(n.Inputs) == 1 {
			return dy
		}
		axis := axisOf(n, n.Int("axis"), n.Inputs[0].Rank())
		sizes := make([]graph.Dim, len(n.Inputs))
		for i, v := range n.Inputs {
			sizes[i] = v.Shape[axis]
		}
		return slices.Clone(b.Ops("Split", graph.A{"axis": axis}, len(sizes), dy[0], b.Ints(sizes...)))
	},
	NoOp:  func(n *graph.Node) bool { return len(n.Inputs) == 1 },
	Whole: sameNumbers(),
	Eval:  concatenation.eval,
	Fast:  concatenation.fast,
	Lower: lower.Moves(concatenation, false),
	Flops: noFlops,
	Tests: graph.Tests{
		Work: noWork,
		Pieces: []string{
			"f32[20,64], f32[31,64]; axis=0",
			"f16[70,33], f16[70,1]; axis=1",
		},
	},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3], f32[4,3]; axis=0",
		"f32[2,3], f32[2,1], f32[2,2]; axis=1",
		"f32[2,3,2], f32[2,1,2]; axis=-2",
		"f32[3]; axis=0",
		"f32[2,0], f32[2,3]; axis=1",
		"i64{1,2}, i64{3}; axis=0",
		"bool[2], bool[3]; axis=0",
	},
})

var concatenation mover = func(c *graph.Call) []lower.Move {
	y := c.Out[0]
	axis := axisOf(c.Node, c.Node.Int("axis"), len(y.Shape))
	to := index.Strides(y.Shape)
	ms := make([]lower.Move, len(c.In))
	at := 0
	for i, x := range c.In {
		ms[i] = lower.Move{In: i, Shape: x.Shape, From: index.Strides(x.Shape), To: to, ToAt: at * to[axis]}
		at += x.Shape[axis]
	}
	return ms
}
