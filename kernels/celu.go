package kernels

import (
	"memopt/internal/graph"
)

var _ = defineActivation(activation{
	name:        "Celu",
	doc:         "y = x, or alpha·(exp(x/alpha) − 1) where x < 0",
	attrs:       "alpha float=1",
	f:           func(n *graph.Node) func(float64) float64 { return elu(n.Float("alpha"), n.Float("alpha"), 1) },
	slope:       func(n *graph.Node) func(float64) float64 { return eluSlope(n.Float("alpha"), n.Float("alpha"), 1) },
	shader:      "choose(lt(a, T(0)), p * expm1Of(a / p), a)",
	shaderSlope: "choose(le(b, T(0)), exp(b / p), T(1))",
	numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha")} },
	flops:       10,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=0.3"},
	kinks:       "-1, 0, 1",
})
