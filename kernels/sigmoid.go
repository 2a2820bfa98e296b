package kernels

import (
	"math"

	"memopt/kernels/internal/f32"
)

var _ = defineActivation(activation{
	name:  "Sigmoid",
	doc:   "y = 1/(1 + e⁻ˣ)",
	f:     plain(sigmoid),
	slope: plain(func(y float64) float64 { return y * (1 - y) }),
	fromY: true,
	ofOrt: true,
	fast:  plain(f32.Sigmoid),
	fastSlope: plain(func(dx, dy, y []float32) {
		dx, dy = dx[:len(y)], dy[:len(y)]
		for i, v := range y {
			dx[i] = dy[i] * (v * (1 - v))
		}
	}),
	fused:       true,
	shader:      "sigmoidOf(a)",
	shaderSlope: "b * (T(1) - b)",
	flops:       12,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[37]"},
})

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
