package f32

import (
	"math"
	"unsafe"
)

// Update rules of optimizers: p and its states are updated in place from scale times the gradient g.

// SGD is p − lr·(scale·g + wd·p).
func SGD(p, g []float32, lr, scale, wd float32) {
	g = g[:len(p)]
	if vectors {
		a := mapping2(p, p, g)
		a.scalars = [10]float32{1 - lr*wd, lr * scale}
		a.sgd(len(p))
		return
	}
	for i, x := range p {
		p[i] = x - lr*(scale*g[i]+wd*x)
	}
}

// Momentum is buf = old·buf + keep·d with d = scale·g + wd·p, and p − lr·buf.
func Momentum(p, g, buf []float32, scale, wd, old, keep, lr float32) {
	g, buf = g[:len(p)], buf[:len(p)]
	if vectors {
		a := mapping2(p, p, g)
		a.in[2], a.out[1] = unsafe.SliceData(buf), unsafe.SliceData(buf)
		a.scalars = [10]float32{scale, wd, old, keep, lr}
		a.momentum(len(p))
		return
	}
	for i, x := range p {
		b := old*buf[i] + keep*(scale*g[i]+wd*x)
		buf[i] = b
		p[i] = x - lr*b
	}
}

// Nesterov is Momentum with p − lr·(d + mu·buf).
func Nesterov(p, g, buf []float32, scale, wd, old, keep, mu, lr float32) {
	g, buf = g[:len(p)], buf[:len(p)]
	for i, x := range p {
		d := scale*g[i] + wd*x
		b := old*buf[i] + keep*d
		buf[i] = b
		p[i] = x - lr*(d+mu*b)
	}
}

// Adam takes d = scale·g + decay·p into the means m of d and v of d², and p to
// shrink·p − step·m/(√v·inv + eps).
func Adam(p, g, m, v []float32, scale, decay, keep1, beta2, keep2, inv, eps, shrink, step float32) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	if vectors {
		a := mapping2(p, p, g)
		a.in[2], a.in[3] = unsafe.SliceData(m), unsafe.SliceData(v)
		a.out[1], a.out[2] = a.in[2], a.in[3]
		a.scalars = [10]float32{scale, decay, keep1, beta2, keep2, inv, eps, shrink, step}
		a.adam(len(p))
		return
	}
	for i, x := range p {
		d := scale*g[i] + decay*x
		a := m[i] + keep1*(d-m[i])
		b := beta2*v[i] + keep2*d*d
		m[i], v[i] = a, b
		p[i] = x*shrink - step*a/(float32(math.Sqrt(float64(b)))*inv+eps)
	}
}
