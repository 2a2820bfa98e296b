package kernels

import "memopt/memopt/graph"

var (
	rowKernel  = halved(shader("row", "row.comp", "-DV=float"))
	rowsByFour = halved(shader("row-wide", "row.comp", "-DV=vec4"))
)

// The kernel's rules.
const (
	rowSoftmax, rowLogSoftmax, rowSoftmaxGrad, rowLogSoftmaxGrad, rowSafeSoftmax = 0, 1, 2, 3, 4
)

// lowerRow is a rule along the attribute axis.
func lowerRow(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if !onlyF32(l) {
			return
		}
		shape := l.Out[0].Shape
		before, n, after := around(shape, axisOf(l.Node, l.Node.Int("axis"), len(shape)))
		lowerLines(l, rule, before*after, n, after, reads(0), reads(len(l.In)-1))
	}
}

func lowerLines(l *graph.Lowering, rule uint32, lines, n, inner int, a, b graph.Buffer) {
	lowerLinesInto(l, writes(0), rule, lines, n, inner, a, b)
}

func lowerLinesInto(l *graph.Lowering, out graph.Buffer, rule uint32, lines, n, inner int, a, b graph.Buffer) {
	if lines*n == 0 || l.Refused != "" {
		return
	}
	kernel, row := rowKernel, int64(4*n)
	if inner == 1 && n%4 == 0 {
		kernel, n = rowsByFour, n/4
	}
	dispatch := func(lines int, buffers []graph.Buffer) {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{uint32(l.Limits.Subgroup), rule}, Push: words(l, lines, n, inner), Buffers: buffers, Groups: inLine(l, lines),
		})
	}
	buffers := []graph.Buffer{out, a, b}
	if inner > 1 {
		dispatch(lines, buffers)
		return
	}
	inPieces(l, lines, buffers, []int64{row, row, row}, dispatch)
}

var normKernel = halved(shader("norm", "norm.comp"))

// The passes of the kernel.
const (
	normRows, normStats, normColumns, normSums, normBack, normSpread = 0, 1, 2, 3, 4, 5
)

// normParts is into how many parts the rows are cut for sums of columns.
func normParts(rows int) int { return max(1, min(32, rows/64)) }

// columnFours is how many fours of a row a lane takes that sums columns: few lanes
// take more, for rows are far apart, and what is read of each should be 512 bytes.
func columnFours(l *graph.Lowering) int { return max(1, 32/l.Limits.Subgroup) }

// loweredNorm is where the operands of a normalisation are; −1 is nowhere.
type loweredNorm struct {
	centred           bool
	x, scale, bias    int // inputs
	mean, inv         int // outputs of the forward pass
	dy                int
	keptMean, keptInv int // inputs of the gradient
	dscale, dbias     int // its outputs
	none              []int
}

// loweredRows are rows, and how scale and bias lie under them: as long as a row,
// or else rows of them in a cycle, each element for a run of a row's.
type loweredRows struct {
	rowNorm
	cycle, each, run int
}

func (r loweredRows) spread() bool { return r.cycle != 1 || r.run != 1 }

// wide reports whether a lane takes four neighbours at once.
func (r loweredRows) wide() bool { return r.width%4 == 0 && !r.spread() }

// affine finds the way in which a scale or bias lies under the rows.
func (r rowNorm) affine(shape []int) (way loweredRows, ok bool) {
	st, rank := broadcastStrides(shape, r.shape), len(r.shape)
	for from := r.axis; from >= 0; from-- {
		for to := rank; to >= r.axis; to-- {
			packed, fits := strides(r.shape[from:to]), true
			for d, n := range r.shape {
				want := 0
				if d >= from && d < to {
					want = packed[d-from]
				}
				fits = fits && (n == 1 || st[d] == want)
			}
			if fits {
				return loweredRows{r, elems(r.shape[from:r.axis]), elems(r.shape[r.axis:to]), elems(r.shape[to:])}, true
			}
		}
	}
	return way, false
}

