package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// Convolutions as matrix products (im2col): A is the filters, B has a line for each
// (channel, tap) with the input element of that tap at each output position. The lines of
// taps in one column of the kernel are the same data at different row offsets, so the image
// is copied once for each column of taps (a plane), some rows at a time, and a table holds
// the offset of each tap's line. In 3-d convolutions each output slice is a 2-d image with
// channels × depth taps as its channels. Lines have even lengths: the extra column is
// computed but not stored.
//
// "Places" are the output positions of the product: positions of y in the forward pass, of
// x in its gradient, where the image is dy.

var linesKernel = Shader("lines", "lines.comp")

// convWork is the number of multiplications from which products pay off. With fewer places
// than fewPlaces tiles are mostly empty, and 8 times as many are needed.
const (
	convWork  = 1 << 17
	fewPlaces = 64
)

// paysAsProducts reports whether products are faster than the direct kernel.
func (c *Convolution) paysAsProducts() bool {
	work := c.N * c.Group * c.Outer * c.Inner * f32.Volume(c.Kernel) * f32.Volume(c.Out)
	return work >= 8*convWork || work >= convWork && f32.Volume(c.Out) >= fewPlaces
}

// flat reports whether the convolution is 1-d or 2-d.
func (c *Convolution) flat() bool { return c.In[0] == 1 && c.Out[0] == 1 && c.Kernel[0] == 1 }

// pointwise reports whether the kernel is 1×1 without stride and padding: a product without im2col.
func (c *Convolution) pointwise() bool {
	return f32.Volume(c.Kernel) == 1 && c.Stride == f32.Ones && c.Pad == [3]int{} && c.In == c.Out
}

// axisTaps describes the taps of an axis: place o reads position o·step + t·dilation + shift
// with tap t.
type axisTaps struct{ n, step, dilation, shift int }

// convLines is matrix B of a convolution: the lines in work space and the table of their offsets.
type convLines struct {
	from            graph.Buffer
	samples, groups int
	channels        int    // of a group
	size            [3]int // of the image that is read
	axes            [3]axisTaps
	places          [3]int // slices, rows and columns of places
	turns, span     int    // planes for a column of taps; rows of a plane beyond rows, for its lower taps
	apart           bool   // each row of taps has its own planes
	rows, width     int    // rows of places at a time; columns, rounded up to even
	group, slice    int    // elements of lines of a group and of a slice
	lines, laid     graph.Buffer
	slots           int // slices at a time
}

// newConvLines allocates the table and the planes in work space, from byte work on. The
// tensor of places has seers elements for each sample.
func newConvLines(l *graph.Lowering, from graph.Buffer, samples, groups, channels int, size [3]int, axes [3]axisTaps, places [3]int, seers int, work int64) *convLines {
	s := &convLines{from: from, samples: samples, groups: groups, channels: channels, size: size, axes: axes, places: places}
	down, across := axes[1], axes[2]
	s.width = places[2] + places[2]%2
	// A plane holds every step-th row of the image.
	far := max(0, down.n-1) * max(down.dilation, -down.dilation)
	s.turns, s.span = min(down.step, far+1), far/down.step
	// Planes take at most a sixth of the image, so that they never dominate memory. With a
	// large dilation, planes shared by a column of taps would hold all rows in between, so
	// each row of taps gets its own (apart).
	const part, fewest = 6, 2
	most := min(spreadBytes/4, samples*groups*channels*f32.Volume(size)/part)
	column := max(1, groups*s.seen()*across.n*s.width)
	if n := s.turns * (s.span + fewest); n*column > most && n > down.n*fewest {
		s.apart, s.turns, s.span = true, down.n, 0
	}
	planes := across.n * s.turns
	row := max(1, s.turns*column)
	s.rows = min(places[1], max(fewest, most/row-s.span))
	s.rows = index.CeilDiv(places[1], index.CeilDiv(places[1], s.rows))
	s.group = s.seen() * planes * s.plane()
	s.slice = groups * s.group
	if s.slots = 1; s.rows == places[1] {
		s.slots = min(s.slices(), max(1, most/max(1, s.slice)))
	}
	// A run of slots may begin and end within a sample.
	s.slots = min(s.slots, (SamplesAtOnce(l, samples, s.sample(), seers)-1)*places[0]+1)
	s.lines = Scratch(work, int64(4*s.taps()), true)
	s.laid = Scratch(Aligned(work+s.lines.Bytes), int64(4*s.slots*s.slice), true)
	l.Scratch = max(l.Scratch, s.laid.At+s.laid.Bytes)
	return s
}

