package kernels

import (
	"math"
)

var _ = defineActivation(activation{
	name: "Softplus",
	doc:  "y = ln(1 + eˣ)",
	f:    plain(softplus),
	// 1/(1 + e⁻ˣ) = 1 − e⁻ʸ
	slope:       plain(func(y float64) float64 { return -math.Expm1(-y) }),
	fromY:       true,
	shader:      "softplusOf(a)",
	shaderSlope: "-expm1Of(-b)",
	flops:       20,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]"},
})

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
