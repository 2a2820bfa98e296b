package kernels

// The quick convolutions are matrix products. The matrix of an image, with a
// row for each channel and tap and a column for each position, never exists:
// its elements are picked from the image while panels are packed.

// columns is that matrix as an operand, for all images, one behind the other:
// for positions on one side, what the taps see of an image on the other.
type columns struct {
	*convolution
	images []float32 // each [channels, in…], or [channels, out…] if back
	step   int       // from one image to the next
	back   bool      // positions are of x and the images are of y
	taps   bool      // the outer index is channel and tap, positions are summed over
	look   *outlook  // what packs it on AVX-512
}

// newColumns is for images that are still to be named.
func newColumns(c *convolution, step int, back, taps bool) columns {
	m := columns{convolution: c, step: step, back: back, taps: taps}
	if wide() && c.stride[2] <= 2 {
		m.look = newOutlook(c, back)
	}
	return m
}

// of is the same for these images.
func (m columns) of(images []float32) *columns {
	m.images = images
	return &m
}

func (m *columns) pack(dst []float32, i0, i1, p0, p1, w int) {
	if i1-i0 < w {
		clear(dst[:(p1-p0)*w])
	}
	switch {
	case m.look != nil && m.taps:
		m.turnWide(dst, i0, i1, p0, p1, w)
		return
	case m.look != nil && w%16 == 0:
		m.packWide(dst, i0, i1, p0, p1, w)
		return
	case !m.taps:
		m.fill(dst, p0, p1, i0, i1, w)
		return
	}
	// What a tap sees lies together. It is brought to columns after.
	rows := tapRows.get()
	m.fill(rows[:], i0, i1, p0, p1, p1-p0)
	packRows(dst, rows[:], i1-i0, p1-p0, p1-p0, w)
	tapRows.put(rows)
}

var tapRows workspace[[maxCols * blockK]float32]

// fill writes rows [r0, r1) (channel and tap) and positions [q0, q1): element
// (r, q) goes to (r − r0)·ld + q − q0. What a tap sees of a run of positions on
// one line is found once for all channels.
func (m *columns) fill(dst []float32, r0, r1, q0, q1, ld int) {
	positions, seen := m.out, m.in
	if m.back {
		positions, seen = m.in, m.out
	}
	taps, size, all := volume(m.kernel), volume(seen), volume(positions)
	if m.stride == ones && positions == seen {
		m.shifted(dst, r0, r1, q0, q1, ld)
		return
	}
	for q := q0; q < q1; {
		image, at := m.images[q/all*m.step:], q%all
		x := at % positions[2]
		n := min(positions[2]-x, q1-q)
		y, z := at/positions[2]%positions[1], at/positions[2]/positions[1]
		for first := r0; first < min(r0+taps, r1); first++ {
			tap := first % taps
			sz, okZ := m.sees(0, z, tap/(m.kernel[1]*m.kernel[2]), seen[0])
			sy, okY := m.sees(1, y, tap/m.kernel[2]%m.kernel[1], seen[1])
			var s span
			if okZ && okY {
				s = m.span(x, n, tap%m.kernel[2], seen[2])
				s.from += (sz*seen[1] + sy) * seen[2]
			}
			for r := first; r < r1; r += taps {
				s.copy(dst[(r-r0)*ld+q-q0:], image[r/taps*size:], n)
			}
		}
		q += n
	}
}

// shifted is fill where both sides are alike: a tap sees the whole image, moved
// by so many elements, but for the positions that it moves beyond an edge.
func (m *columns) shifted(dst []float32, r0, r1, q0, q1, ld int) {
	taps, size, line := volume(m.kernel), volume(m.in), m.in[2]
	var room [64][2]int
	for q := q0; q < q1; {
		image, at := m.images[q/size*m.step:], q%size
		n := min(size-at, q1-q)
		for first := r0; first < min(r0+taps, r1); first++ {
			tap := first % taps
			var by [3]int
			for axis, k := range [3]int{tap / (m.kernel[1] * m.kernel[2]), tap / m.kernel[2] % m.kernel[1], tap % m.kernel[2]} {
				if by[axis] = m.from(axis, 0, k); m.back {
					by[axis] = -by[axis]
				}
			}
			move := (by[0]*m.in[1]+by[1])*line + by[2]
			lo := min(n, max(0, -at-move))
			hi := max(lo, min(n, size-at-move))
			blind := m.blind(room[:0], at, n, by)
			to, channels := dst[(first-r0)*ld+q-q0:], ceilDiv(r1-first, taps)
			if lo < hi {
				copyRows(to[lo:], image[first/taps*size+at+lo+move:], channels, hi-lo, taps*ld, size)
			}
			for _, b := range blind { // mostly one at an edge
				for ; b[0] < b[1]; b[0]++ {
					for i, k := 0, b[0]; i < channels; i, k = i+1, k+taps*ld {
						to[k] = 0
					}
				}
			}
		}
		q += n
	}
}