func (w loweredNorm) geometry(l *graph.Lowering) (r loweredRows, ok bool) {
	if !onlyF32(l) {
		return r, false
	}
	for _, i := range w.none {
		if loweredIn(l, i) != nil {
			l.Refuse("a gradient flows into its statistics")
			return r, false
		}
	}
	rows := newRowNorm(l.Node, l.In[w.x].Shape, w.centred)
	r = loweredRows{rows, 1, rows.width, 1}
	if rows.rows*rows.width == 0 {
		return r, false
	}
	for k, i := range []int{w.scale, w.bias} {
		if i < 0 || loweredIn(l, i) == nil {
			continue
		}
		way, fits := rows.affine(l.In[i].Shape)
		if fits && k == 0 {
			r = way
		}
		if !fits || way.cycle != r.cycle || way.each != r.each || way.run != r.run {
			l.Refuse("input %d is neither as long as a row nor for runs of its elements, as the scale is", i)
			return r, false
		}
	}
	for _, o := range []int{w.dscale, w.dbias} {
		if o <= 0 || loweredOut(l, o) == nil {
			continue
		}
		if way, fits := rows.affine(l.Out[o].Shape); !fits || way.cycle != r.cycle || way.each != r.each || way.run != r.run {
			l.Refuse("output %d does not lie under the rows as the scale does", o)
			return r, false
		}
	}
	return r, true
}

// normPass is what a pass sees; a zero buffer is one that it has no use for. What
// does not go row by row says how many groups it has.
type normPass struct {
	number                                                         uint32
	bias, scaled                                                   bool
	stats                                                          uint32
	groups                                                         [3]int
	y, x, scale, addend, mean, inv, work, dbias, keptMean, keptInv *graph.Buffer
}

func (w loweredNorm) pass(l *graph.Lowering, r loweredRows, p normPass) {
	var buffers []graph.Buffer
	for i, b := range []*graph.Buffer{p.y, p.x, p.scale, p.addend, p.mean, p.inv, p.work, p.dbias, p.keptMean, p.keptInv} {
		if b == nil {
			none := unused(i == 0 || i >= 4 && i <= 7)
			b = &none
		}
		buffers = append(buffers, *b)
	}
	dispatch := func(first, rows int, groups [3]int, buffers []graph.Buffer) {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: normKernel, Spec: []uint32{uint32(l.Limits.Subgroup), p.number, oneIf(w.centred), oneIf(p.bias), oneIf(p.scaled), p.stats, oneIf(r.spread()), oneIf(r.wide()), uint32(columnFours(l))},
			Push:    append(append(words(l, r.rows, r.width, normParts(r.rows)), bits(r.eps)), words(l, first, rows, r.cycle, r.each, r.run)...),
			Buffers: buffers, Groups: groups,
		})
	}
	// The rows that go together, where a piece may end; and what has rows of x's.
	unit, rowed := r.cycle, []int{0, 1, 3}
	switch p.number {
	case normSums, normSpread:
		dispatch(0, r.rows, p.groups, buffers)
		return
	case normRows:
		rowed = []int{0, 1}
	case normColumns:
		unit = ceilDiv(r.rows, normParts(r.rows))
	}
	bytes := make([]int64, len(buffers))
	for _, i := range rowed {
		bytes[i] = int64(4 * unit * r.width)
	}
	first := 0
	inPieces(l, ceilDiv(r.rows, unit), buffers, bytes, func(units int, buffers []graph.Buffer) {
		rows := min(units*unit, r.rows-first)
		groups := inLine(l, rows)
		if p.number == normColumns {
			groups = p.groups
			groups[2] = units
		}
		for i := range buffers {
			if bytes[i] > 0 && buffers[i].Bytes > 0 {
				buffers[i].Bytes = int64(4 * rows * r.width) // the last part of the rows may be a shorter one
			}
		}
		dispatch(first, rows, groups, buffers)
		first += rows
	})
}

func (w loweredNorm) forward(l *graph.Lowering) {
	if r, ok := w.geometry(l); ok {
		w.rowsOf(l, r, reads(w.x))
	}
}

