package kernels

// The quick convolutions are matrix products. The matrix of an image, with a
// row for each channel and tap and a column for each position, never exists:
// its elements are picked from the image while panels are packed.

// columns is that matrix as an operand: for positions on one side, what the
// taps see of an image on the other.
type columns struct {
	*convolution
	image []float32 // [channels, in…], or [channels, out…] if back
	back  bool      // positions are of x and the image is of y
	taps  bool      // the outer index is channel and tap, positions are summed over
}

func (m *columns) pack(dst []float32, i0, i1, p0, p1, w int) {
	if i1-i0 < w {
		clear(dst[:(p1-p0)*w])
	}
	if m.taps {
		m.fill(dst, i0, i1, p0, p1, 1, w)
	} else {
		m.fill(dst, p0, p1, i0, i1, w, 1)
	}
}

// fill writes rows [r0, r1) (channel and tap) and positions [q0, q1): element
// (r, q) goes to (r − r0)·rs + (q − q0)·qs.
func (m *columns) fill(dst []float32, r0, r1, q0, q1, rs, qs int) {
	positions, seen := m.out, m.in
	if m.back {
		positions, seen = m.in, m.out
	}
	taps, size := volume(m.kernel), volume(seen)
	for q := q0; q < q1; {
		// A run of positions on one line.
		x := q % positions[2]
		n := min(positions[2]-x, q1-q)
		y, z := q/positions[2]%positions[1], q/positions[2]/positions[1]
		tap := r0 % taps
		kz, ky, kx := tap/(m.kernel[1]*m.kernel[2]), tap/m.kernel[2]%m.kernel[1], tap%m.kernel[2]
		image := m.image[r0/taps*size:]
		for r := r0; r < r1; r++ {
			at := dst[(r-r0)*rs+(q-q0)*qs:]
			sz, okZ := m.sees(0, z, kz, seen[0])
			sy, okY := m.sees(1, y, ky, seen[1])
			switch {
			case !okZ || !okY:
				zeros(at, n, qs)
			case m.back:
				m.lineBack(at, image[(sz*seen[1]+sy)*seen[2]:][:seen[2]], x, n, kx, qs)
			default:
				m.line(at, image[(sz*seen[1]+sy)*seen[2]:][:seen[2]], x, n, kx, qs)
			}
			// The next tap, without divisions.
			if kx++; kx < m.kernel[2] {
				continue
			}
			kx = 0
			if ky++; ky < m.kernel[1] {
				continue
			}
			ky = 0
			if kz++; kz < m.kernel[0] {
				continue
			}
			kz, image = 0, image[min(size, len(image)):]
		}
		q += n
	}
}

// sees is where position o of an axis lands through tap k, if inside.
func (m *columns) sees(axis, o, k, size int) (int, bool) {
	var i int
	if m.back {
		i = o + m.pad[axis] - k*m.dilation[axis]
		if stride := m.stride[axis]; stride > 1 {
			if i < 0 || i%stride != 0 {
				return 0, false
			}
			i /= stride
		}
	} else {
		i = m.from(axis, o, k)
	}
	return i, i >= 0 && i < size
}

// line fills n positions from x on with what tap k sees of a line.
func (m *columns) line(dst, line []float32, x, n, k, qs int) {
	stride, first := m.stride[2], m.from(2, x, k)
	// Positions [lo, hi) are inside.
	lo := min(n, ceilDiv(max(0, -first), stride))
	hi := max(lo, min(n, ceilDiv(max(0, len(line)-first), stride)))
	zeros(dst, lo, qs)
	if stride == 1 && qs == 1 {
		if lo < hi {
			copy(dst[lo:hi], line[first+lo:])
		}
	} else {
		for i, at := lo, first+lo*stride; i < hi; i, at = i+1, at+stride {
			dst[i*qs] = line[at]
		}
	}
	if hi < n {
		zeros(dst[hi*qs:], n-hi, qs)
	}
}

// lineBack is line for positions of x: every stride-th one is connected.
func (m *columns) lineBack(dst, line []float32, x, n, k, qs int) {
	stride, first := m.stride[2], x+m.pad[2]-k*m.dilation[2]
	if stride == 1 {
		lo := min(n, max(0, -first))
		hi := max(lo, min(n, len(line)-first))
		zeros(dst, lo, qs)
		if qs == 1 && lo < hi {
			copy(dst[lo:hi], line[first+lo:])
		} else {
			for i := lo; i < hi; i++ {
				dst[i*qs] = line[first+i]
			}
		}
		if hi < n {
			zeros(dst[hi*qs:], n-hi, qs)
		}
		return
	}
	zeros(dst, n, qs)
	i := max(0, -first)
	i += (stride - (first+i)%stride) % stride
	for at := (first + i) / stride; i < n && at < len(line); i, at = i+stride, at+1 {
		dst[i*qs] = line[at]
	}
}