// blind appends the ranges of n positions from at on that see nothing through
// a tap that looks so far along each axis.
func (m *columns) blind(list [][2]int, at, n int, by [3]int) [][2]int {
	line := m.in[2]
	for i := 0; i < n; {
		x, y, z := (at+i)%line, (at+i)/line%m.in[1], (at+i)/line/m.in[1]
		end := min(n, i+line-x)
		if z += by[0]; z < 0 || z >= m.in[0] {
			list = append(list, [2]int{i, end})
		} else if y += by[1]; y < 0 || y >= m.in[1] {
			list = append(list, [2]int{i, end})
		} else {
			if left := min(end, i-x-by[2]); left > i {
				list = append(list, [2]int{i, left})
			}
			if right := max(i, i-x+line-by[2]); right < end {
				list = append(list, [2]int{right, end})
			}
		}
		i = end
	}
	return list
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

// span is what a tap sees of a run of positions: count elements of the image,
// fromStep apart from from on, at every toStep-th position from to on. The
// other positions see nothing.
type span struct{ to, toStep, from, fromStep, count int }

// span of n positions from x on, on a line of an image that is so long.
func (m *columns) span(x, n, k, length int) span {
	stride := m.stride[2]
	if !m.back {
		first := m.from(2, x, k)
		lo := ceilDiv(max(0, -first), stride)
		hi := min(n, ceilDiv(max(0, length-first), stride))
		return span{lo, 1, first + lo*stride, stride, max(0, hi-lo)}
	}
	// Every stride-th position of x is connected.
	first := x + m.pad[2] - k*m.dilation[2]
	lo := max(0, -first)
	lo += (stride - (first+lo)%stride) % stride
	from := (first + lo) / stride
	return span{lo, stride, from, 1, max(0, min(ceilDiv(n-lo, stride), length-from))}
}

// copy brings what is seen to n positions.
func (s span) copy(dst, image []float32, n int) {
	if s.count < n {
		clear(dst[:n])
	}
	if s.count == 0 {
		return
	}
	if s.toStep == 1 && s.fromStep == 1 {
		copy(dst[s.to:], image[s.from:s.from+s.count])
		return
	}
	from, to := s.from, s.to
	if s.toStep == 1 {
		dst, image = dst[to:to+s.count], image[from:]
		at := 0
		for i := range dst {
			dst[i] = image[at]
			at += s.fromStep
		}
		return
	}
	for range s.count {
		dst[to] = image[from]
		from, to = from+s.fromStep, to+s.toStep
	}
}

// copyRows copies so many rows of n elements, which lie apart on both sides.
func copyRows(dst, src []float32, rows, n, dstStep, srcStep int) {
	if vectors && n >= 8 {
		copyRows8(dst, src, rows, n, dstStep, srcStep)
		return
	}
	for i := range rows {
		copy(dst[i*dstStep:][:n], src[i*srcStep:])
	}
}

// turned is the filters of a group, [outer, inner, taps], as an operand: the
// outer index is inner, and outer and taps are summed over.
type turned struct {
	data        []float32
	inner, taps int
	of          []int // the taps that take part; nil: all
}

func (t turned) pack(dst []float32, i0, i1, p0, p1, w int) {
	if i1-i0 < w {
		clear(dst[:(p1-p0)*w])
	}
	if wide() && t.taps > 1 && (t.of == nil || t.taps <= mostTaps) && w <= 16 {
		t.turnTaps(dst, i0, i1, p0, p1, w)
		return
	}
	for p := p0; p < p1; p++ {
		outer, tap := p/t.taps, p%t.taps
		if t.of != nil {
			outer, tap = p/len(t.of), t.of[p%len(t.of)]
		}
		src := t.data[(outer*t.inner+i0)*t.taps+tap:]
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
	part   func(i int) dense
}

func (s stacked) pack(dst []float32, i0, i1, p0, p1, w int) {
	for p := p0; p < p1; {
		end := min(p1, (p/s.length+1)*s.length)
		base := p / s.length * s.length
		s.part(p/s.length).pack(dst[(p-p0)*w:], i0, i1, p-base, end-base, w)
		p = end
	}
}

// fast computes one side from the other in one product for each group, over
// the positions of all images: channels of the side, size positions each,
// depth products for every element.
func (c *convolution) fast(par parallel, dst, bias []float32, channels, size, depth int, a func(g int) operand, b func(g int) operand) {
	for i := range c.n * c.group * channels {
		if bias == nil {
			break
		}
		fillWith(dst[i*size:(i+1)*size], bias[i%(c.group*channels)])
	}
	one := func(par parallel, g int) {
		to := result{dst[g*channels*size:], size, size, c.group * channels * size, nil}
		tiles[0].multiply(par, channels, c.n*size, depth, a(g), b(g), to, bias != nil)
	}
	work := channels * c.n * size * depth
	if c.group == 1 || work >= aWhole {
		for g := range c.group {
			one(par, g)
		}
		return
	}
	par(c.group, 1+16*grain/max(1, work), func(lo, hi int) {
		for g := lo; g < hi; g++ {
			one(serial, g)
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
	columns := newColumns(c, c.group*size, false, false)
	c.fast(par, y, bias, c.outer, volume(c.out), depth,
		func(g int) operand { return dense{w[g*c.outer*depth:], depth, 1, 1} },
		func(g int) operand { return columns.of(x[g*size:]) })
}

func (c *convolution) fastBackward(par parallel, y, w, bias, x []float32) {
	if c.single() {
		c.singleBackward(par, y, w, bias, x)
		return
	}
	if c.stride != ones {
		c.phases(par, y, w, bias, x)
		return
	}
	taps, size := volume(c.kernel), c.outer*volume(c.out)
	columns := newColumns(c, c.group*size, true, false)
	c.fast(par, x, bias, c.inner, volume(c.in), c.outer*taps,
		func(g int) operand { return turned{w[g*c.outer*c.inner*taps:], c.inner, taps, nil} },
		func(g int) operand { return columns.of(y[g*size:]) })
}

// fastFilters sums over the positions of all images in one product.
func (c *convolution) fastFilters(par parallel, x, y, w []float32) {
	if c.single() {
		c.singleFilters(par, x, y, w)
		return
	}
	depth, xs, ys := c.inner*volume(c.kernel), c.inner*volume(c.in), c.outer*volume(c.out)
	columns := newColumns(c, c.group*xs, false, true)
	for g := range c.group {
		multiply(par, c.outer, depth, c.n*volume(c.out),
			stacked{volume(c.out), func(i int) dense { return dense{y[(i*c.group+g)*ys:], volume(c.out), 1, 1} }},
			columns.of(x[g*xs:]),
			w[g*c.outer*depth:], depth, false)
	}
}

// phases is the way back where strides leave gaps: positions of x that are
// whole strides apart see the same taps, so each such phase is a convolution
// without stride over its own taps, and nothing is multiplied by the gaps.
func (c *convolution) phases(par parallel, y, w, bias, x []float32) {
	size, taps := volume(c.in), volume(c.kernel)
	if bias == nil {
		clear(x) // a phase may see no tap at all
	}
	for i := range c.n * c.group * c.inner {
		if bias == nil {
			break
		}
		fillWith(x[i*size:(i+1)*size], bias[i%(c.group*c.inner)])
	}
	for phase := range volume(c.stride) {
		at := [3]int{phase / (c.stride[1] * c.stride[2]), phase / c.stride[2] % c.stride[1], phase % c.stride[2]}
		p, of, spots := c.phase(at)
		if len(of) == 0 || len(spots) == 0 {
			continue
		}
		columns := newColumns(p, c.group*c.outer*volume(c.out), true, false)
		for g := range c.group {
			to := result{x[g*c.inner*size:], size, len(spots), c.group * c.inner * size, spots}
			tiles[0].multiply(par, c.inner, c.n*len(spots), c.outer*len(of),
				turned{w[g*c.outer*c.inner*taps:], c.inner, taps, of},
				columns.of(y[g*c.outer*volume(c.out):]), to, bias != nil)
		}
	}
}

// phase is the convolution that the positions at, at + stride, … of x take part
// in, the taps that they see, and where they are.
func (c *convolution) phase(at [3]int) (p *convolution, of, spots []int) {
	q := *c
	q.stride = ones
	var seen [3][]int // taps of an axis
	for a := range 3 {
		q.in[a] = max(0, ceilDiv(c.in[a]-at[a], c.stride[a]))
		for k := range c.kernel[a] {
			if (at[a]+c.pad[a]-k*c.dilation[a])%c.stride[a] == 0 {
				seen[a] = append(seen[a], k)
			}
		}
		if q.kernel[a] = len(seen[a]); q.kernel[a] == 0 {
			return &q, nil, nil
		}
		// Position u sees output u + pad − j·dilation by the j-th of them.
		output := func(j int) int { return (at[a] + c.pad[a] - seen[a][j]*c.dilation[a]) / c.stride[a] }
		q.pad[a], q.dilation[a] = output(0), 0
		if len(seen[a]) > 1 {
			q.dilation[a] = output(0) - output(1)
		}
	}
	for _, z := range seen[0] {
		for _, y := range seen[1] {
			for _, x := range seen[2] {
				of = append(of, (z*c.kernel[1]+y)*c.kernel[2]+x)
			}
		}
	}
	for z := range q.in[0] {
		for y := range q.in[1] {
			for x := range q.in[2] {
				spots = append(spots, ((at[0]+z*c.stride[0])*c.in[1]+at[1]+y*c.stride[1])*c.in[2]+at[2]+x*c.stride[2])
			}
		}
	}
	return &q, of, spots
}
