package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name: "Identity",
	Doc:  "y = x",
	In:   "input",
	Out:  "output",
	Infer: func(n *graph.Node) {
		sameShape(n)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d, true })
	},
	Elementwise: true,
	Grad:        viewGrad,
	Whole:       sameNumbers(0),
	Eval:        copyBytes,
	Flops:       noFlops,
	Tests:       graph.Tests{Work: noWork},
	Recompute:   graph.Cheap,
	View:        true,
	Samples:     []string{"f32[2,3]", "bool[4]", "i64[]", "f64[0,2]"},
})
