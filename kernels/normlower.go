package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var (
	normKernel = lower.Halved(lower.Shader("norm", "norm.comp"))
	normHeld   = lower.TeamShader("norm-held", "normheld.comp")
)

// The passes of norm.comp.
const (
	normRows, normStats, normColumns, normSums, normBack, normSpread = 0, 1, 2, 3, 4, 5
)

// normParts is the number of parts that rows are split into for column sums.
func normParts(rows int) int { return max(1, min(128, rows/64)) }

// columnFours is how many groups of four columns a lane sums, so that a subgroup reads at least
// 512 contiguous bytes of each row.
func columnFours(l *graph.Lowering) int { return max(1, 32/l.Limits.Subgroup) }

// loweredNorm holds the input and output numbers of a normalization's operands; −1 if there is
// none.
type loweredNorm struct {
	centred           bool
	x, scale, bias    int // inputs
	mean, inv         int // outputs of the forward pass
	dy                int
	keptMean, keptInv int   // inputs of the gradient
	dscale, dbias     int   // its outputs
	none              []int // inputs that must be absent
}

// loweredRows is the rows, and the layout of scale and bias: they have cycle rows of each
// elements, which the rows use in turn; element j of a row uses element j/run.
type loweredRows struct {
	rowNorm
	cycle, each, run int
	fewer            int // parts of column sums than normParts, whose work space has something else
}

// parts is the number of parts of column sums.
func (r loweredRows) parts() int { return normParts(r.rows) - r.fewer }

func (r loweredRows) spread() bool { return r.cycle != 1 || r.run != 1 }

// wide reports whether a lane processes four adjacent elements at a time.
func (r loweredRows) wide() bool { return r.width%4 == 0 && !r.spread() }

// affine determines the layout of a scale or bias.
func (r rowNorm) affine(shape []int) (way loweredRows, ok bool) {
	st, rank := index.Broadcast(shape, r.shape), len(r.shape)
	for from := r.axis; from >= 0; from-- {
		for to := rank; to >= r.axis; to-- {
			packed, fits := index.Strides(r.shape[from:to]), true
			for d, n := range r.shape {
				want := 0
				if d >= from && d < to {
					want = packed[d-from]
				}
				fits = fits && (n == 1 || st[d] == want)
			}
			if fits {
				return loweredRows{r, index.Elems(r.shape[from:r.axis]), index.Elems(r.shape[r.axis:to]), index.Elems(r.shape[to:]), 0}, true
			}
		}
	}
	return way, false
}

func (w loweredNorm) geometry(l *graph.Lowering) (r loweredRows, ok bool) {
	if !lower.OnlyF32(l) {
		return r, false
	}
	for _, i := range w.none {
		if lower.In(l, i) != nil {
			l.Refuse("there is no kernel for gradients of the statistics")
			return r, false
		}
	}
	rows := newRowNorm(l.Node, l.In[w.x].Shape, w.centred)
	r = loweredRows{rows, 1, rows.width, 1, 0}
	if rows.rows*rows.width == 0 {
		return r, false
	}
	for k, i := range []int{w.scale, w.bias} {
		if i < 0 || lower.In(l, i) == nil {
			continue
		}
		way, fits := rows.affine(l.In[i].Shape)
		if fits && k == 0 {
			r = way
		}
		if !fits || way.cycle != r.cycle || way.each != r.each || way.run != r.run {
			l.Refuse("there is no kernel for the broadcasting of input %d", i)
			return r, false
		}
	}
	for _, o := range []int{w.dscale, w.dbias} {
		if o <= 0 || lower.Out(l, o) == nil {
			continue
		}
		if way, fits := rows.affine(l.Out[o].Shape); !fits || way.cycle != r.cycle || way.each != r.each || way.run != r.run {
			l.Refuse("output %d does not have the layout of the scale", o)
			return r, false
		}
	}
	return r, true
}

