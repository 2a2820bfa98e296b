package kernels

import "memopt/memopt/graph"

// convolution is what Conv, its gradients and ConvTranspose have in common:
// the side x is [N, group·inner, in…], the side y is [N, group·outer, out…],
// the filters are [group·outer, inner, kernel…]. Output o of an axis is
// connected to input o·stride + k·dilation − pad by tap k. Each operator
// computes one of the three from the two others. There are always three
// spatial axes, the first ones of length 1 if need be.
type convolution struct {
	n, group, inner, outer int
	in, out                [3]int
	kernel, stride         [3]int
	dilation, pad          [3]int
}

func newConvolution(w window, group int, x, filter, y []int) convolution {
	c := convolution{n: x[0], group: group, inner: filter[1], outer: filter[0] / group,
		in: ones, out: ones, kernel: ones, stride: ones, dilation: ones}
	for i := range w.kernel {
		a := 3 - len(w.kernel) + i
		c.in[a], c.out[a], c.kernel[a] = x[2+i], y[2+i], w.kernel[i]
		c.stride[a], c.dilation[a], c.pad[a] = w.strides[i], w.dilations[i], w.before(i, x[2+i])
	}
	return c
}

var ones = [3]int{1, 1, 1}

func volume(d [3]int) int { return d[0] * d[1] * d[2] }

// from is the input that tap k connects output o of an axis to; it may lie
// outside.
func (c *convolution) from(axis, o, k int) int {
	return o*c.stride[axis] + k*c.dilation[axis] - c.pad[axis]
}

// pairs calls f for every output position and tap that meet inside the input,
// with the offsets in the three blocks.
func (c *convolution) pairs(f func(in, out, tap int)) {
	for o := range volume(c.out) {
		oz, oy, ox := o/(c.out[1]*c.out[2]), o/c.out[2]%c.out[1], o%c.out[2]
		for t := range volume(c.kernel) {
			z := c.from(0, oz, t/(c.kernel[1]*c.kernel[2]))
			y := c.from(1, oy, t/c.kernel[2]%c.kernel[1])
			x := c.from(2, ox, t%c.kernel[2])
			if z >= 0 && z < c.in[0] && y >= 0 && y < c.in[1] && x >= 0 && x < c.in[2] {
				f((z*c.in[1]+y)*c.in[2]+x, o, t)
			}
		}
	}
}

// lines calls f for every output line and tap that meet inside the input: n
// outputs from offset out on see inputs from in on, step apart. The taps of an
// output come in order.
func (c *convolution) lines(f func(out, in, tap, n, step int)) {
	step := c.stride[2]
	for o := range c.out[0] * c.out[1] {
		for t := range volume(c.kernel) {
			z := c.from(0, o/c.out[1], t/(c.kernel[1]*c.kernel[2]))
			y := c.from(1, o%c.out[1], t/c.kernel[2]%c.kernel[1])
			if z < 0 || z >= c.in[0] || y < 0 || y >= c.in[1] {
				continue
			}
			first := c.from(2, 0, t%c.kernel[2])
			lo := ceilDiv(max(0, -first), step)
			n := min(c.out[2], ceilDiv(max(0, c.in[2]-first), step)) - lo
			if n > 0 {
				f(o*c.out[2]+lo, (z*c.in[1]+y)*c.in[2]+first+lo*step, t, n, step)
			}
		}
	}
}

// plain is the reference of all: it adds a·b for everything that is connected,
// to the one of x, w and y that is sum.
func (c *convolution) plain(sum []float64, f func(x, w, y int) (at int, v float64)) {
	ins, outs, taps := volume(c.in), volume(c.out), volume(c.kernel)
	for n := range c.n {
		for o := range c.group * c.outer {
			g := o / c.outer
			for i := range c.inner {
				x, w, y := ((n*c.group+g)*c.inner+i)*ins, (o*c.inner+i)*taps, (n*c.group*c.outer+o)*outs
				c.pairs(func(in, out, tap int) {
					at, v := f(x+in, w+tap, y+out)
					sum[at] += v
				})
			}
		}
	}
}

// forward is y from x and the filters.
func (c *convolution) forward(x, w, bias, y *graph.Tensor) {
	sum := make([]float64, y.Len())
	c.plain(sum, func(xi, wi, yi int) (int, float64) { return yi, x.Float(xi) * w.Float(wi) })
	setSums(y, sum, bias, c.group*c.outer, volume(c.out))
}

// backward is x from y and the filters: the gradient of x, and ConvTranspose.
func (c *convolution) backward(y, w, bias, x *graph.Tensor) {
	sum := make([]float64, x.Len())
	c.plain(sum, func(xi, wi, yi int) (int, float64) { return xi, y.Float(yi) * w.Float(wi) })
	setSums(x, sum, bias, c.group*c.inner, volume(c.in))
}

// filters is the gradient of the filters from x and y.
func (c *convolution) filters(x, y, w *graph.Tensor) {
	sum := make([]float64, w.Len())
	c.plain(sum, func(xi, wi, yi int) (int, float64) { return wi, x.Float(xi) * y.Float(yi) })
	setSums(w, sum, nil, 1, 1)
}

// setSums stores sums, with the bias of each channel.
func setSums(t *graph.Tensor, sum []float64, bias *graph.Tensor, channels, each int) {
	for i, s := range sum {
		if bias != nil {
			s += bias.Float(i / each % channels)
		}
		t.SetFloat(i, s)
	}
}