// rowsOf normalises what x holds, into output 0.
func (w loweredNorm) rowsOf(l *graph.Lowering, r loweredRows, x graph.Buffer) {
	y, scale := writes(0), reads(w.scale)
	p := normPass{number: normRows, y: &y, x: &x, scale: &scale}
	if w.bias >= 0 && loweredIn(l, w.bias) != nil {
		b := reads(w.bias)
		p.bias, p.addend = true, &b
	}
	if w.mean >= 0 && loweredOut(l, w.mean) != nil {
		b := writes(w.mean)
		p.mean, p.stats = &b, p.stats|1
	}
	if w.inv >= 0 && loweredOut(l, w.inv) != nil {
		b := writes(w.inv)
		p.inv, p.stats = &b, p.stats|2
	}
	w.pass(l, r, p)
}

func (w loweredNorm) backward(l *graph.Lowering) {
	r, ok := w.geometry(l)
	if !ok {
		return
	}
	var mean graph.Buffer
	if w.keptMean >= 0 {
		mean = reads(w.keptMean)
	}
	l.Scratch = r.work()
	w.gradient(l, r, reads(w.x), mean)
}

// work is the scratch of the gradient: what is kept of rows, and sums of parts.
func (r loweredRows) work() int64 { return int64(4 * (2*r.rows + 2*normParts(r.rows)*r.width)) }

// gradient appends the passes of the gradient, of rows that lie in x and have that
// mean, if it is kept.
func (w loweredNorm) gradient(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) {
	dx, dy, scale := writes(0), reads(w.dy), reads(w.scale)
	fill, use := scratch(0, r.work(), true), scratch(0, r.work(), false)
	p := normPass{number: normStats, x: &x, work: &fill}
	if w.keptInv >= 0 {
		b := reads(w.keptInv)
		p.keptInv, p.stats = &b, 1
		if w.centred {
			p.keptMean = &mean
		}
	}
	w.pass(l, r, p)
	// sums is the pass that ends in the gradients of scale and bias.
	sums := normPass{scaled: loweredOut(l, w.dscale) != nil, bias: w.dbias >= 0 && loweredOut(l, w.dbias) != nil}
	if sums.scaled {
		b := writes(w.dscale)
		sums.y = &b
	}
	if sums.bias {
		b := writes(w.dbias)
		sums.dbias = &b
	}
	switch {
	case !sums.scaled && !sums.bias:
	case r.spread():
		sums.number, sums.groups, sums.x, sums.addend, sums.work = normSpread, inLine(l, r.cycle*r.each), &x, &dy, &fill
		w.pass(l, r, sums)
	default:
		columns := inLine(l, ceilDiv(r.width, l.Limits.Subgroup))
		groups := columns
		if r.wide() {
			groups = inLine(l, ceilDiv(r.width/4, l.Limits.Subgroup*columnFours(l)))
		}
		w.pass(l, r, normPass{number: normColumns, groups: groups, x: &x, addend: &dy, work: &fill})
		sums.number, sums.groups, sums.work = normSums, columns, &use
		w.pass(l, r, sums)
	}
	if loweredOut(l, 0) != nil {
		w.pass(l, r, normPass{number: normBack, y: &dx, x: &x, scale: &scale, addend: &dy, work: &use})
	}
}

// The operators that are such.
var (
	layerNorm      = loweredNorm{centred: true, x: 0, scale: 1, bias: 2, mean: 1, inv: 2}
	layerNormGrad  = loweredNorm{centred: true, dy: 0, x: 1, scale: 2, bias: -1, keptMean: -1, keptInv: -1, dscale: 1, dbias: 2, none: []int{4, 5}}
	keptNormGrad   = loweredNorm{centred: true, dy: 0, x: 1, scale: 2, bias: -1, keptMean: 3, keptInv: 4, dscale: 1, dbias: 2}
	invertibleGrad = loweredNorm{centred: true, dy: 0, x: 1, scale: 2, bias: 3, keptMean: -1, keptInv: 4, dscale: 1, dbias: 2}
	rmsNorm        = loweredNorm{x: 0, scale: 1, bias: -1, mean: -1, inv: -1}
	rmsNormGrad    = loweredNorm{dy: 0, x: 1, scale: 2, bias: -1, keptMean: -1, keptInv: -1, dscale: 1, dbias: -1}
	keptRMSGrad    = loweredNorm{dy: 0, x: 1, scale: 2, bias: -1, keptMean: -1, keptInv: 3, dscale: 1, dbias: -1}
	simplifiedNorm = loweredNorm{x: 0, scale: 1, bias: -1, mean: -1, inv: 1}
)
