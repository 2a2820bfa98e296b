package kernels

import (
	"math"

	"memopt/internal/graph"
)

var _ = defineActivation(activation{
	name:        "Elu",
	doc:         "y = x, or alpha·(eˣ − 1) where x < 0",
	attrs:       "alpha float=1",
	f:           func(n *graph.Node) func(float64) float64 { return elu(n.Float("alpha"), 1, 1) },
	slope:       func(n *graph.Node) func(float64) float64 { return eluSlope(n.Float("alpha"), 1, 1) },
	shader:      "choose(lt(a, T(0)), p * expm1Of(a), a)",
	shaderSlope: "choose(le(b, T(0)), p * exp(b), T(1))",
	numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha")} },
	flops:       10,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=0.3"},
	kinks:       "-1, 0, 1",
})

// elu is scale·x, or scale·alpha·(exp(x/width) − 1) where x < 0.
func elu(alpha, width, scale float64) func(float64) float64 {
	return func(x float64) float64 {
		if x < 0 {
			x = alpha * math.Expm1(x/width)
		}
		return scale * x
	}
}

func eluSlope(alpha, width, scale float64) func(float64) float64 {
	return func(x float64) float64 {
		if x <= 0 { // as in PyTorch; at 0 the slope jumps unless alpha is width
			return scale * alpha / width * math.Exp(x/width)
		}
		return scale
	}
}
