package kernels

import (
	"math"
)

var _ = defineActivation(activation{
	name:        "Softsign",
	doc:         "y = x/(1 + |x|)",
	f:           plain(func(x float64) float64 { return x / (1 + math.Abs(x)) }),
	slope:       plain(func(y float64) float64 { return (1 - math.Abs(y)) * (1 - math.Abs(y)) }),
	fromY:       true,
	shader:      "a / (T(1) + abs(a))",
	shaderSlope: "(T(1) - abs(b)) * (T(1) - abs(b))",
	flops:       3,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]"},
})
