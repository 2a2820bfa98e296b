package f32

// Convolutions as matrix products (implicit im2col). The matrix of an image, with a row for each
// channel and tap and a column for each position, is never stored: its elements are gathered from
// the image while panels are packed.

// Convolution is the geometry of a convolution and its gradients: x is [N, group·inner, in…], y is
// [N, group·outer, out…], the filters are [group·outer, inner, kernel…]. Tap k connects output o
// of an axis to input o·stride + k·dilation − pad. Forward, Backward and Filters compute one of
// the three from the other two. There are always three spatial axes; missing ones have length 1.
type Convolution struct {
	N, Group, Inner, Outer int
	In, Out                [3]int
	Kernel, Stride         [3]int
	Dilation, Pad          [3]int
}

// Ones is stride or dilation 1 along all axes.
var Ones = [3]int{1, 1, 1}

// Volume is the number of positions in a box.
func Volume(d [3]int) int { return d[0] * d[1] * d[2] }

// From is the input position that tap k connects output o of an axis to; it may be in the padding.
func (c *Convolution) From(axis, o, k int) int {
	return o*c.Stride[axis] + k*c.Dilation[axis] - c.Pad[axis]
}

// Lines calls f for every output line and tap: n outputs from offset out on are connected to inputs
// from offset in on, at stride step. Padding is left out. The taps of an output come in order.
func (c *Convolution) Lines(f func(out, in, tap, n, step int)) {
	step := c.Stride[2]
	for o := range c.Out[0] * c.Out[1] {
		for t := range Volume(c.Kernel) {
			z := c.From(0, o/c.Out[1], t/(c.Kernel[1]*c.Kernel[2]))
			y := c.From(1, o%c.Out[1], t/c.Kernel[2]%c.Kernel[1])
			if z < 0 || z >= c.In[0] || y < 0 || y >= c.In[1] {
				continue
			}
			first := c.From(2, 0, t%c.Kernel[2])
			lo := ceil(max(0, -first), step)
			n := min(c.Out[2], ceil(max(0, c.In[2]-first), step)) - lo
			if n > 0 {
				f(o*c.Out[2]+lo, (z*c.In[1]+y)*c.In[2]+first+lo*step, t, n, step)
			}
		}
	}
}

// columns is the im2col matrix of all images as an operand: for each position on one side, the
// elements of the image that its taps read on the other.
type columns struct {
	*Convolution
	images []float32 // each [channels, in…], or [channels, out…] if back
	step   int       // stride between images
	back   bool      // positions are of x, and images are y
	taps   bool      // the outer index is (channel, tap), and the inner index is the position
	look   *tapTable // tables for packing with AVX-512
}

// newColumns makes columns without images; see of.
func newColumns(c *Convolution, step int, back, taps bool) columns {
	m := columns{Convolution: c, step: step, back: back, taps: taps}
	if wide() && c.Stride[2] <= 2 {
		m.look = newTapTable(c, back)
	}
	return m
}

// of is m for the given images.
func (m columns) of(images []float32) *columns {
	m.images = images
	return &m
}

// Pack is of Operand.
func (m *columns) Pack(dst []float32, i0, i1, p0, p1, w int) {
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
	// Gather rows of taps, which are contiguous in the image, then transpose.
	rows := tapRows.Get()
	m.fill(rows[:], i0, i1, p0, p1, p1-p0)
	packRows(dst, rows[:], i1-i0, p1-p0, p1-p0, w)
	tapRows.Put(rows)
}

var tapRows workspace[[maxCols * BlockK]float32]

