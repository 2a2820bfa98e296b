package kernels

import "memopt/internal/graph"

// Global pooling is rewritten into a reduction over the spatial dims.
var (
	_ = globalPool("GlobalAveragePool", "ReduceMean", "the mean of each channel")
	_ = globalPool("GlobalMaxPool", "ReduceMax", "the greatest of each channel")
)

func globalPool(name, reduce, doc string) *graph.Op {
	return define(graph.Op{
		Name:    name,
		Doc:     doc,
		In:      "X",
		Out:     "Y",
		Samples: []string{"f32[2,3,4,5]"},
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			x := n.Inputs[0]
			if x.Rank() < 2 {
				n.Fail("the input must be [N, C, …], but is %s", x.Shape)
			}
			var axes []graph.Dim
			for i := 2; i < x.Rank(); i++ {
				axes = append(axes, graph.Num(int64(i)))
			}
			attrs := graph.A{"keepdims": 1, "noop_with_empty_axes": 1}
			return []*graph.Value{b.Op(reduce, attrs, x, b.Ints(axes...))}
		},
	})
}
