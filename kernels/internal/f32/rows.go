package f32

import (
	"math"
)

// Sub is z = x − y.
func Sub(z, x, y []float32) {
	x, y = x[:len(z)], y[:len(z)]
	if vectors {
		a := mapping2(z, x, y)
		a.sub(len(z))
		return
	}
	for i := range z {
		z[i] = x[i] - y[i]
	}
}

// Mul is z = x·y.
func Mul(z, x, y []float32) {
	x, y = x[:len(z)], y[:len(z)]
	if vectors {
		a := mapping2(z, x, y)
		a.mul(len(z))
		return
	}
	for i := range z {
		z[i] = x[i] * y[i]
	}
}

// Relu is y = max(x, 0).
func Relu(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.relu(len(x))
		return
	}
	for i, v := range x {
		y[i] = max(v, 0)
	}
}

// ReluSlope is dx = dy where y > 0.
func ReluSlope(dx, dy, y []float32) {
	if vectors {
		a := mapping2(dx, dy, y)
		a.reluSlope(len(y))
		return
	}
	dx, dy = dx[:len(y)], dy[:len(y)]
	for i, v := range y {
		dx[i] = Choose(v > 0, dy[i], 0)
	}
}

// Add is z = x + y.
func Add(z, x, y []float32) {
	x, y = x[:len(z)], y[:len(z)]
	if vectors {
		a := mapping2(z, x, y)
		a.add(len(z))
		return
	}
	for i := range z {
		z[i] = x[i] + y[i]
	}
}

// Scale is z = x·y for a number y.
func Scale(z, x []float32, y float32) {
	if vectors {
		a := mapping(z, x[:len(z)])
		a.scalars[0] = y
		a.scale(len(z))
		return
	}
	x = x[:len(z)]
	for i := range z {
		z[i] = x[i] * y
	}
}

// Drop is y = scale·x where the random word is at least bound, else 0.
func Drop(y, x []float32, draws []uint32, bound uint64, scale float32) {
	y, x = y[:len(draws)], x[:len(draws)]
	for i, w := range draws {
		// A mask instead of an unpredictable branch: all ones where the element is kept.
		stays := uint32((int64(bound) - 1 - int64(w)) >> 63)
		y[i] = math.Float32frombits(math.Float32bits(x[i]*scale) & stays)
	}
}

// Finite reports whether all numbers are finite: only then x − x is 0.
func Finite(xs []float32) bool {
	sum := float32(0)
	for _, x := range xs {
		sum += x - x
	}
	return sum == 0
}

// Fill sets all elements to v.
func Fill(y []float32, v float32) {
	for i := range y {
		y[i] = v
	}
}
