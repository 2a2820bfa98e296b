package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// Attention by strips is what other operators are made of, strip after strip:
// products, a softmax and its gradient. Only what lies between is its own.

var scoresKernel = halved(shader("scores", "scores.comp"))

// loweredFlash is a node, and a strip of it.
type loweredFlash struct {
	*flash
	l          *graph.Lowering
	at         int // input Q
	shape      []int
	strides    []int // of the bias: under three dims of the batch, queries, keys
	from, rows int
}

func lowerFlash(l *graph.Lowering, back bool) {
	if !onlyF32(l) {
		return
	}
	at := 0
	if back {
		at = 1
	}
	f := loweredFlash{flash: newFlash(loweredCall(l), at), l: l, at: at}
	if f.batch*f.queries*f.keys == 0 {
		for i := range l.Out {
			lowerFill(l, i, 0)
		}
		return
	}
	if f.bias != nil {
		last := len(f.flash.shape) - 2
		dims, st := mergeStrides(f.flash.shape[:last], f.biasAt[:last])
		if !mustFit(l, dims, 3) {
			return
		}
		f.shape, f.strides = frontFilled(3, dims, 1), slices.Concat(frontFilled(3, st[0], 0), f.biasAt[last:])
	} else {
		f.shape, f.strides = []int{1, 1, f.batch}, make([]int, 5)
	}
	most := stripRows(f.queries)
	one := (int64(4*f.batch*most*f.keys) + 63) &^ 63
	if l.Scratch = one; back {
		l.Scratch = 2 * one
	}
	for f.from = 0; f.from < f.queries && l.Refused == ""; f.from += most {
		f.rows = min(most, f.queries-f.from)
		p, flow := f.strip(0), f.strip(one)
		f.softened(p)
		if !back {
			f.multiply(f.rows, f.out, f.keys, factor{p, f.rows * f.keys, f.keys, 1}, f.columns(reads(2), f.out), 1, f.part(writes(0), f.out), f.queries*f.out, false)
			continue
		}
		first := f.from == 0
		dy := f.part(reads(0), f.out)
		f.multiply(f.keys, f.out, f.rows, factor{p, f.rows * f.keys, 1, f.keys}, factor{dy, f.queries * f.out, 1, f.out}, 1, writes(2), f.keys*f.out, !first)
		f.multiply(f.rows, f.keys, f.out, factor{dy, f.queries * f.out, f.out, 1}, factor{reads(3), f.keys * f.out, f.out, 1}, 1, flow, f.rows*f.keys, false)
		f.lines(rowSoftmaxGrad, flow, flow, p)
		if f.left >= 0 || f.right >= 0 {
			f.scores(flow, false, 0)
		}
		f.multiply(f.rows, f.width, f.keys, factor{flow, f.rows * f.keys, f.keys, 1}, f.widthBy(), f.scale, f.part(writes(0), f.width), f.queries*f.width, false)
		q := f.part(reads(1), f.width)
		if f.transK {
			f.multiply(f.width, f.keys, f.rows, factor{q, f.queries * f.width, 1, f.width}, factor{flow, f.rows * f.keys, 1, f.keys}, f.scale, writes(1), f.width*f.keys, !first)
		} else {
			f.multiply(f.keys, f.width, f.rows, factor{flow, f.rows * f.keys, 1, f.keys}, factor{q, f.queries * f.width, 1, f.width}, f.scale, writes(1), f.keys*f.width, !first)
		}
	}
}

// strip is room in scratch for the strip.
func (f *loweredFlash) strip(at int64) graph.Buffer {
	return scratch(at, int64(4*f.batch*f.rows*f.keys), true)
}

// part is a buffer of rows from the strip's first on.
func (f *loweredFlash) part(b graph.Buffer, width int) graph.Buffer {
	b.At = int64(4 * f.from * width)
	return b
}

func (f *loweredFlash) columns(b graph.Buffer, width int) factor {
	return factor{b, f.keys * width, 1, width}
}

// keysBy is Kᵀ, widthBy is K.
func (f *loweredFlash) keysBy() factor {
	if f.transK {
		return factor{reads(f.at + 1), f.width * f.keys, 1, f.keys}
	}
	return factor{reads(f.at + 1), f.keys * f.width, f.width, 1}
}

func (f *loweredFlash) widthBy() factor {
	k := f.keysBy()
	k.outside, k.along = k.along, k.outside
	return k
}

// multiply appends the products of all matrices of the batch, or adds them to y.
func (f *loweredFlash) multiply(m, n, k int, a, b factor, alpha float64, y graph.Buffer, step int, add bool) {
	if y.Writes = true; y.Place == graph.PlaceScratch && y.Bytes == 0 {
		panic("kernels: a strip without its bytes")
	}
	x := productOf(m, n, k, f.batch, a, b, y, step)
	x.alpha = alpha
	if add {
		x.c, x.biased, x.beta, x.ci, x.cj, x.cStep = unwritten(y), true, 1, n, 1, step
	}
	x.append(f.l)
}

func unwritten(b graph.Buffer) graph.Buffer {
	b.Writes = false
	return b
}

// softened fills p with the probabilities of the strip.
func (f *loweredFlash) softened(p graph.Buffer) {
	q := factor{f.part(reads(f.at), f.width), f.queries * f.width, f.width, 1}
	f.multiply(f.rows, f.keys, f.width, q, f.keysBy(), f.scale, p, f.rows*f.keys, false)
	if f.bias != nil || f.left >= 0 || f.right >= 0 {
		f.scores(p, f.bias != nil, f.fill)
	}
	f.lines(rowSoftmax, p, p, p)
}

// scores adds the bias to a strip, and fills in what is not seen.
func (f *loweredFlash) scores(y graph.Buffer, biased bool, fill float64) {
	bias := unused(false)
	if biased {
		bias = reads(f.at + 3)
	}
	n := f.batch * f.rows * f.keys
	push := words(f.l, append([]int{n, f.rows, f.keys, f.from, f.shape[1], f.shape[2]}, f.strides...)...)
	f.l.Dispatches = append(f.l.Dispatches, graph.Dispatch{
		Kernel: scoresKernel, Spec: []uint32{oneIf(biased)}, Push: append(push, uint32(int32(f.left)), uint32(int32(f.right)), bits(fill)),
		Buffers: []graph.Buffer{y, unwritten(y), bias}, Groups: inLine(f.l, ceilDiv(n, 256)),
	})
}

// lines appends a rule along the rows of strips.
func (f *loweredFlash) lines(rule uint32, y, a, b graph.Buffer) {
	before := len(f.l.Dispatches)
	lowerLines(f.l, rule, f.batch*f.rows, f.keys, 1, unwritten(a), unwritten(b))
	for i := before; i < len(f.l.Dispatches); i++ {
		f.l.Dispatches[i].Buffers[0] = y
	}
}
