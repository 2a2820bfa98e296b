package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

var rowKernel = shader("row", "row.comp")

// The kernel's rules.
const (
	rowSoftmax, rowLogSoftmax, rowSoftmaxGrad, rowLogSoftmaxGrad = 0, 1, 2, 3
)

// lowerRow is a rule along the attribute axis.
func lowerRow(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if !onlyF32(l) {
			return
		}
		shape := l.Out[0].Shape
		before, n, after := around(shape, axisOf(l.Node, l.Node.Int("axis"), len(shape)))
		if before*n*after == 0 {
			return
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: rowKernel, Spec: []uint32{uint32(l.Limits.Subgroup), rule}, Push: words(l, before*after, n, after),
			Buffers: []graph.Buffer{writes(0), reads(0), reads(len(l.In) - 1)}, Groups: inLine(l, before*after),
		})
	}
}

var normKernel = shader("norm", "norm.comp")

// The passes of the kernel.
const (
	normRows, normStats, normColumns, normSums, normBack = 0, 1, 2, 3, 4
)

// normParts is into how many parts the rows are cut for sums of columns.
func normParts(rows int) int { return max(1, min(32, rows/64)) }

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

func (w loweredNorm) geometry(l *graph.Lowering) (r rowNorm, ok bool) {
	if !onlyF32(l) {
		return r, false
	}
	for _, i := range w.none {
		if loweredIn(l, i) != nil {
			l.Refuse("a gradient flows into its statistics")
			return r, false
		}
	}
	r = newRowNorm(l.Node, l.In[w.x].Shape, w.centred)
	for _, i := range []int{w.scale, w.bias} {
		if i < 0 || loweredIn(l, i) == nil {
			continue
		}
		o := l.In[i]
		st := broadcastStrides(o.Shape, r.shape)
		if o.Len() != r.width || !slices.Equal(st, slices.Concat(make([]int, r.axis), strides(r.shape[r.axis:]))) && r.width > 1 {
			l.Refuse("input %d is not as long as a row", i)
			return r, false
		}
	}
	return r, r.rows*r.width > 0
}

func (w loweredNorm) pass(l *graph.Lowering, r rowNorm, pass uint32, bias, scale bool, stats uint32, groups [3]int, buffers ...graph.Buffer) {
	local := uint32(l.Limits.Subgroup)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: normKernel, Spec: []uint32{local, pass, oneIf(w.centred), oneIf(bias), oneIf(scale), stats},
		Push: append(words(l, r.rows, r.width, normParts(r.rows)), bits(r.eps)), Buffers: buffers, Groups: groups,
	})
}

func (w loweredNorm) forward(l *graph.Lowering) {
	r, ok := w.geometry(l)
	if !ok {
		return
	}
	x, scale := reads(w.x), reads(w.scale)
	bias, mean, inv := x, x, x
	biased := w.bias >= 0 && loweredIn(l, w.bias) != nil
	if biased {
		bias = reads(w.bias)
	}
	stats := uint32(0)
	if w.mean >= 0 && loweredOut(l, w.mean) != nil {
		mean, stats = writes(w.mean), stats|1
	}
	if w.inv >= 0 && loweredOut(l, w.inv) != nil {
		inv, stats = writes(w.inv), stats|2
	}
	w.pass(l, r, normRows, biased, true, stats, inLine(l, r.rows), writes(0), x, scale, bias, mean, inv, x)
}

func (w loweredNorm) backward(l *graph.Lowering) {
	r, ok := w.geometry(l)
	if !ok {
		return
	}
	x, dy, scale := reads(w.x), reads(w.dy), reads(w.scale)
	parts := normParts(r.rows)
	l.Scratch = int64(4 * (2*r.rows + 2*parts*r.width))
	work := func(written bool) graph.Buffer { return scratch(0, l.Scratch, written) }
	mean, inv, kept := x, x, uint32(0)
	if w.keptInv >= 0 {
		inv, kept = reads(w.keptInv), 1
		if w.centred {
			mean = reads(w.keptMean)
		}
	}
	w.pass(l, r, normStats, false, false, kept, inLine(l, r.rows), x, x, x, x, mean, inv, work(true))
	ds, db := loweredOut(l, w.dscale) != nil, w.dbias >= 0 && loweredOut(l, w.dbias) != nil
	columns := inLine(l, ceilDiv(r.width, l.Limits.Subgroup))
	if ds || db {
		groups := columns
		groups[2] = parts
		w.pass(l, r, normColumns, false, false, 0, groups, x, x, x, dy, x, x, work(true))
		to, also := x, x
		if ds {
			to = writes(w.dscale)
		}
		if db {
			also = writes(w.dbias)
		}
		w.pass(l, r, normSums, db, ds, 0, columns, to, x, x, also, x, x, work(false))
	}
	if loweredOut(l, 0) != nil {
		w.pass(l, r, normBack, false, false, 0, inLine(l, r.rows), writes(0), x, scale, dy, x, x, work(false))
	}
}

// The operators that are such.
var (
	layerNorm      = loweredNorm{centred: true, x: 0, scale: 1, bias: 2, mean: 1, inv: 2}
	layerNormGrad  = loweredNorm{centred: true, dy: 0, x: 1, scale: 2, bias: -1, keptMean: -1, keptInv: -1, dscale: 1, dbias: 2, none: []int{4, 5}}
	keptNormGrad   = loweredNorm{centred: true, dy: 0, x: 1, scale: 2, bias: -1, keptMean: 3, keptInv: 4, dscale: 1, dbias: 2}
	rmsNorm        = loweredNorm{x: 0, scale: 1, bias: -1, mean: -1, inv: -1}
	rmsNormGrad    = loweredNorm{dy: 0, x: 1, scale: 2, bias: -1, keptMean: -1, keptInv: -1, dscale: 1, dbias: -1}
	simplifiedNorm = loweredNorm{x: 0, scale: 1, bias: -1, mean: -1, inv: 1}
)
