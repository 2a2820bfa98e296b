package f32

import "math"

// LogSoftmax is y = x − log Σ eˣ.
func LogSoftmax(y, x []float32) {
	top := Max(x)
	log := float32(math.Log(sumOfExp(x, top)))
	for i, v := range x {
		y[i] = v - top - log
	}
}

// LogSoftmaxSlope is dx = dy − eʸ·Σ dy. It may write over dy or y.
func LogSoftmaxSlope(dx, dy, y []float32) {
	sum := float32(Sum(0, dy))
	var e [BlockLen]float32
	InBlocks(len(y), func(lo, hi int) {
		e := e[:hi-lo]
		Exp(e, y[lo:hi])
		for i, v := range e {
			dx[lo+i] = dy[lo+i] - v*sum
		}
	})
}

// Softmax is y = eˣ/Σ eˣ.
func Softmax(y, x []float32) {
	if vectors && len(x) >= WorthVectors {
		var s rowSums
		for i := range s.top {
			s.top[i] = MinusInf
		}
		a := mapping(y, x)
		a.sums, a.pad[0] = &s, MinusInf
		a.greatest(len(x))
		a.scalars[0] = s.top[0]
		a.expSum(len(x))
		a.in[0], a.scalars[0] = a.out[0], float32(1/s.total(0))
		a.scale(len(x))
		return
	}
	Scale(y, y, float32(1/ExpSum(y, x, Max(x))))
}

// SoftmaxSlope is dx = y·(dy − Σ dy·y). It may write over dy or y.
func SoftmaxSlope(dx, dy, y []float32) { SoftmaxSlopeBy(dx, dy, y, float32(Dot(dy, y))) }

// SoftmaxSlopeBy is SoftmaxSlope where Σ dy·y is known.
func SoftmaxSlopeBy(dx, dy, y []float32, dot float32) {
	if vectors {
		a := mapping2(dx, dy, y)
		a.scalars[0] = dot
		a.softmaxSlope(len(y))
		return
	}
	for i, v := range y {
		dx[i] = v * (dy[i] - dot)
	}
}

// sumOfExp is Σ e^(x−shift) in float64.
func sumOfExp(x []float32, shift float32) float64 {
	var e [BlockLen]float32
	sum := 0.0
	for len(x) > 0 {
		e := e[:min(len(x), BlockLen)]
		sum += ExpSum(e, x[:len(e)], shift)
		x = x[len(e):]
	}
	return sum
}

// ExpSum is y = e^(x−shift), and the sum of it.
func ExpSum(y, x []float32, shift float32) float64 {
	if vectors {
		var s rowSums
		a := mapping(y, x)
		a.sums, a.scalars[0], a.pad[0] = &s, shift, MinusInf
		a.expSum(len(x))
		return s.total(0)
	}
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v - shift
	}
	Exp(y, y)
	return Sum(0, y)
}

// Max is the maximum of a row, ignoring NaNs: callers' exponentials propagate them anyway.
func Max(x []float32) float32 {
	if vectors && len(x) >= WorthVectors {
		var s rowSums
		for i := range s.top {
			s.top[i] = MinusInf
		}
		a := mapping(x, x)
		a.sums, a.pad[0] = &s, MinusInf
		a.greatest(len(x))
		return s.top[0]
	}
	a := float32(math.Inf(-1))
	b, c, d := a, a, a
	for ; len(x) >= 4; x = x[4:] {
		if x[0] > a {
			a = x[0]
		}
		if x[1] > b {
			b = x[1]
		}
		if x[2] > c {
			c = x[2]
		}
		if x[3] > d {
			d = x[3]
		}
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(a, b, c, d)
}
