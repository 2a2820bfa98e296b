package kernels

import "memopt/kernels/internal/f32"

var _ = defineActivation(activation{
	name: "Relu",
	doc:  "y = max(x, 0)",
	f:    plain(func(x float64) float64 { return max(x, 0) }),
	slope: plain(func(y float64) float64 {
		if y > 0 {
			return 1
		}
		return 0
	}),
	fromY:       true,
	sign:        true,
	ofOrt:       true,
	ints:        func(x int64) int64 { return max(x, 0) },
	fast:        plain(f32.Relu),
	fastSlope:   plain(f32.ReluSlope),
	fused:       true,
	shader:      "greatest(a, T(0))",
	shaderSlope: "choose(gt(b, T(0)), T(1), T(0))",
	flops:       1,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "i32[5]"},
	kinks:       "-1, 0, 1",
})
