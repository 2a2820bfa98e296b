package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// alignAt adds the form that an operator of two inputs had before opset 7: B
// was broadcast only where broadcast said so, and axis was where in A its first
// dim stood.
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