// slices is the number of slices of all samples.
func (s *convLines) slices() int { return s.samples * s.places[0] }

// sample is the number of elements of an image that is read.
func (s *convLines) sample() int { return s.groups * s.channels * f32.Volume(s.size) }

// samplesOf restricts a buffer to the samples that some slices belong to.
func (s *convLines) samplesOf(l *graph.Lowering, b graph.Buffer, sample, slice, slices int) (seen graph.Buffer, before int) {
	first, last := slice/s.places[0], (slice+slices-1)/s.places[0]
	return SamplesOf(l, b, s.samples, sample, first, last-first+1)
}

// seen is the number of channels that a slice reads: channels of a group × taps along the depth.
func (s *convLines) seen() int { return s.channels * s.axes[0].n }

// taps is the number of lines: the taps of all channels of a group.
func (s *convLines) taps() int { return s.seen() * s.axes[1].n * s.axes[2].n }

func (s *convLines) plane() int { return (s.rows + s.span) * s.width }

// behind is the offset of the first free byte of work space.
func (s *convLines) behind() int64 { return Aligned(s.laid.At + s.laid.Bytes) }

// table writes the offset of each line.
func (s *convLines) table(l *graph.Lowering) {
	if s.taps() == 0 {
		return
	}
	down, across := s.axes[1], s.axes[2]
	column, dilation, step := across.n*s.plane(), down.dilation, down.step
	if s.apart {
		dilation, step = 1, s.turns
	}
	push := append(Words(l, s.taps(), down.n, across.n, s.belowHighest()), uint32(int32(dilation)))
	push = append(push, Words(l, step, s.turns*column, column, s.width, s.plane())...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: linesKernel, Push: push, Buffers: []graph.Buffer{s.lines}, Groups: InLine(l, index.CeilDiv(s.taps(), 64)),
	})
}

// belowHighest is the row of the first tap in its plane; not 0 where the dilation is negative.
func (s *convLines) belowHighest() int {
	if s.apart {
		return 0
	}
	return max(0, -s.axes[1].dilation*(s.axes[1].n-1))
}

// parts copies the lines of some slices and rows at a time, and calls f after each copy.
func (s *convLines) parts(l *graph.Lowering, f func(slice, slices, row, rows int)) {
	for slice := 0; slice < s.slices(); slice += s.slots {
		slices := min(s.slots, s.slices()-slice)
		for row := 0; row < s.places[1]; row += s.rows {
			if s.taps() > 0 {
				s.layOut(l, slice, slices, row)
			}
			f(slice, slices, row, min(s.rows, s.places[1]-row))
		}
	}
}

func (s *convLines) layOut(l *graph.Lowering, slice, slices, row int) {
	deep, down, across := s.axes[0], s.axes[1], s.axes[2]
	top := down.shift + row*down.step - s.belowHighest()
	image, turn := f32.Volume(s.size), 1
	if s.apart {
		turn = down.dilation
	}
	from, before := s.samplesOf(l, s.from, s.sample(), slice, slices)
	x := spread{
		to: s.laid, from: from, shape: []int{s.samples, s.places[0]}, sx: []int{s.sample(), 0}, first: slice, slots: slices, at: -before,
		channels: s.groups * s.channels, channel: image,
		taps: [3]int{deep.n, s.turns, across.n}, step: [3]int{deep.step, down.step, across.step}, dilation: [3]int{deep.dilation, turn, across.dilation},
		shift: [3]int{deep.shift, top, across.shift}, size: s.size, strides: [3]int{s.size[1] * s.size[2], s.size[2], 1},
		rows: s.rows + s.span, whole: s.places[2], width: s.width,
	}
	x.append(l)
}

