package f32

import (
	"math"

	"memopt/kernels/internal/gelu"
)

// Transcendental functions over rows, each as a vector loop and, for machines without vectors,
// in terms of Exp. The relative error is below 2·10⁻⁶ (absolute error for functions that cross 0
// or approach 1).

// BlockLen is the length of the blocks in which rows are computed, so that intermediate results
// stay in the L1 cache.
const BlockLen = 256

// InBlocks calls f for blocks of [0, n).
func InBlocks(n int, f func(lo, hi int)) {
	for lo := 0; lo < n; lo += BlockLen {
		f(lo, min(lo+BlockLen, n))
	}
}

// The exponential is 2ᵏ·e^r with |r| ≤ ln(2)/2, e^r a polynomial (Cephes).
const (
	log2e  = 1.44269504088896341
	ln2Hi  = 0.693359375 // exact in 9 bits
	ln2Lo  = -2.12194440e-4
	expMax = 88.722 // above, e^x is infinite in float32
	expMin = -87.33 // below, it is less than the least normal number: 0
	expC0  = 1.9875691500e-4
	expC1  = 1.3981999507e-3
	expC2  = 8.3334519073e-3
	expC3  = 4.1665795894e-2
	expC4  = 1.6666665459e-1
	expC5  = 5.0000001201e-1
)

// Exp is y = eˣ.
func Exp(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.exp(len(x))
		return
	}
	y = y[:len(x)]
	for i, v := range x {
		y[i] = exp32(v)
	}
}

// exp32 is an element of Exp, for CPUs without vectors.
func exp32(x float32) float32 {
	switch {
	case x > expMax:
		return float32(math.Inf(1))
	case x < expMin:
		return 0
	case x != x:
		return x
	}
	const magic = 3 << 22 // adding it rounds to an integer
	k := x*log2e + magic - magic
	r := x - k*ln2Hi - k*ln2Lo
	p := float32(expC0)
	p = p*r + expC1
	p = p*r + expC2
	p = p*r + expC3
	p = p*r + expC4
	p = p*r + expC5
	p = p*(r*r) + r + 1
	// In two steps, as k may be 128.
	half := int32(k) >> 1
	return p * scale2(half) * scale2(int32(k)-half)
}

// Choose is a if first, else b. It works on bits, for which the compiler emits a conditional move:
// branches on signs are mispredicted.
func Choose(first bool, a, b float32) float32 {
	p, q := math.Float32bits(a), math.Float32bits(b)
	if first {
		q = p
	}
	return math.Float32frombits(q)
}

// scale2 is 2ᵏ.
func scale2(k int32) float32 { return math.Float32frombits(uint32(k+127) << 23) }

// Sigmoid is 1/(1 + e⁻ˣ).
func Sigmoid(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.sigmoid(len(x))
		return
	}
	var e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		y, x, e := y[lo:hi], x[lo:hi], e[:hi-lo]
		for i, v := range x {
			e[i] = -v
		}
		Exp(e, e)
		for i, v := range e {
			y[i] = 1 / (1 + v)
		}
	})
}

// Tanh is 1 − 2/(e^2x + 1), and a polynomial near 0, where that cancels.
func Tanh(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.tanh(len(x))
		return
	}
	var e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		y, x, e := y[lo:hi], x[lo:hi], e[:hi-lo]
		for i, v := range x {
			e[i] = 2 * v
		}
		Exp(e, e)
		for i, v := range x {
			z := v * v
			far := 1 - 2/(e[i]+1)
			near := v + v*z*((((-5.70498872745e-3*z+2.06390887954e-2)*z-5.37397155531e-2)*z+1.33314422036e-1)*z-3.33332819422e-1)
			y[i] = Choose(z < 0.390625, near, far)
		}
	})
}

// upperTail computes q, the probability that a normal variable exceeds |x|, and e = e^(−x²/2), by
// Abramowitz and Stegun 7.1.26 (error 8·10⁻⁸).
func upperTail(q, e, x []float32) {
	q, e = q[:len(x)], e[:len(x)]
	for i, v := range x {
		e[i] = -0.5 * v * v
	}
	Exp(e, e)
	for i, v := range x {
		t := 1 / (1 + 0.3275911/math.Sqrt2*math.Float32frombits(math.Float32bits(v)&^(1<<31)))
		p := ((((1.061405429*t-1.453152027)*t+1.421413741)*t-0.284496736)*t + 0.254829592) * t
		q[i] = 0.5 * p * e[i]
	}
}

