package kernels

import (
	"math"
)

var _ = defineActivation(activation{
	name:  "Mish",
	since: 18,
	doc:   "y = x·tanh(ln(1 + eˣ))",
	f:     plain(func(x float64) float64 { return x * math.Tanh(softplus(x)) }),
	slope: plain(func(x float64) float64 {
		t := math.Tanh(softplus(x))
		return t + x*(1-t*t)*sigmoid(x)
	}),
	shader:      "a * tanhOf(softplusOf(a))",
	shaderSlope: "mishSlope(b)",
	flops:       30,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]"},
})