// product is matrix a with m rows at stride line, times the lines of some rows of places.
func (s *convLines) product(m int, a graph.Buffer, line int, slice, slices, rows int) Products {
	g := Products{Layout: Layout{M: m, N: rows * s.width, K: s.taps()}, Alpha: 1, A: a, B: Unwritten(s.laid), C: Unwritten(s.laid)}
	g.Layout.A.I, g.Layout.A.P, g.Layout.B.I = line, 1, 1
	g.shape, g.Sa, g.Sb = []int{s.samples, s.places[0], s.groups}, []int{0, 0, m * line}, []int{s.slice * s.places[0], s.slice, s.group}
	g.first, g.batches, g.FromB = slice*s.groups, slices*s.groups, -slice*s.slice
	lines := Unwritten(s.lines)
	g.lines, g.ofB = &lines, &s.from
	return g
}

// pointwiseProduct multiplies the filters [rows, terms] by the image in place.
func (c *Convolution) pointwiseProduct(l *graph.Lowering, out, rows, terms int, w Factor, image graph.Buffer, bias int) {
	places := f32.Volume(c.In)
	from, to := c.Group*terms*places, c.Group*rows*places // elements of a sample
	each := SamplesAtOnce(l, c.N, from, to)
	for first := 0; first < c.N; first += each {
		n := min(each, c.N-first)
		x, beforeX := SamplesOf(l, image, c.N, from, first, n)
		y, beforeY := SamplesOf(l, Writes(out), c.N, to, first, n)
		g := ProductsOf(rows, places, terms, 1, w, Factor{x, 0, 1, places}, y, 0)
		g.shape, g.Sa, g.Sb = []int{n, c.Group}, []int{0, rows * terms}, []int{from, terms * places}
		g.FromB, g.FromY = first*from-beforeX, first*to-beforeY
		g.Step, g.spreads = rows*places, true
		g.biasOf(bias, rows)
		g.Whole(l)
	}
}

// productOut computes y from x and the filters.
func (c *Convolution) productOut(l *graph.Lowering, out int, x, w graph.Buffer, bias int) {
	if c.pointwise() {
		c.pointwiseProduct(l, out, c.Outer, c.Inner, Factor{w, 0, c.Inner, 1}, x, bias)
		return
	}
	outs, taps := f32.Volume(c.Out), c.Inner*f32.Volume(c.Kernel)
	line, work, filters := taps, int64(0), w
	if taps%2 != 0 {
		rows := c.Group * c.Outer
		s := spread{
			from: w, slots: 1, channels: 1, taps: f32.Ones, step: [3]int{0, 1, 1}, size: [3]int{1, rows, taps}, strides: [3]int{0, taps, 1},
			rows: rows, whole: taps, width: roomy(taps),
		}
		s.to = Scratch(0, int64(4*rows*s.width), true)
		s.append(l)
		w, line, work = Unwritten(s.to), s.width, s.to.Bytes
	}
	s := newConvLines(l, x, c.N, c.Group, c.Inner, c.In, c.axes(), c.Out, c.Group*c.Outer*outs, Aligned(work))
	s.table(l)
	s.parts(l, func(slice, slices, row, rows int) {
		g := s.product(c.Outer, w, line, slice, slices, rows)
		g.ofA = &filters
		y, before := s.samplesOf(l, Writes(out), c.Group*c.Outer*outs, slice, slices)
		g.Y, g.Ldy, g.sy, g.FromY = y, outs, []int{c.Group * c.Outer * outs, c.Out[1] * c.Out[2], c.Outer * outs}, row*c.Out[2]-before
		if s.width != c.Out[2] {
			g.places = &places{s.width, c.Out[2], c.Out[2], 1}
		}
		g.biasOf(bias, c.Outer)
		g.dispatch(l)
	})
}

// axis describes the taps by which y reads x.
func (c *Convolution) axis(d int) axisTaps {
	return axisTaps{c.Kernel[d], c.Stride[d], c.Dilation[d], -c.Pad[d]}
}

