package f32

// Shift is y = (x − m)·g + b.
func Shift(y, x []float32, m, g, b float32) {
	if vectors {
		a := mapping(y, x)
		a.scalars = [10]float32{m, g, b}
		a.shift(len(x))
		return
	}
	for i, v := range x {
		y[i] = (v-m)*g + b
	}
}

// ChannelDots is Σ dy and Σ dy·(x − mean).
func ChannelDots(dy, x []float32, mean float64) (sumD, sumDX float64) {
	if vectors && len(x) >= WorthVectors {
		// Use the mean rounded to float32, and correct the result for the difference.
		var s rowSums
		m := float32(mean)
		a := mapping2(x, dy, x)
		a.sums, a.scalars[0] = &s, m
		a.channelDots(len(x))
		sumD = s.total(0)
		return sumD, s.total(1) + (float64(m)-mean)*sumD
	}
	for i, d := range dy {
		sumD += float64(d)
		sumDX += float64(d) * (float64(x[i]) - mean)
	}
	return sumD, sumDX
}

// ChannelSlope is dx = g·dy + s·(x − m) + b.
func ChannelSlope(dx, dy, x []float32, m, g, s, b float32) {
	if vectors {
		a := mapping2(dx, dy, x)
		a.scalars = [10]float32{m, g, s, b}
		a.channelSlope(len(x))
		return
	}
	for i, d := range dy {
		dx[i] = g*d + s*(x[i]-m) + b
	}
}
