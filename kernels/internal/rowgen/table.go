package main

import (
	"math"

	"memopt/kernels/internal/gelu"
)

// loop is a row of the table: a kernel's name, its doc comment, and its computation for one element.
type loop struct {
	name, doc string
	body      func(k *kernel)
}

// loops lists the loops in the order of the generated files.
var loops = []loop{
	{"exp", "y = eˣ", func(k *kernel) { k.out(0, k.exp(k.in(0))) }},
	{"sigmoid", "y = 1/(1 + e⁻ˣ)", func(k *kernel) { k.out(0, k.sigmoid(k.in(0))) }},
	{"tanh", "y = 1 − 2/(e²ˣ + 1), or a polynomial near 0, where that cancels", tanh},
	{"erf", "y = erf x from its tail, or a series near 0, where that cancels", erf},
	{"gelu", "y = x·Φ(x)", func(k *kernel) {
		x := k.in(0)
		phi, _ := k.normal(x)
		k.out(0, k.mul(x, phi))
	}},
	{"geluSlope", "dx = dy·(Φ(x) + x·φ(x))", func(k *kernel) {
		dy, x := k.in(0), k.in(1)
		phi, e := k.normal(x)
		k.out(0, k.mul(dy, k.fma(k.mul(x, e), k.num(0.3989422804014327), phi)))
	}},
	{"geluTanh", "y = x·sigmoid(2u), which is 0.5·x·(1 + tanh u)", func(k *kernel) {
		x := k.in(0)
		k.out(0, k.div(x, k.add(k.exp(k.geluInner(x)), k.num(1))))
	}},
	{"geluTanhSlope", "dx = dy·(s + x·s·(1 − s)·(2u)′), s = sigmoid(2u)", func(k *kernel) {
		dy, x := k.in(0), k.in(1)
		s := k.inverse(k.add(k.exp(k.geluInner(x)), k.num(1)))
		slope := k.poly(k.mul(x, x), 2*gelu.Scale*3*gelu.Cubic, 2*gelu.Scale)
		k.out(0, k.mul(dy, k.fma(k.mul(k.mul(x, slope), s), k.fnma(s, k.num(1), k.num(1)), s)))
	}},
	{"swish", "y = x·sigmoid(alpha·x)", func(k *kernel) {
		x := k.in(0)
		k.out(0, k.div(x, k.add(k.exp(k.neg(k.mul(x, k.scalar(0)))), k.num(1))))
	}},
	{"swishSlope", "dx = dy·(s + alpha·x·s·(1 − s)), s = sigmoid(alpha·x)", func(k *kernel) {
		dy, x := k.in(0), k.in(1)
		ax := k.mul(x, k.scalar(0))
		s := k.sigmoid(ax)
		k.out(0, k.mul(dy, k.fma(k.mul(ax, s), k.fnma(s, k.num(1), k.num(1)), s)))
	}},
	{"relu", "y = max(x, 0)", func(k *kernel) { k.out(0, k.max(k.num(0), k.in(0))) }},
	{"reluSlope", "dx = dy where y > 0", func(k *kernel) {
		dy, y := k.in(0), k.in(1)
		k.out(0, k.less(k.num(0), y, dy, k.num(0)))
	}},
	{"add", "z = x + y", func(k *kernel) { k.out(0, k.add(k.in(0), k.in(1))) }},
	{"sub", "z = x − y", func(k *kernel) { k.out(0, k.sub(k.in(0), k.in(1))) }},
	{"mul", "z = x·y", func(k *kernel) { k.out(0, k.mul(k.in(0), k.in(1))) }},
	{"scale", "y = x·s", func(k *kernel) { k.out(0, k.mul(k.in(0), k.scalar(0))) }},
	{"shift", "y = (x − m)·g + b", func(k *kernel) { k.out(0, k.fma(k.sub(k.in(0), k.scalar(0)), k.scalar(1), k.scalar(2))) }},
	{"sumAll", "Σ x", func(k *kernel) { k.sum(0, k.in(0)) }},
	{"sumNear", "Σ x, partly in float32", func(k *kernel) { k.near(0, k.in(0)) }},
	{"sumAbout", "Σ (x − m) and Σ (x − m)²", func(k *kernel) {
		k.next()
		d := k.sub(k.in(0), k.scalar(0))
		k.near(0, d)
		k.near(1, k.mul(d, d))
	}},
	{"sumSquares", "Σ (x − m)²", func(k *kernel) {
		d := k.sub(k.in(0), k.scalar(0))
		k.near(0, k.mul(d, d))
	}},
	{"dot", "Σ x·y", func(k *kernel) { k.sumOf(0, k.in(0), k.in(1)) }},
	{"greatest", "max x", func(k *kernel) { k.greatest(k.in(0)) }},
	{"expSum", "y = e^(x−s) and Σ y, for x ≤ s", func(k *kernel) {
		k.next()
		y := k.fall(k.sub(k.in(0), k.scalar(0)))
		k.near(0, y)
		k.out(0, y)
	}},
	{"softmaxSlope", "dx = y·(dy − s)", func(k *kernel) { k.out(0, k.mul(k.in(1), k.sub(k.in(0), k.scalar(0)))) }},
	{"norm", "y = (x − m)·s·g + b", func(k *kernel) {
		k.out(0, k.fma(k.mul(k.sub(k.in(0), k.scalar(0)), k.scalar(1)), k.in(1), k.in(2)))
	}},
	{"normPlain", "y = (x − m)·s·g", func(k *kernel) {
		k.out(0, k.mul(k.mul(k.sub(k.in(0), k.scalar(0)), k.scalar(1)), k.in(1)))
	}},
	{"normSums", "Σ dy·g and Σ dy·g·(x − m)", func(k *kernel) {
		a := k.mul(k.in(0), k.in(2))
		k.near(0, a)
		k.near(1, k.mul(a, k.sub(k.in(1), k.scalar(0))))
	}},
	{"normSlope", "dx = s·(dy·g − b − (x − m)·c)", func(k *kernel) {
		d := k.fnma(k.sub(k.in(1), k.scalar(0)), k.scalar(3), k.fma(k.in(0), k.in(2), k.scalar(2)))
		k.out(0, k.mul(d, k.scalar(1)))
	}},
	{"normAffine", "ds += dy·(x − m)·s, db += dy", func(k *kernel) {
		dy := k.in(0)
		n := k.mul(k.sub(k.in(1), k.scalar(0)), k.scalar(1))
		k.out(0, k.fma(dy, n, k.in(2)))
		k.out(1, k.add(dy, k.in(3)))
	}},
	{"channelDots", "Σ dy and Σ dy·(x − m)", func(k *kernel) {
		dy := k.in(0)
		k.near(0, dy)
		k.near(1, k.mul(dy, k.sub(k.in(1), k.scalar(0))))
	}},
	{"channelSlope", "dx = g·dy + s·(x − m) + b", func(k *kernel) {
		d := k.fma(k.sub(k.in(1), k.scalar(0)), k.scalar(2), k.scalar(3))
		k.out(0, k.fma(k.in(0), k.scalar(1), d))
	}},
	{"sumRows", "acc += x, with acc in float64; input 1 is a later row to prefetch", func(k *kernel) {
		k.fetch(1)
		k.wide(0, k.in(0))
	}},
	{"sgd", "p = p·keep − rate·g", func(k *kernel) {
		k.out(0, k.fnma(k.in(1), k.scalar(1), k.mul(k.in(0), k.scalar(0))))
	}},
	{"momentum", "d = p·decay + g·scale, b = b·old + d·keep, p = p − rate·b", func(k *kernel) {
		p := k.in(0)
		d := k.fma(k.in(1), k.scalar(0), k.mul(p, k.scalar(1)))
		b := k.fma(d, k.scalar(3), k.mul(k.in(2), k.scalar(2)))
		k.out(1, b)
		k.out(0, k.fnma(b, k.scalar(4), p))
	}},
	{"adam", "Adam's rule: p, m and v from p, g, m and v", func(k *kernel) {
		scale, decay, keep1, beta2, keep2 := k.scalar(0), k.scalar(1), k.scalar(2), k.scalar(3), k.scalar(4)
		inv, eps, shrink, step := k.scalar(5), k.scalar(6), k.scalar(7), k.scalar(8)
		p, m := k.in(0), k.in(2)
		d := k.fma(k.in(1), scale, k.mul(p, decay))
		a := k.fma(k.sub(d, m), keep1, m)
		k.out(1, a)
		b := k.fma(k.mul(d, d), keep2, k.mul(k.in(3), beta2))
		k.out(2, b)
		a = k.div(k.mul(a, step), k.fma(k.sqrt(b), inv, eps))
		k.out(0, k.sub(k.mul(p, shrink), a))
	}},
}