// fill writes rows [r0, r1), numbered by (channel, tap), of positions [q0, q1): element (r, q) goes
// to (r − r0)·ld + q − q0. The span of a tap along a line is computed once for all channels.
func (m *columns) fill(dst []float32, r0, r1, q0, q1, ld int) {
	positions, seen := m.Out, m.In
	if m.back {
		positions, seen = m.In, m.Out
	}
	taps, size, all := Volume(m.Kernel), Volume(seen), Volume(positions)
	if m.Stride == Ones && positions == seen {
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
			sz, okZ := m.sees(0, z, tap/(m.Kernel[1]*m.Kernel[2]), seen[0])
			sy, okY := m.sees(1, y, tap/m.Kernel[2]%m.Kernel[1], seen[1])
			var s span
			if okZ && okY {
				s = m.span(x, n, tap%m.Kernel[2], seen[2])
				s.from += (sz*seen[1] + sy) * seen[2]
			}
			for r := first; r < r1; r += taps {
				s.copy(dst[(r-r0)*ld+q-q0:], image[r/taps*size:], n)
			}
		}
		q += n
	}
}

// shifted is fill for stride 1 and equal sizes: a tap reads the whole image shifted by an offset,
// except for positions that are shifted beyond an edge.
func (m *columns) shifted(dst []float32, r0, r1, q0, q1, ld int) {
	taps, size, line := Volume(m.Kernel), Volume(m.In), m.In[2]
	var room [64][2]int
	for q := q0; q < q1; {
		image, at := m.images[q/size*m.step:], q%size
		n := min(size-at, q1-q)
		for first := r0; first < min(r0+taps, r1); first++ {
			tap := first % taps
			var by [3]int
			for axis, k := range [3]int{tap / (m.Kernel[1] * m.Kernel[2]), tap / m.Kernel[2] % m.Kernel[1], tap % m.Kernel[2]} {
				if by[axis] = m.From(axis, 0, k); m.back {
					by[axis] = -by[axis]
				}
			}
			move := (by[0]*m.In[1]+by[1])*line + by[2]
			lo := min(n, max(0, -at-move))
			hi := max(lo, min(n, size-at-move))
			blind := m.blind(room[:0], at, n, by)
			to, channels := dst[(first-r0)*ld+q-q0:], ceil(r1-first, taps)
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

// blind appends the ranges of n positions from at on where a tap with the given offsets reads
// padding.
func (m *columns) blind(list [][2]int, at, n int, by [3]int) [][2]int {
	line := m.In[2]
	for i := 0; i < n; {
		x, y, z := (at+i)%line, (at+i)/line%m.In[1], (at+i)/line/m.In[1]
		end := min(n, i+line-x)
		if z += by[0]; z < 0 || z >= m.In[0] {
			list = append(list, [2]int{i, end})
		} else if y += by[1]; y < 0 || y >= m.In[1] {
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

// sees is the element that position o of an axis reads with tap k; false if it is padding.
func (m *columns) sees(axis, o, k, size int) (int, bool) {
	var i int
	if m.back {
		i = o + m.Pad[axis] - k*m.Dilation[axis]
		if stride := m.Stride[axis]; stride > 1 {
			if i < 0 || i%stride != 0 {
				return 0, false
			}
			i /= stride
		}
	} else {
		i = m.From(axis, o, k)
	}
	return i, i >= 0 && i < size
}

// span is what a tap reads for a run of positions: count elements of the image at from, from +
// fromStep, …, for positions to, to + toStep, …. The other positions read nothing.
type span struct{ to, toStep, from, fromStep, count int }

// span returns the span of n positions from x on, on a line of an image of the given length.
func (m *columns) span(x, n, k, length int) span {
	stride := m.Stride[2]
	if !m.back {
		first := m.From(2, x, k)
		lo := ceil(max(0, -first), stride)
		hi := min(n, ceil(max(0, length-first), stride))
		return span{lo, 1, first + lo*stride, stride, max(0, hi-lo)}
	}
	// Every stride-th position of x is connected.
	first := x + m.Pad[2] - k*m.Dilation[2]
	lo := max(0, -first)
	lo += (stride - (first+lo)%stride) % stride
	from := (first + lo) / stride
	return span{lo, stride, from, 1, max(0, min(ceil(n-lo, stride), length-from))}
}

// copy writes the elements of n positions, 0 for those that read nothing.
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

// copyRows copies rows of n elements at strides dstStep and srcStep.
func copyRows(dst, src []float32, rows, n, dstStep, srcStep int) {
	if vectors && n >= 8 {
		copyRows8(dst, src, rows, n, dstStep, srcStep)
		return
	}
	for i := range rows {
		copy(dst[i*dstStep:][:n], src[i*srcStep:])
	}
}

// transposed is the filters of a group, [outer, inner, taps], as an operand whose outer index is inner
// and whose inner index is (outer, tap).
type transposed struct {
	data        []float32
	inner, taps int
	of          []int // the taps to use; nil means all
}

// Pack is of Operand.
func (t transposed) Pack(dst []float32, i0, i1, p0, p1, w int) {
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

// stacked concatenates operands of equal length along the inner index.
type stacked struct {
	length int
	part   func(i int) Matrix
}

// Pack is of Operand.
func (s stacked) Pack(dst []float32, i0, i1, p0, p1, w int) {
	for p := p0; p < p1; {
		end := min(p1, (p/s.length+1)*s.length)
		base := p / s.length * s.length
		s.part(p/s.length).Pack(dst[(p-p0)*w:], i0, i1, p-base, end-base, w)
		p = end
	}
}

// fast computes one side from the other with one product for each group, over the positions of all
// images. channels, size and depth are the rows, columns (per image) and terms of the product.
func (c *Convolution) fast(par Parallel, dst, bias []float32, channels, size, depth int, a func(g int) Operand, b func(g int) Operand) {
	for i := range c.N * c.Group * channels {
		if bias == nil {
			break
		}
		Fill(dst[i*size:(i+1)*size], bias[i%(c.Group*channels)])
	}
	one := func(par Parallel, g int) {
		to := result{dst[g*channels*size:], size, size, c.Group * channels * size, nil}
		tiles[0].multiply(par, channels, c.N*size, depth, a(g), b(g), to, bias != nil)
	}
	work := channels * c.N * size * depth
	if c.Group == 1 || work >= WholeWork {
		for g := range c.Group {
			one(par, g)
		}
		return
	}
	par(c.Group, 1+16*Grain/max(1, work), func(lo, hi int) {
		for g := lo; g < hi; g++ {
			one(Serial, g)
		}
	})
}

// Forward is y from x and the filters w; bias may be nil.
func (c *Convolution) Forward(par Parallel, x, w, bias, y []float32) {
	if c.single() {
		c.singleForward(par, x, w, bias, y)
		return
	}
	depth, size := c.Inner*Volume(c.Kernel), c.Inner*Volume(c.In)
	columns := newColumns(c, c.Group*size, false, false)
	c.fast(par, y, bias, c.Outer, Volume(c.Out), depth,
		func(g int) Operand { return Matrix{w[g*c.Outer*depth:], depth, 1, 1} },
		func(g int) Operand { return columns.of(x[g*size:]) })
}

// Backward is x from y and the filters: the gradient of x, and the transposed convolution.
func (c *Convolution) Backward(par Parallel, y, w, bias, x []float32) {
	if c.single() {
		c.singleBackward(par, y, w, bias, x)
		return
	}
	if c.Stride != Ones {
		c.phases(par, y, w, bias, x)
		return
	}
	taps, size := Volume(c.Kernel), c.Outer*Volume(c.Out)
	columns := newColumns(c, c.Group*size, true, false)
	c.fast(par, x, bias, c.Inner, Volume(c.In), c.Outer*taps,
		func(g int) Operand { return transposed{w[g*c.Outer*c.Inner*taps:], c.Inner, taps, nil} },
		func(g int) Operand { return columns.of(y[g*size:]) })
}

// Filters is w from x and y, the gradient of the filters. It sums over the positions of all images in one product.
func (c *Convolution) Filters(par Parallel, x, y, w []float32) {
	if c.single() {
		c.singleFilters(par, x, y, w)
		return
	}
	depth, xs, ys := c.Inner*Volume(c.Kernel), c.Inner*Volume(c.In), c.Outer*Volume(c.Out)
	columns := newColumns(c, c.Group*xs, false, true)
	for g := range c.Group {
		Multiply(par, c.Outer, depth, c.N*Volume(c.Out),
			stacked{Volume(c.Out), func(i int) Matrix { return Matrix{y[(i*c.Group+g)*ys:], Volume(c.Out), 1, 1} }},
			columns.of(x[g*xs:]),
			w[g*c.Outer*depth:], depth, false)
	}
}

// phases is Backward with strides: positions of x that are a stride apart are connected by the same
// taps, so each phase is a convolution without stride over its own taps, and no zeros are
// multiplied.
func (c *Convolution) phases(par Parallel, y, w, bias, x []float32) {
	size, taps := Volume(c.In), Volume(c.Kernel)
	if bias == nil {
		clear(x) // a phase may have no taps
	}
	for i := range c.N * c.Group * c.Inner {
		if bias == nil {
			break
		}
		Fill(x[i*size:(i+1)*size], bias[i%(c.Group*c.Inner)])
	}
	for phase := range Volume(c.Stride) {
		at := [3]int{phase / (c.Stride[1] * c.Stride[2]), phase / c.Stride[2] % c.Stride[1], phase % c.Stride[2]}
		p, of, spots := c.phase(at)
		if len(of) == 0 || len(spots) == 0 {
			continue
		}
		columns := newColumns(p, c.Group*c.Outer*Volume(c.Out), true, false)
		for g := range c.Group {
			to := result{x[g*c.Inner*size:], size, len(spots), c.Group * c.Inner * size, spots}
			tiles[0].multiply(par, c.Inner, c.N*len(spots), c.Outer*len(of),
				transposed{w[g*c.Outer*c.Inner*taps:], c.Inner, taps, of},
				columns.of(y[g*c.Outer*Volume(c.Out):]), to, bias != nil)
		}
	}
}

// phase returns the convolution of positions at, at + stride, … of x, its taps, and the offsets of
// the positions.
func (c *Convolution) phase(at [3]int) (p *Convolution, of, spots []int) {
	q := *c
	q.Stride = Ones
	var seen [3][]int // taps of an axis
	for a := range 3 {
		q.In[a] = max(0, ceil(c.In[a]-at[a], c.Stride[a]))
		for k := range c.Kernel[a] {
			if (at[a]+c.Pad[a]-k*c.Dilation[a])%c.Stride[a] == 0 {
				seen[a] = append(seen[a], k)
			}
		}
		if q.Kernel[a] = len(seen[a]); q.Kernel[a] == 0 {
			return &q, nil, nil
		}
		// Tap j of the phase connects position u to output u + pad − j·dilation.
		output := func(j int) int { return (at[a] + c.Pad[a] - seen[a][j]*c.Dilation[a]) / c.Stride[a] }
		q.Pad[a], q.Dilation[a] = output(0), 0
		if len(seen[a]) > 1 {
			q.Dilation[a] = output(0) - output(1)
		}
	}
	for _, z := range seen[0] {
		for _, y := range seen[1] {
			for _, x := range seen[2] {
				of = append(of, (z*c.Kernel[1]+y)*c.Kernel[2]+x)
			}
		}
	}
	for z := range q.In[0] {
		for y := range q.In[1] {
			for x := range q.In[2] {
				spots = append(spots, ((at[0]+z*c.Stride[0])*c.In[1]+at[1]+y*c.Stride[1])*c.In[2]+at[2]+x*c.Stride[2])
			}
		}
	}
	return &q, of, spots
}