func (c *Convolution) axes() [3]axisTaps { return [3]axisTaps{c.axis(0), c.axis(1), c.axis(2)} }

// biasOf adds input number bias, one element for each row of a group, unless it is negative.
func (g *Products) biasOf(bias, rows int) {
	if bias >= 0 {
		g.C, g.Biased, g.Beta, g.Ci, g.CStep = Reads(bias), true, 1, 1, rows
	}
}

// phaseTaps is about the positions of x ≡ phase modulo the stride of axis d: how many there
// are, and the taps by which they read y (taps first, first+apart, …).
func (c *Convolution) phaseTaps(d, phase int) (places, first, apart int, t axisTaps) {
	stride, dilation := c.Stride[d], c.Dilation[d]
	apart = stride / int(gcd(int64(stride), int64(dilation)))
	for first = 0; first < c.Kernel[d] && (phase+c.Pad[d]-first*dilation)%stride != 0; first++ {
	}
	t = axisTaps{index.CeilDiv(max(0, c.Kernel[d]-first), apart), 1, -apart * dilation / stride, (phase + c.Pad[d] - first*dilation) / stride}
	return index.CeilDiv(max(0, c.In[d]-phase), stride), first, apart, t
}

// productIn computes x from y and the filters. Each phase of the strides is a convolution of
// y with the taps that reach it.
func (c *Convolution) productIn(l *graph.Lowering, out int, y, w graph.Buffer, bias int) {
	if c.pointwise() {
		c.pointwiseProduct(l, out, c.Inner, c.Outer, Factor{w, 0, 1, c.Inner}, y, bias)
		return
	}
	for p := range f32.Volume(c.Stride) {
		c.phaseIn(l, out, y, w, bias, [3]int{p / c.Stride[2] / c.Stride[1], p / c.Stride[2] % c.Stride[1], p % c.Stride[2]})
	}
}

// phaseIn computes the positions of x at one phase of each stride.
func (c *Convolution) phaseIn(l *graph.Lowering, out int, y, w graph.Buffer, bias int, phase [3]int) {
	var size, first, apart [3]int
	var axes [3]axisTaps
	for d := range axes {
		size[d], first[d], apart[d], axes[d] = c.phaseTaps(d, phase[d])
	}
	if f32.Volume(size) == 0 {
		return
	}
	// The filters are transposed to have the channels of x as rows, some of them at a time.
	ins, taps, plane := f32.Volume(c.In), f32.Volume(c.Kernel), axes[1].n*axes[2].n
	met := axes[0].n * plane
	line := roomy(c.Outer * met)
	most := c.Inner
	if c.Group == 1 {
		most = partOf(c.Inner, 2*spreadBytes/4/line, productTiles[0].rows)
	}
	flipped := Scratch(0, int64(4*c.Group*most*line), true)
	s := newConvLines(l, y, c.N, c.Group, c.Outer, c.Out, axes, size, c.Group*c.Inner*ins, Aligned(flipped.Bytes))
	s.table(l)
	for channel := 0; channel < c.Inner; channel += most {
		m := min(most, c.Inner-channel)
		if met > 0 {
			for t := range axes[0].n {
				z := first[0] + t*apart[0]
				from := channel*taps + (z*c.Kernel[1]+first[1])*c.Kernel[2] + first[2]
				box, st := index.Merge([]int{c.Group, m, c.Outer, axes[1].n, axes[2].n},
					[]int{c.Outer * c.Inner * taps, taps, c.Inner * taps, apart[1] * c.Kernel[2], apart[2]},
					[]int{m * line, line, met, axes[2].n, 1})
				Box(l, 4, []graph.Buffer{flipped, w}, nil, box, st[0], st[1], from, t*plane)
			}
		}
		s.parts(l, func(slice, slices, row, rows int) {
			g := s.product(m, Unwritten(flipped), line, slice, slices, rows)
			g.ofA = &w
			x, before := s.samplesOf(l, Writes(out), c.Group*c.Inner*ins, slice, slices)
			g.Y, g.Ldy, g.sy = x, ins, []int{c.Group * c.Inner * ins, c.Stride[0] * c.In[1] * c.In[2], c.Inner * ins}
			g.FromY = channel*ins + (phase[0]*c.In[1]+row*c.Stride[1]+phase[1])*c.In[2] + phase[2] - before
			if s.width != size[2] || c.Stride != f32.Ones {
				g.places = &places{s.width, size[2], c.Stride[1] * c.In[2], c.Stride[2]}
			}
			g.biasOf(bias, c.Inner)
			g.FromC = channel
			g.dispatch(l)
		})
	}
}

