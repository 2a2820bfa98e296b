package kernels

import (
	"math"

	"memopt/kernels/internal/f32"
)

var _ = defineActivation(activation{
	name:        "Erf",
	doc:         "y = erf x",
	f:           plain(math.Erf),
	slope:       plain(func(x float64) float64 { return 2 / math.SqrtPi * math.Exp(-x*x) }),
	fast:        plain(f32.Erf),
	shader:      "erfOf(a)",
	shaderSlope: "T(1.128379167) * exp(-b * b)",
	flops:       20,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[37]"},
})
