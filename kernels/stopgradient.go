package kernels

import "memopt/memopt/graph"

// A trainer's detach(). Once there is a backward pass nothing is left of it.
var _ = define(graph.Op{
	Name:   "StopGradient",
	Domain: own,
	Doc:    "y = x, of which no gradient comes back",
	In:     "x",
	Out:    "y",
	Infer:  sameShape,
	// Not so before the gradients are made: see package autograd.
	NoOp:        func(*graph.Node) bool { return true },
	NoGrad:      true,
	Elementwise: true,
	Whole:       sameNumbers(0),
	Eval:        copyBytes,
	Flops:       noFlops,
	Tests:       graph.Tests{Work: noWork},
	Recompute:   graph.Cheap,
	InPlace:     []int{0},
	Samples:     []string{"f32[2,3]", "i64[4]", "f64[0,2]"},
})
