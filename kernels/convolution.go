package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// convolution is the geometry of Conv, its gradients and ConvTranspose, with their
// reference implementation.
type convolution struct{ lower.Convolution }

func newConvolution(w window, group int, x, filter, y []int) convolution {
	c := convolution{lower.Convolution{Convolution: f32.Convolution{N: x[0], Group: group, Inner: filter[1], Outer: filter[0] / group,
		In: f32.Ones, Out: f32.Ones, Kernel: f32.Ones, Stride: f32.Ones, Dilation: f32.Ones}}}
	for i := range w.kernel {
		a := 3 - len(w.kernel) + i
		c.In[a], c.Out[a], c.Kernel[a] = x[2+i], y[2+i], w.kernel[i]
		c.Stride[a], c.Dilation[a], c.Pad[a] = w.strides[i], w.dilations[i], w.before(i, x[2+i])
	}
	return c
}

// pairs calls f for every output position and filter tap whose input position is not
// padding, with the offsets of the three.
func (c *convolution) pairs(f func(in, out, tap int)) {
	for o := range f32.Volume(c.Out) {
		oz, oy, ox := o/(c.Out[1]*c.Out[2]), o/c.Out[2]%c.Out[1], o%c.Out[2]
		for t := range f32.Volume(c.Kernel) {
			z := c.From(0, oz, t/(c.Kernel[1]*c.Kernel[2]))
			y := c.From(1, oy, t/c.Kernel[2]%c.Kernel[1])
			x := c.From(2, ox, t%c.Kernel[2])
			if z >= 0 && z < c.In[0] && y >= 0 && y < c.In[1] && x >= 0 && x < c.In[2] {
				f((z*c.In[1]+y)*c.In[2]+x, o, t)
			}
		}
	}
}

// plain is the reference of all sides: for every x, w and y that are connected, f returns
// the element of sum and the product to add to it.
func (c *convolution) plain(sum []float64, f func(x, w, y int) (at int, v float64)) {
	ins, outs, taps := f32.Volume(c.In), f32.Volume(c.Out), f32.Volume(c.Kernel)
	for n := range c.N {
		for o := range c.Group * c.Outer {
			g := o / c.Outer
			for i := range c.Inner {
				x, w, y := ((n*c.Group+g)*c.Inner+i)*ins, (o*c.Inner+i)*taps, (n*c.Group*c.Outer+o)*outs
				c.pairs(func(in, out, tap int) {
					at, v := f(x+in, w+tap, y+out)
					sum[at] += v
				})
			}
		}
	}
}

// forward computes y from x and the filters.
func (c *convolution) forward(x, w, bias, y *graph.Tensor) {
	sum := make([]float64, y.Len())
	c.plain(sum, func(xi, wi, yi int) (int, float64) { return yi, x.Float(xi) * w.Float(wi) })
	setSums(y, sum, bias, c.Group*c.Outer, f32.Volume(c.Out))
}

// backward computes x from y and the filters: the gradient of x, or ConvTranspose.
func (c *convolution) backward(y, w, bias, x *graph.Tensor) {
	sum := make([]float64, x.Len())
	c.plain(sum, func(xi, wi, yi int) (int, float64) { return xi, y.Float(yi) * w.Float(wi) })
	setSums(x, sum, bias, c.Group*c.Inner, f32.Volume(c.In))
}

// filters computes the gradient of the filters from x and y.
func (c *convolution) filters(x, y, w *graph.Tensor) {
	sum := make([]float64, w.Len())
	c.plain(sum, func(xi, wi, yi int) (int, float64) { return wi, x.Float(xi) * y.Float(yi) })
	setSums(w, sum, nil, 1, 1)
}

// setSums stores sums, plus the bias of the channel.
func setSums(t *graph.Tensor, sum []float64, bias *graph.Tensor, channels, each int) {
	for i, s := range sum {
		if bias != nil {
			s += bias.Float(i / each % channels)
		}
		t.SetFloat(i, s)
	}
}
