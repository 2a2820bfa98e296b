package kernels

import "memopt/internal/graph"

// StopGradient is detach() of a trainer. Autograd honors it; afterwards it is removed as a no-op.
var _ = define(graph.Op{
	Name:   "StopGradient",
	Domain: own,
	Doc:    "y = x, without a gradient",
	In:     "x",
	Out:    "y",
	Infer:  sameShape,
	// Only once there are gradients: see package autograd.
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
