package kernels

import (
	"memopt/internal/graph"
)

var _ = defineActivation(activation{
	name:        "Selu",
	since:       6,
	doc:         "y = gamma·x, or gamma·alpha·(eˣ − 1) where x < 0",
	attrs:       "alpha float=1.67326319217681884765625, gamma float=1.05070102214813232421875",
	f:           func(n *graph.Node) func(float64) float64 { return elu(n.Float("alpha"), 1, n.Float("gamma")) },
	slope:       func(n *graph.Node) func(float64) float64 { return eluSlope(n.Float("alpha"), 1, n.Float("gamma")) },
	shader:      "q * choose(lt(a, T(0)), p * expm1Of(a), a)",
	shaderSlope: "q * choose(le(b, T(0)), p * exp(b), T(1))",
	numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha"), n.Float("gamma")} },
	flops:       10,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=0.3 gamma=1.5"},
	kinks:       "-1, 0, 1",
})