// normPass holds the operands of a pass; buffers that it does not use are nil. Passes that do
// not work row by row set groups.
type normPass struct {
	number                                                         uint32
	bias, scaled, back                                             bool
	stats                                                          uint32
	groups                                                         [3]int
	y, x, scale, addend, mean, inv, work, dbias, keptMean, keptInv *graph.Buffer
}

func (w loweredNorm) pass(l *graph.Lowering, r loweredRows, p normPass) {
	var buffers []graph.Buffer
	for i, b := range []*graph.Buffer{p.y, p.x, p.scale, p.addend, p.mean, p.inv, p.work, p.dbias, p.keptMean, p.keptInv} {
		if b == nil {
			none := lower.Unused(i == 0 || i >= 4 && i <= 7)
			b = &none
		}
		buffers = append(buffers, *b)
	}
	t, held := lower.TeamOf(l, "norm", r.rows, r.width, 1, 1, r.run%4 == 0 || !r.spread())
	dispatch := func(first, rows int, groups [3]int, buffers []graph.Buffer) {
		if held && p.number == normRows {
			l.Dispatches = append(l.Dispatches, graph.Dispatch{
				Kernel: t.Of(normHeld), Spec: t.Spec(lower.OneIf(w.centred), lower.OneIf(p.bias), p.stats, lower.OneIf(r.spread())),
				Push:    append(lower.Words(l, rows, r.width/t.Wide), append([]uint32{lower.Bits(r.eps)}, lower.Words(l, first, r.cycle, r.each, r.run)...)...),
				Buffers: buffers[:6], Groups: t.Groups(l, rows),
			})
			return
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: normKernel, Spec: []uint32{uint32(l.Limits.Subgroup), p.number, lower.OneIf(w.centred), lower.OneIf(p.bias), lower.OneIf(p.scaled), p.stats, lower.OneIf(r.spread()), lower.OneIf(r.wide()), uint32(columnFours(l)), lower.OneIf(p.back)},
			Push:    append(append(lower.Words(l, r.rows, r.width, r.parts()), lower.Bits(r.eps)), lower.Words(l, first, rows, r.cycle, r.each, r.run)...),
			Buffers: buffers, Groups: groups,
		})
	}
	// unit is the number of rows that a piece must have a multiple of; rowed lists the buffers
	// with rows of x's width.
	unit, rowed := r.cycle, []int{0, 1, 3}
	switch p.number {
	case normSums, normSpread:
		dispatch(0, r.rows, p.groups, buffers)
		return
	case normRows:
		rowed = []int{0, 1}
	case normColumns:
		unit = index.CeilDiv(r.rows, r.parts())
	}
	bytes := make([]int64, len(buffers))
	for _, i := range rowed {
		bytes[i] = int64(4 * unit * r.width)
	}
	first := 0
	lower.InPieces(l, index.CeilDiv(r.rows, unit), buffers, bytes, func(units int, buffers []graph.Buffer) {
		rows := min(units*unit, r.rows-first)
		groups := lower.InLine(l, rows)
		if p.number == normColumns {
			groups = p.groups
			groups[2] = units
		}
		for i := range buffers {
			if bytes[i] > 0 && buffers[i].Bytes > 0 {
				buffers[i].Bytes = int64(4 * rows * r.width) // the last part of the rows may be shorter
			}
		}
		dispatch(first, rows, groups, buffers)
		first += rows
	})
}

func (w loweredNorm) forward(l *graph.Lowering) {
	if r, ok := w.geometry(l); ok {
		w.rowsOf(l, r, lower.Reads(w.x))
	}
}

// rowsOf normalizes x into output 0.
func (w loweredNorm) rowsOf(l *graph.Lowering, r loweredRows, x graph.Buffer) {
	y, scale := lower.Writes(0), lower.Reads(w.scale)
	p := normPass{number: normRows, y: &y, x: &x, scale: &scale}
	if w.bias >= 0 && lower.In(l, w.bias) != nil {
		b := lower.Reads(w.bias)
		p.bias, p.addend = true, &b
	}
	if w.mean >= 0 && lower.Out(l, w.mean) != nil {
		b := lower.Writes(w.mean)
		p.mean, p.stats = &b, p.stats|1
	}
	if w.inv >= 0 && lower.Out(l, w.inv) != nil {
		b := lower.Writes(w.inv)
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
		mean = lower.Reads(w.keptMean)
	}
	l.Scratch = r.work()
	w.gradient(l, r, lower.Reads(w.x), mean)
}

