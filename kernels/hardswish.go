package kernels

var _ = defineActivation(activation{
	name:  "HardSwish",
	since: 14,
	doc:   "y = x·max(0, min(1, x/6 + 1/2))",
	f:     plain(func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) }),
	slope: plain(func(x float64) float64 {
		switch {
		case x <= -3:
			return 0
		case x >= 3:
			return 1
		}
		return x/3 + 0.5
	}),
	shader:      "a * greatest(least(a / T(6) + T(0.5), T(1)), T(0))",
	shaderSlope: "choose(le(b, T(-3)), T(0), choose(ge(b, T(3)), T(1), b / T(3) + T(0.5)))",
	flops:       5,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]"},
	kinks:       "-3, 0, 3",
})