// exp is 2ⁿ·eʳ with |r| ≤ ln(2)/2 and eʳ a polynomial (Cephes). Scaling by 2ⁿ underflows
// to 0 and overflows to +Inf as it should.
func (k *kernel) exp(x *value) *value {
	x = k.max(k.num(-105), k.min(k.num(89), x))
	n := k.round(k.mul(x, k.num(1.44269504088896341)))
	r := k.fnma(n, k.num(0.693359375), x)
	r = k.fnma(n, k.num(-2.12194440e-4), r)
	p := k.poly(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	p = k.add(k.fma(p, k.mul(r, r), r), k.num(1))
	return k.scale(p, n)
}

// fall is a cheaper eˣ for x ≤ 0. It uses ln(2) as one float32, whose error of n·1.9·10⁻⁹
// matters only where eˣ is nearly 0, and a polynomial of one degree less (error 9·10⁻⁸).
func (k *kernel) fall(x *value) *value {
	x = k.max(k.num(-105), x)
	n := k.round(k.mul(x, k.num(1.44269504088896341)))
	r := k.fnma(n, k.num(math.Ln2), x)
	return k.scale(k.poly(r, 8.290272585e-3, 4.1898164498e-2, 1.66676381527e-1, 4.99991478054e-1, 9.99999706298e-1, 1), n)
}

func (k *kernel) sigmoid(x *value) *value { return k.inverse(k.add(k.exp(k.neg(x)), k.num(1))) }

func tanh(k *kernel) {
	x := k.in(0)
	e := k.exp(k.add(x, x))
	far := k.fnma(k.inverse(k.add(e, k.num(1))), k.num(2), k.num(1))
	z := k.mul(x, x)
	near := k.poly(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
	near = k.fma(k.mul(near, z), x, x)
	k.out(0, k.less(z, k.num(0.390625), near, far))
}

// tail is erfc(|x|)/e^(−x²), by Abramowitz and Stegun 7.1.26; rate is the formula's
// p = 0.3275911, or scaled if x is.
func (k *kernel) tail(x *value, rate float64) *value {
	t := k.inverse(k.fma(k.abs(x), k.num(rate), k.num(1)))
	return k.mul(k.poly(t, 1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592), t)
}

func erf(k *kernel) {
	x := k.in(0)
	z := k.mul(x, x)
	e := k.exp(k.neg(z))
	far := k.fnma(k.tail(x, 0.3275911), e, k.num(1))
	far = k.or(far, k.and(x, k.bits(1<<31)))
	near := k.poly(z, 7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2, 1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710)
	k.out(0, k.less(z, k.num(1), k.mul(near, x), far))
}

// normal is Φ(x) and e^(−x²/2).
func (k *kernel) normal(x *value) (phi, e *value) {
	e = k.exp(k.mul(k.mul(x, k.num(-0.5)), x))
	q := k.mul(k.mul(k.tail(x, 0.3275911/math.Sqrt2), k.num(0.5)), e)
	return k.less(k.num(0), x, k.fnma(q, k.num(1), k.num(1)), q), e
}

// geluInner is −2u.
func (k *kernel) geluInner(x *value) *value {
	return k.mul(k.poly(k.mul(x, x), -2*gelu.Scale*gelu.Cubic, -2*gelu.Scale), x)
}
