package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name: "Not",
	Doc:  "y = not x",
	In:   "X",
	Out:  "Y",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isBool, "bools")
		sameShape(n)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return graph.Num(1).Sub(d), true })
	},
	NoGrad:      true,
	Eval:        unary{i: func(x int64) int64 { return 1 - x }}.eval,
	Lower:       lower.PointwiseOf("1u - a", nil, graph.Bool, graph.Bool, graph.Bool, graph.Bool),
	Flops:       perElement(1),
	Tests:       graph.Tests{Work: eachOut(1)},
	Recompute:   graph.Cheap,
	Elementwise: true,
	InPlace:     []int{0},
	Samples:     []string{"bool[2,3]", "bool[]", "bool{0,1}", "bool[0]"},
})
