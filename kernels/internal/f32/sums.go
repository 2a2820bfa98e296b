package f32

import (
	"unsafe"
)

// Sum is acc + Σ x, with four independent accumulators; the order depends on the length alone.
func Sum(acc float64, xs []float32) float64 {
	if vectors && len(xs) >= WorthVectors {
		var s rowSums
		a := mapping(xs, xs)
		a.sums = &s
		a.sumAll(len(xs))
		return acc + s.total(0)
	}
	var a, b, c, d float64
	for ; len(xs) >= 4; xs = xs[4:] {
		a += float64(xs[0])
		b += float64(xs[1])
		c += float64(xs[2])
		d += float64(xs[3])
	}
	for _, x := range xs {
		a += float64(x)
	}
	return acc + ((a + b) + (c + d))
}

// SumRows adds rows at stride step to acc, one by one. Rows are prefetched four ahead.
func SumRows(acc []float64, xs []float32, rows, step int) {
	full := 0
	if vectors {
		full = len(acc) &^ (lanes - 1)
		a := rowArgs{out: [4]*float32{(*float32)(unsafe.Pointer(unsafe.SliceData(acc)))}}
		for r := range rows {
			later := min(r+4, rows-1)
			a.in[0], a.in[1] = unsafe.SliceData(xs[r*step:][:len(acc)]), unsafe.SliceData(xs[later*step:][:len(acc)])
			a.sumRows(full)
		}
	}
	if full < len(acc) {
		for r := range rows {
			acc := acc[full:]
			for i, x := range xs[r*step+full:][:len(acc)] {
				acc[i] += float64(x)
			}
		}
	}
}

// SumNear is a less exact Sum, for results that are rounded to float32: lanes add a few numbers in
// float32 first.
func SumNear(x []float32) float64 {
	if !vectors || len(x) < WorthVectors {
		return Sum(0, x)
	}
	var s rowSums
	a := mapping(x, x)
	a.sums = &s
	a.sumNear(len(x))
	return s.total(0)
}

// SumSquares is acc + Σ x², in the order of Sum.
func SumSquares(acc float64, xs []float32) float64 {
	if vectors && len(xs) >= WorthVectors {
		return acc + Dot(xs, xs)
	}
	var a, b, c, d float64
	for ; len(xs) >= 4; xs = xs[4:] {
		a += float64(xs[0]) * float64(xs[0])
		b += float64(xs[1]) * float64(xs[1])
		c += float64(xs[2]) * float64(xs[2])
		d += float64(xs[3]) * float64(xs[3])
	}
	for _, x := range xs {
		a += float64(x) * float64(x)
	}
	return acc + ((a + b) + (c + d))
}

// Dot is Σ x·y, in the order of Sum.
func Dot(x, y []float32) float64 {
	if vectors && len(x) >= WorthVectors {
		var s rowSums
		a := mapping2(x, x, y)
		a.sums = &s
		a.dot(len(x))
		return s.total(0)
	}
	var a, b, c, d float64
	for y = y[:len(x)]; len(x) >= 4 && len(y) >= 4; x, y = x[4:], y[4:] {
		a += float64(x[0]) * float64(y[0])
		b += float64(x[1]) * float64(y[1])
		c += float64(x[2]) * float64(y[2])
		d += float64(x[3]) * float64(y[3])
	}
	for i, v := range x {
		a += float64(v) * float64(y[i])
	}
	return (a + b) + (c + d)
}

// Spread is Σ (x − mean)², in the order of Sum.
func Spread(xs []float32, mean float64) float64 {
	if vectors && len(xs) >= WorthVectors {
		// Use the mean rounded to float32, and correct the result for the difference.
		var s rowSums
		m := float32(mean)
		a := mapping(xs, xs)
		a.sums, a.scalars[0], a.pad[0] = &s, m, m
		a.sumSquares(len(xs))
		off := mean - float64(m)
		return max(0, s.total(0)-off*off*float64(len(xs)))
	}
	var a, b, c, d float64
	for ; len(xs) >= 4; xs = xs[4:] {
		w, x, y, z := float64(xs[0])-mean, float64(xs[1])-mean, float64(xs[2])-mean, float64(xs[3])-mean
		a += w * w
		b += x * x
		c += y * y
		d += z * z
	}
	for _, x := range xs {
		a += (float64(x) - mean) * (float64(x) - mean)
	}
	return (a + b) + (c + d)
}

// Moments returns the mean and Σ (x − mean)². It makes one pass with sums about the first element,
// corrected afterwards; if that loses digits, a second pass about the mean.
func Moments(x []float32) (mean, spread float64) {
	n := float64(len(x))
	if !vectors || len(x) < WorthVectors {
		mean = Sum(0, x) / n
		return mean, Spread(x, mean)
	}
	var s rowSums
	a := mapping(x, x)
	a.sums, a.scalars[0], a.pad[0] = &s, x[0], x[0]
	a.sumAbout(len(x))
	off := s.total(0) / n
	mean, spread = float64(x[0])+off, s.total(1)-off*off*n
	if off*off*n < 30*spread {
		return mean, spread
	}
	return mean, Spread(x, mean)
}

// AddSquares adds x² to acc, element by element.
func AddSquares(acc []float64, xs []float32) {
	for i, x := range xs {
		acc[i] += float64(x) * float64(x)
	}
}
