package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:   "BiasGelu",
	Domain: microsoft,
	Doc:    "gelu of A + B, B a vector as long as the last dim",
	In:     "A, B",
	Out:    "C",
	Infer:  biasInfer,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return biasGrads(b, n, b.Op("com.microsoft.BiasGeluGrad_dX", nil, dy[0], n.Inputs[0], n.Inputs[1]))
	},
	Fuse:      func(m *graph.Match) []*graph.Value { return fuseBiasGelu(m, "none", "com.microsoft.BiasGelu") },
	Eval:      exactGelu.eval,
	Fast:      exactGelu.fast,
	Lower:     lower.Pointwise("(a + b) * normal(a + b)"),
	Pointwise: true,
	Flops:     perElement(9),
	Tests:     graph.Tests{Work: eachOut(9)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,5], f32[5]", "f32[2,3,300], f32[300]", "f16[2,7], f16[7]", "f32[0,3], f32[3]"},
})

var _ = define(graph.Op{
	Name:      "BiasGeluGrad_dX",
	Domain:    microsoft,
	Doc:       "dx of BiasGelu; the bias's gradient is its sum",
	In:        "dY, X, B",
	Out:       "dX",
	Infer:     geluGradInfer,
	NoGrad:    true,
	Eval:      exactGelu.evalGrad,
	Fast:      exactGelu.fastGrad,
	Lower:     lower.Pointwise("a * geluSlope(b + c)"),
	Pointwise: true,
	Flops:     perElement(17),
	Tests:     graph.Tests{Work: eachOut(17)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   []string{"f32[2,5], f32[2,5], f32[5]", "f32[3,300], f32[3,300], f32[300]", "f16[7], f16[7], f16[7]"},
})
