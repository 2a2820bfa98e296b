package f32

// Depthwise convolutions have too few terms for a matrix product, and are computed line by line.

// single reports whether the convolution is depthwise.
func (c *Convolution) single() bool { return c.Inner == 1 && c.Outer == 1 }

// channel returns the parts of x, w and y for channel i, numbered over all images.
func (c *Convolution) channel(i int, x, w, y []float32) (xi, wi, yi []float32) {
	ins, taps, outs, g := Volume(c.In), Volume(c.Kernel), Volume(c.Out), i%c.Group
	return x[i*ins : (i+1)*ins], w[g*taps : (g+1)*taps], y[i*outs : (i+1)*outs]
}

// channels calls f for every channel of every image.
func (c *Convolution) channels(par Parallel, f func(i int)) {
	par(c.N*c.Group, 1+Grain/4/max(1, Volume(c.Out)*Volume(c.Kernel)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

// startWith initializes a channel with its bias.
func (c *Convolution) startWith(y, bias []float32, i int) {
	clear(y)
	if bias != nil {
		Fill(y, bias[i%c.Group])
	}
}

func (c *Convolution) singleForward(par Parallel, x, w, bias, y []float32) {
	c.channels(par, func(i int) {
		x, w, y := c.channel(i, x, w, y)
		c.startWith(y, bias, i)
		c.Lines(func(out, in, tap, n, step int) {
			y, x, w := y[out:out+n], x[in:], w[tap]
			for k := range y {
				y[k] += w * x[k*step]
			}
		})
	})
}

func (c *Convolution) singleBackward(par Parallel, y, w, bias, x []float32) {
	c.channels(par, func(i int) {
		x, w, y := c.channel(i, x, w, y)
		c.startWith(x, bias, i)
		c.Lines(func(out, in, tap, n, step int) {
			y, x, w := y[out:out+n], x[in:], w[tap]
			for k, v := range y {
				x[k*step] += w * v
			}
		})
	})
}

// singleFilters sums over the images in order; workers divide the channels.
func (c *Convolution) singleFilters(par Parallel, x, y, w []float32) {
	par(c.Group, 1, func(lo, hi int) {
		sum := make([]float64, Volume(c.Kernel))
		for g := lo; g < hi; g++ {
			clear(sum)
			for n := range c.N {
				x, _, y := c.channel(n*c.Group+g, x, w, y)
				c.Lines(func(out, in, tap, n, step int) {
					y, x, s := y[out:out+n], x[in:], 0.0
					for k, v := range y {
						s += float64(v) * float64(x[k*step])
					}
					sum[tap] += s
				})
			}
			for t, s := range sum {
				w[g*len(sum)+t] = float32(s)
			}
		}
	})
}