// Erf is erf x: by the upper tail, or by a series near 0, where that cancels.
func Erf(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.erf(len(x))
		return
	}
	var q, e, s [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		y, x, q, s := y[lo:hi], x[lo:hi], q[:hi-lo], s[:hi-lo]
		for i, v := range x {
			s[i] = v * math.Sqrt2
		}
		upperTail(q, e[:len(x)], s)
		for i, v := range x {
			z := v * v
			far := Choose(v < 0, 2*q[i]-1, 1-2*q[i])
			near := v * ((((((7.853861353153693e-5*z-8.010193625184903e-4)*z+5.188327685732524e-3)*z-2.685381193529856e-2)*z+1.128358514861418e-1)*z-3.761262582423300e-1)*z + 1.128379165726710)
			y[i] = Choose(z < 1, near, far)
		}
	})
}

// Gelu is x·Φ(x).
func Gelu(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.gelu(len(x))
		return
	}
	var q, e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		y, x, q := y[lo:hi], x[lo:hi], q[:hi-lo]
		upperTail(q, e[:len(x)], x)
		for i, v := range x {
			y[i] = v * Choose(v > 0, 1-q[i], q[i])
		}
	})
}

// GeluSlope is dy·(Φ(x) + x·φ(x)).
func GeluSlope(dx, dy, x []float32) {
	if vectors {
		a := mapping2(dx, dy, x)
		a.geluSlope(len(x))
		return
	}
	var q, e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		dx, dy, x, q, e := dx[lo:hi], dy[lo:hi], x[lo:hi], q[:hi-lo], e[:hi-lo]
		upperTail(q, e, x)
		for i, v := range x {
			dx[i] = dy[i] * (Choose(v > 0, 1-q[i], q[i]) + v*e[i]*0.3989422804014327)
		}
	})
}

// Swish is x·sigmoid(alpha·x).
func Swish(y, x []float32, alpha float32) {
	if vectors {
		a := mapping(y, x)
		a.scalars[0] = alpha
		a.swish(len(x))
		return
	}
	var e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		y, x, e := y[lo:hi], x[lo:hi], e[:hi-lo]
		for i, v := range x {
			e[i] = -alpha * v
		}
		Exp(e, e)
		for i, v := range x {
			y[i] = v / (1 + e[i])
		}
	})
}

// SwishSlope is dy·(s + alpha·x·s·(1 − s)), s = sigmoid(alpha·x).
func SwishSlope(dx, dy, x []float32, alpha float32) {
	if vectors {
		a := mapping2(dx, dy, x)
		a.scalars[0] = alpha
		a.swishSlope(len(x))
		return
	}
	var e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		dx, dy, x, e := dx[lo:hi], dy[lo:hi], x[lo:hi], e[:hi-lo]
		for i, v := range x {
			e[i] = -alpha * v
		}
		Exp(e, e)
		for i, v := range x {
			s := 1 / (1 + e[i])
			dx[i] = dy[i] * (s + alpha*v*s*(1-s))
		}
	})
}

// GeluTanh is the tanh approximation of Gelu, x·sigmoid(2u), as 0.5·(1 + tanh u) = sigmoid(2u).
func GeluTanh(y, x []float32) {
	if vectors {
		a := mapping(y, x)
		a.geluTanh(len(x))
		return
	}
	var e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		y, x, e := y[lo:hi], x[lo:hi], e[:hi-lo]
		geluTanhInner(e, x)
		for i, v := range x {
			y[i] = v / (1 + e[i])
		}
	})
}

// GeluTanhSlope is dy·(s + x·s·(1 − s)·(2u)′), s = sigmoid(2u).
func GeluTanhSlope(dx, dy, x []float32) {
	if vectors {
		a := mapping2(dx, dy, x)
		a.geluTanhSlope(len(x))
		return
	}
	var e [BlockLen]float32
	InBlocks(len(x), func(lo, hi int) {
		dx, dy, x, e := dx[lo:hi], dy[lo:hi], x[lo:hi], e[:hi-lo]
		geluTanhInner(e, x)
		for i, v := range x {
			s := 1 / (1 + e[i])
			dx[i] = dy[i] * (s + v*s*(1-s)*(2*gelu.Scale*(1+3*gelu.Cubic*v*v)))
		}
	})
}

// geluTanhInner is e^(−2u).
func geluTanhInner(e, x []float32) {
	for i, v := range x {
		e[i] = -2 * gelu.Scale * (v + gelu.Cubic*v*v*v)
	}
	Exp(e, e)
}
