package kernels

import "memopt/internal/graph"

var _ = defineView(graph.Op{
	Name: "Identity",
	Doc:  "y = x",
	In:   "input",
	Out:  "output",
	Infer: func(n *graph.Node) {
		sameShape(n)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d, true })
	},
	Elementwise: true,
	Samples:     []string{"f32[2,3]", "bool[4]", "i64[]", "f64[0,2]"},
})
