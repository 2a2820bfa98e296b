package kernels

import (
	"math"

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

// lowerUnscale finds the largest sizes of parts of the gradients, behind each
// other in scratch: one that is not finite shows there.
func lowerUnscale(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	parts := func(i int) int {
		// The kernel fills every part, so 16 of them are 64 bytes without a gap.
		return 16 * ceilDiv(min(ceilDiv(l.In[i].Len(), reducePart), 64), 16)
	}
	largest, bytes := loweredReduction{fold: foldMax, term: termSize}, int64(0)
	for i := 2; i < len(l.In); i++ {
		n, k := l.In[i].Len(), parts(i)
		if k == 0 {
			continue
		}
		largest.dispatch(l, reads(i), scratch(bytes, int64(4*k), true), true, 1, n, k, 1, nil, nil, []int{n}, []int{1})
		bytes += int64(4 * k)
	}
	l.Scratch = max(bytes, 64)
	var factor *graph.Buffer
	if loweredIn(l, 1) != nil {
		factor = new(reads(1))
	}
	work := scratch(0, l.Scratch, false)
	lowerScaleMode(l, scaleFinite, l.Limits.Subgroup, int(bytes/4), [6]*graph.Buffer{0: new(writes(0)), 2: new(reads(0)), 4: factor, 5: &work})
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
	l.Scratch = int64(4 * (2*parts + 1))
	push := words(l, n, parts)
	for _, x := range adamNumbers(l.Node) {
		push = append(push, bits(x))
	}
	for pass, groups := range []int{parts, 1, ceilDiv(n, 256)} {
		local := l.Limits.Subgroup
		if pass == 2 {
			local = 256
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: lambKernel, Spec: []uint32{uint32(local), uint32(pass), oneIf(scaled)}, Push: push,
			Buffers: []graph.Buffer{writes(0), reads(1), reads(2), scale, reads(4), writes(1), writes(2), scratch(0, l.Scratch, true)}, Groups: inLine(l, groups),
		})
	}
}