// work is the work space of the gradient: statistics of rows, and column sums of parts, or of runs of each row.
func (r loweredRows) work() int64 {
	sums := normParts(r.rows) * r.width
	if r.spread() {
		sums = r.rows * r.each
	}
	return int64(4 * 2 * (r.rows + sums))
}

// gradient appends the passes of the gradient for the rows in x; mean is their mean if keptInv
// is used.
func (w loweredNorm) gradient(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) {
	if w.onePass(l, r, x, mean) {
		return
	}
	none, results := lower.Unused(true), [2]graph.Buffer{lower.Unused(true), lower.Unused(true)}
	scaled, biased := lower.Out(l, w.dscale) != nil, w.dbias >= 0 && lower.Out(l, w.dbias) != nil
	if scaled {
		results[0] = lower.Writes(w.dscale)
	}
	if biased {
		results[1] = lower.Writes(w.dbias)
	}
	byRows, ok := w.rowBack(l, r, x, mean)
	if ok && r.spread() {
		if byRows.pass(backRows, lower.Writes(0), none, scaled, biased); scaled || biased {
			byRows.pass(backSums, results[0], results[1], scaled, biased)
		}
		return
	}
	dx, dy, scale := lower.Writes(0), lower.Reads(w.dy), lower.Reads(w.scale)
	fill, use := lower.Scratch(0, r.work(), true), lower.Scratch(0, r.work(), false)
	columnsBack := false
	if ok && (scaled || biased) {
		// What the pass over columns needs of each row for dx takes the place of some of its parts.
		if fewer := index.CeilDiv(r.rows, r.width); 2*fewer <= r.parts() {
			r.fewer, columnsBack = fewer, true
			byRows.r = r
		}
	}
	p := normPass{number: normStats, x: &x, work: &fill}
	if w.keptInv >= 0 {
		b := lower.Reads(w.keptInv)
		p.keptInv, p.stats = &b, 1
		if w.centred {
			p.keptMean = &mean
		}
	}
	switch {
	case ok && !scaled && !biased: // the pass that has dx makes its own
	case columnsBack:
		byRows.pass(backDots, none, none, false, false)
	case ok && w.keptInv < 0:
		byRows.pass(backStats, none, none, false, false)
	default:
		w.pass(l, r, p)
	}
	// sums is the last pass of the gradients of scale and bias.
	sums := normPass{scaled: scaled, bias: biased}
	if scaled {
		sums.y = &results[0]
	}
	if biased {
		sums.dbias = &results[1]
	}
	switch {
	case !sums.scaled && !sums.bias:
	case r.spread():
		sums.number, sums.groups, sums.x, sums.addend, sums.work = normSpread, lower.InLine(l, r.cycle*r.each), &x, &dy, &fill
		w.pass(l, r, sums)
	default:
		columns := lower.InLine(l, index.CeilDiv(r.width, l.Limits.Subgroup))
		groups := columns
		if r.wide() {
			groups = lower.InLine(l, index.CeilDiv(r.width/4, l.Limits.Subgroup*columnFours(l)))
		}
		columnSums := normPass{number: normColumns, groups: groups, x: &x, addend: &dy, work: &fill}
		if columnsBack {
			columnSums.back, columnSums.y, columnSums.scale = true, &dx, &scale
		}
		w.pass(l, r, columnSums)
		sums.number, sums.groups, sums.work = normSums, columns, &use
		w.pass(l, r, sums)
	}
	switch {
	case columnsBack:
	case ok:
		byRows.pass(backRows, dx, none, false, false)
	case lower.Out(l, 0) != nil:
		w.pass(l, r, normPass{number: normBack, y: &dx, x: &x, scale: &scale, addend: &dy, work: &use})
	}
}

// The operands of each normalization.
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
