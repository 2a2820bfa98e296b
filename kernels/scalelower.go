package kernels

import (
	"math"
	"slices"

	"memopt/memopt/graph"
)

var (
	lossScaleKernel = shader("lossscale", "lossscale.comp")
	lambKernel      = shader("lamb", "lamb.comp")
)

// The modes of the kernel.
const (
	scaleSeed, scaleNext, scaleFinite, scaleCount = 0, 1, 2, 3
)

// lowerScaleMode appends a mode; the buffers are y, number, scale, last, factor
// and work, nil where there is no use for them.
func lowerScaleMode(l *graph.Lowering, mode uint32, local, parts int, buffers [6]*graph.Buffer) {
	initial, window := 0.0, 0
	if mode != scaleCount {
		initial = l.Node.Float("initial")
	}
	if mode == scaleNext {
		window = max(0, min(l.Node.Int("window"), math.MaxInt32))
	}
	bound := make([]graph.Buffer, len(buffers))
	for i, b := range buffers {
		if bound[i] = unused(i < 2); b != nil {
			bound[i] = *b
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: lossScaleKernel, Spec: []uint32{uint32(local), mode, oneIf(buffers[4] != nil)},
		Push:    append([]uint32{bits(initial), bits(leastLossScale), bits(mostLossScale)}, words(l, window, parts)...),
		Buffers: bound, Groups: [3]int{1, 1, 1},
	})
}

func lowerLossSeed(l *graph.Lowering) {
	if onlyF32(l) {
		lowerScaleMode(l, scaleSeed, 1, 0, [6]*graph.Buffer{0: new(writes(0)), 2: new(reads(0))})
	}
}

func lowerNextLossScale(l *graph.Lowering) {
	lowerScaleMode(l, scaleNext, 1, 0, [6]*graph.Buffer{new(writes(0)), new(writes(1)), new(reads(0)), new(reads(1)), new(reads(2)), nil})
}

// lowerUnscale finds the largest sizes of parts of the gradients: one that is not
// finite shows there.
func lowerUnscale(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	parts := loweredReduction{fold: foldMax, term: termSize}.inParts(l, 2)
	work := scratch(0, l.Scratch, false)
	lowerScaleMode(l, scaleFinite, l.Limits.Subgroup, parts, [6]*graph.Buffer{0: new(writes(0)), 2: new(reads(0)), 4: optionalIn(l, 1), 5: &work})
}

// lowerScaledCount counts an update that may not be.
func lowerScaledCount(l *graph.Lowering) {
	lowerScaleMode(l, scaleCount, 1, 0, [6]*graph.Buffer{1: new(writes(0)), 2: new(reads(1)), 3: new(reads(0))})
}

func lowerLamb(l *graph.Lowering) {
	f, i := graph.Float32, graph.Int64
	if !onlyTypes(l, []graph.DType{f, f, f, f, i, f}, []graph.DType{f}) {
		return
	}
	n := l.Out[0].Len()
	if n == 0 {
		return
	}
	if loweredOut(l, 1) == nil || loweredOut(l, 2) == nil {
		l.Refuse("a state of it is not kept")
		return
	}
	scale, scaled := reads(2), loweredIn(l, 3) != nil
	if scaled {
		scale = reads(3)
	}
	parts := min(ceilDiv(n, reducePart), 64)
	each := ceilDiv(n, parts)
	l.Scratch = int64(4 * (2*parts + 1))
	work := scratch(0, l.Scratch, true)
	dispatch := func(pass, local, n, some, at, begin, groups int, buffers []graph.Buffer) {
		push := words(l, n, some, each, at, begin, parts)
		for _, x := range adamNumbers(l.Node) {
			push = append(push, bits(x))
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: lambKernel, Spec: []uint32{uint32(local), uint32(pass), oneIf(scaled)}, Push: push, Buffers: buffers, Groups: inLine(l, groups),
		})
	}
	buffers := []graph.Buffer{writes(0), reads(1), reads(2), scale, reads(4), writes(1), writes(2), work}
	some := samplesAtOnce(l, parts, each)
	for first := 0; first < parts; first += some {
		some, before := min(some, parts-first), 0
		seen := slices.Clone(buffers)
		for _, i := range []int{0, 1, 5, 6} { // the parameter, its gradient and its states
			seen[i], before = samplesOf(l, buffers[i], parts, each, first, some)
			seen[i].Bytes = min(seen[i].Bytes, int64(4*(n-before))) // the last part may be a shorter one
		}
		begin := first*each - before
		dispatch(0, l.Limits.Subgroup, min(begin+some*each, n-before), some, first, begin, some, seen)
	}
	dispatch(1, l.Limits.Subgroup, 0, 0, 0, 0, 1, []graph.Buffer{unused(true), unused(false), reads(2), scale, reads(4), unused(true), unused(true), work})
	inPieces(l, n, buffers, []int64{4, 4, 0, 0, 0, 4, 4, 0}, func(n int, buffers []graph.Buffer) {
		dispatch(2, 256, n, 0, 0, 0, ceilDiv(n, 256), buffers)
	})
}
