package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// BroadcastGradientArgs (ONNX Runtime) depends on shapes alone, so its results are
// constants while planning, and the ReduceSums that read them have known shapes.
var _ = define(graph.Op{
	Name:   "BroadcastGradientArgs",
	Domain: microsoft,
	Doc:    "the axes, last to first, along which the gradients of two broadcast operands are summed",
	In:     "a_shape, b_shape",
	Out:    "a_axes?, b_axes?",
	Known:  []int{0, 1},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isIndex, "int32 or int64")
		for i, axes := range broadcastAxes(n) {
			n.Set(i, graph.Int64, graph.Dims(int64(len(axes))))
			n.SetInts(i, axes)
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		for i, axes := range broadcastAxes(c.Node) {
			for k, a := range axes {
				if out := output(c, i); out != nil {
					v, _ := a.Const()
					out.SetInt(k, v)
				}
			}
		}
	},
	Lower:     lower.Known,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"i64{2,3,4}, i64{3,1}",
		"i64{1,3,1}, i64{5,2,1,4}",
		"i64{2,3}, i64{2,3} -> a, b",
		"i64{4}, i64{2,4} -> a",
		"i64{}, i64{2}",
	},
})

// broadcastAxes returns the axes over which each operand is broadcast, counted in the
// higher rank of the two. Dims of which neither is known to be 1 are taken as equal.
func broadcastAxes(n *graph.Node) [2][]graph.Dim {
	shapes := [2][]graph.Dim{knownDims(n, 0, "the shape of the first"), knownDims(n, 1, "the shape of the second")}
	rank := max(len(shapes[0]), len(shapes[1]))
	axes := [2][]graph.Dim{{}, {}}
	for i := rank - 1; i >= 0; i-- {
		var dims [2]graph.Dim
		for k, s := range shapes {
			if dims[k] = graph.Num(1); i >= rank-len(s) {
				dims[k] = s[i-rank+len(s)]
			}
		}
		a, b, axis := dims[0], dims[1], graph.Num(int64(i))
		switch {
		case a.Is(1) && !b.Is(1) || i < rank-len(shapes[0]):
			axes[0] = append(axes[0], axis)
		case b.Is(1) && !a.Is(1) || i < rank-len(shapes[1]):
			axes[1] = append(axes[1], axis)
		default:
			n.Same(a, b, "shapes cannot be broadcast")
		}
	}
	return axes
}