// productFilters computes the filters' gradient from x and y: y times the transposed lines,
// accumulated sample by sample.
func (c *Convolution) productFilters(l *graph.Lowering, out int, x, y graph.Buffer) {
	ins, outs, columns := f32.Volume(c.In), f32.Volume(c.Out), c.Inner*f32.Volume(c.Kernel)
	sampleX, sampleY := c.Group*c.Inner*ins, c.Group*c.Outer*outs
	begun := false
	add := func(k int, a graph.Buffer, line, fromA, step int, b graph.Buffer, fromB, stepB, ldb int, lines *graph.Buffer, work int64) {
		g := ProductsOf(c.Outer, columns, k, 1, Factor{a, 0, line, 1}, Factor{b, 0, ldb, 1}, Writes(out), 0)
		g.shape, g.Sa, g.Sb, g.Step = []int{c.Group}, []int{step}, []int{stepB}, c.Outer*columns
		g.FromA, g.FromB, g.lines, g.ofA, g.ofB = fromA, fromB, lines, &y, &x
		if begun {
			g.GoesOn, g.C, g.Ci, g.Cj, g.CStep = true, Rereads(out), columns, 1, g.Step
		}
		begun = true
		g.spreads, g.work = lines == nil, work
		g.Whole(l)
	}
	if c.pointwise() {
		for n := range c.N {
			x, beforeX := SamplesOf(l, x, c.N, sampleX, n, 1)
			y, beforeY := SamplesOf(l, y, c.N, sampleY, n, 1)
			add(outs, y, outs, n*sampleY-beforeY, c.Outer*outs, x, n*sampleX-beforeX, c.Inner*ins, ins, nil, 0)
		}
		return
	}
	s := newConvLines(l, x, c.N, c.Group, c.Inner, c.In, c.axes(), c.Out, sampleY, 0)
	s.table(l)
	lines := Unwritten(s.lines)
	// Rows of y of odd length are copied with a zero appended.
	even := spread{from: y, shape: []int{c.N, c.Out[0]}, sx: []int{sampleY, c.Out[1] * c.Out[2]}, channels: c.Group * c.Outer, channel: outs, taps: f32.Ones, step: [3]int{0, 1, 1},
		size: [3]int{1, c.Out[1], c.Out[2]}, strides: [3]int{0, c.Out[2], 1}, rows: s.rows, whole: c.Out[2], width: s.width}
	odd := s.width != c.Out[2]
	if odd {
		even.to = Scratch(s.behind(), int64(4*s.slots*even.channels*s.rows*s.width), true)
		l.Scratch = max(l.Scratch, even.to.At+even.to.Bytes)
	}
	s.parts(l, func(slice, slices, row, rows int) {
		if odd {
			part, before := even, 0
			part.from, before = s.samplesOf(l, y, sampleY, slice, slices)
			part.first, part.slots, part.shift, part.at = slice, slices, [3]int{0, row, 0}, -before
			part.append(l)
		}
		for n := range slices {
			sample, deep := (slice+n)/c.Out[0], (slice+n)%c.Out[0]
			a, before := SamplesOf(l, y, c.N, sampleY, sample, 1)
			line, fromA := outs, sample*sampleY-before+(deep*c.Out[1]+row)*c.Out[2]
			if odd {
				a, line = Unwritten(even.to), s.rows*s.width
				fromA = n * even.channels * line
			}
			add(rows*s.width, a, line, fromA, c.Outer*line, Unwritten(s.laid), n*s.slice, s.group, s.plane(), &lines, 0)
		}
	})
}