func zeros(dst []float32, n, step int) {
	if step == 1 {
		clear(dst[:n])
		return
	}
	for i := range n {
		dst[i*step] = 0
	}
}

// turned is the filters of a group, [outer, inner, taps], as an operand: the
// outer index is inner, and outer and taps are summed over.
type turned struct {
	data        []float32
	inner, taps int
}

func (t turned) pack(dst []float32, i0, i1, p0, p1, w int) {
	if i1-i0 < w {
		clear(dst[:(p1-p0)*w])
	}
	for p := p0; p < p1; p++ {
		src := t.data[(p/t.taps*t.inner+i0)*t.taps+p%t.taps:]
		row := dst[(p-p0)*w:][:i1-i0]
		for i := range row {
			row[i] = src[i*t.taps]
		}
	}
}

// stacked joins operands along the index that is summed over, each of the same
// length.
type stacked struct {
	length int
	part   func(i int) operand
}

func (s stacked) pack(dst []float32, i0, i1, p0, p1, w int) {
	for p := p0; p < p1; {
		end := min(p1, (p/s.length+1)*s.length)
		base := p / s.length * s.length
		s.part(p/s.length).pack(dst[(p-p0)*w:], i0, i1, p-base, end-base, w)
		p = end
	}
}

// fast computes one side from the other for each image and group: channels of
// it, size positions each, taps·depth products for every element.
func (c *convolution) fast(par parallel, dst, bias []float32, channels, size, depth int, a func(g int) operand, b func(image int) operand) {
	images := c.n * c.group
	one := func(par parallel, image int) {
		g := image % c.group
		y := dst[image*channels*size : (image+1)*channels*size]
		for i := range channels {
			if bias != nil {
				fillWith(y[i*size:(i+1)*size], bias[g*channels+i])
			}
		}
		multiply(par, channels, size, depth, a(g), b(image), y, size, bias != nil)
	}
	work := channels * size * depth
	if images == 1 || work >= aWhole {
		for i := range images {
			one(par, i)
		}
		return
	}
	par(images, 1+16*grain/max(1, work), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			one(serial, i)
		}
	})
}

func fillWith(y []float32, v float32) {
	for i := range y {
		y[i] = v
	}
}

func (c *convolution) fastForward(par parallel, x, w, bias, y []float32) {
	if c.single() {
		c.singleForward(par, x, w, bias, y)
		return
	}
	depth, size := c.inner*volume(c.kernel), c.inner*volume(c.in)
	c.fast(par, y, bias, c.outer, volume(c.out), depth,
		func(g int) operand { return dense{w[g*c.outer*depth:], depth, 1, 1} },
		func(i int) operand { return &columns{c, x[i*size : (i+1)*size], false, false} })
}

func (c *convolution) fastBackward(par parallel, y, w, bias, x []float32) {
	if c.single() {
		c.singleBackward(par, y, w, bias, x)
		return
	}
	taps, size := volume(c.kernel), c.outer*volume(c.out)
	c.fast(par, x, bias, c.inner, volume(c.in), c.outer*taps,
		func(g int) operand { return turned{w[g*c.outer*c.inner*taps:], c.inner, taps} },
		func(i int) operand { return &columns{c, y[i*size : (i+1)*size], true, false} })
}

// fastFilters sums over the positions of all images in one product.
func (c *convolution) fastFilters(par parallel, x, y, w []float32) {
	if c.single() {
		c.singleFilters(par, x, y, w)
		return
	}
	depth, xs, ys := c.inner*volume(c.kernel), c.inner*volume(c.in), c.outer*volume(c.out)
	for g := range c.group {
		multiply(par, c.outer, depth, c.n*volume(c.out),
			stacked{volume(c.out), func(i int) operand { return dense{y[(i*c.group+g)*ys:], volume(c.out), 1, 1} }},
			stacked{volume(c.out), func(i int) operand {
				return &columns{c, x[(i*c.group+g)*xs : (i*c.group+g+1)*xs], false, true}
			}},
			w[g*c.outer*depth:], depth, false)
	}
}
