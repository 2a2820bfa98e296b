package kernels

import (
	"math"

	"memopt/kernels/internal/f32"
)

var _ = defineActivation(activation{
	name:  "Tanh",
	doc:   "y = tanh x",
	f:     plain(math.Tanh),
	slope: plain(func(y float64) float64 { return 1 - y*y }),
	fromY: true,
	ofOrt: true,
	fast:  plain(f32.Tanh),
	fastSlope: plain(func(dx, dy, y []float32) {
		dx, dy = dx[:len(y)], dy[:len(y)]
		for i, v := range y {
			dx[i] = dy[i] * (1 - v*v)
		}
	}),
	fused:       true,
	shader:      "tanhOf(a)",
	shaderSlope: "T(1) - b * b",
	flops:       12,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[37]"},
})
