package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// alignAt defines the form that a binary operator had before opset 7: B is broadcast
// only if the attribute broadcast is set, and axis is the dim of A that B's first dim
// aligns with.
func alignAt(name string) *graph.Op {
	return define(graph.Op{
		Name:  name,
		Doc:   "the form before opset 7, with B aligned at an axis of A",
		In:    "A, B",
		Out:   "C",
		Attrs: "axis int, broadcast int=0",
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			x, y := n.Inputs[0], n.Inputs[1]
			if n.Int("broadcast") != 0 && n.Has("axis") {
				axis := axisOf(n, n.Int("axis"), x.Rank())
				behind := x.Rank() - axis - y.Rank()
				if behind < 0 {
					n.Fail("B of rank %d does not fit A of rank %d from axis %d on", y.Rank(), x.Rank(), axis)
				}
				y = reshape(b, y, append(slices.Clone(y.Shape), slices.Repeat(graph.Dims(1), behind)...))
			}
			return []*graph.Value{b.Op(name, nil, x, y)}
		},
	})
}
