package kernels

import "memopt/memopt/graph"

var (
	rotaryKernel = halved(shader("rotary", "rotary.comp"))
	triluKernels = map[int64]*graph.Kernel{
		1: shader("trilu-1", "trilu.comp", "-DELEMENT=uint8_t"),
		4: shader("trilu-4", "trilu.comp", "-DELEMENT=uint"),
		8: shader("trilu-8", "trilu.comp", "-DELEMENT=uvec2"),
	}
	cumSumKernels = map[graph.DType]*graph.Kernel{
		graph.Float32: shader("cumsum-f", "cumsum.comp", "-DELEMENT=float", "-DSCANS"),
		graph.Int32:   shader("cumsum-i", "cumsum.comp", "-DELEMENT=int", "-DSCANS"),
		graph.Int64:   shader("cumsum-l", "cumsum.comp", "-DELEMENT=int64_t"),
	}
	topKKernel = shader("topk", "topk.comp")
)

func lowerRotary(l *graph.Lowering) {
	f := graph.Float32
	if !onlyTypes(l, []graph.DType{f, f, f, graph.Int64}, []graph.DType{f}) {
		return
	}
	r := newRotary(loweredCall(l))
	n := r.rows * (r.head - r.half)
	if n == 0 {
		return
	}
	told, ids := loweredIn(l, 3) != nil, unused(false)
	if told {
		ids = reads(3)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: rotaryKernel, Spec: []uint32{oneIf(told), oneIf(r.four), oneIf(r.interleaved)},
		Push:    words(l, r.rows, r.head, r.half, r.heads, r.seq, min(l.In[1].Len(), l.In[2].Len())/max(1, r.half)),
		Buffers: []graph.Buffer{writes(0), reads(0), reads(1), reads(2), ids}, Groups: inLine(l, ceilDiv(n, 64)),
	})
}

func lowerTrilu(l *graph.Lowering) {
	x := l.In[0]
	kernel := triluKernels[x.Type.Size()]
	if kernel == nil || x.Type.Size() == 1 && !l.Limits.Int8 {
		l.Refuse("the input is %s, which has no kernel here", x.Type)
		return
	}
	rank := len(x.Shape)
	height, width, k := x.Shape[rank-2], x.Shape[rank-1], int64(0)
	if loweredIn(l, 1) != nil {
		ks, known := l.Ints(1)
		if !known {
			l.Refuse("k is only known when the step runs")
			return
		}
		k = max(-int64(height), min(ks[0], int64(width)))
	}
	if n := x.Len(); n > 0 {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{oneIf(l.Node.Int("upper") != 0)}, Push: append(words(l, n, height, width), uint32(int32(k))),
			Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, ceilDiv(n, 256)),
		})
	}
}

func lowerCumSum(l *graph.Lowering) {
	t := l.In[0].Type
	kernel := cumSumKernels[t]
	if kernel == nil || t == graph.Int64 && !l.Limits.Int64 {
		l.Refuse("x is %s, which has no kernel here", t)
		return
	}
	before, n, after := around(l.In[0].Shape, cumAxis(l.Node))
	lines := before * after
	if lines*n == 0 {
		return
	}
	// Many lines side by side are one lane each.
	along, groups := t != graph.Int64 && after < l.Limits.Subgroup, ceilDiv(lines, l.Limits.Subgroup)
	if along {
		groups = lines
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{uint32(l.Limits.Subgroup), oneIf(along), oneIf(l.Node.Int("exclusive") != 0), oneIf(l.Node.Int("reverse") != 0)},
		Push: words(l, lines, n, after), Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, groups),
	})
}

// lowerRanked finds the first k of lines; values is the output for them, or −1.
func lowerRanked(l *graph.Lowering, least, last, nans bool, axis, k, values, places int) {
	x := l.In[0]
	whole, known := map[graph.DType]uint32{graph.Float32: 0, graph.Int32: 1, graph.Int64: 2}[x.Type]
	if !known {
		l.Refuse("the input is %s; there is a kernel for f32, i32 and i64", x.Type)
		return
	}
	before, n, after := around(x.Shape, axis)
	if before*after*k == 0 {
		return
	}
	y := unused(true)
	if values >= 0 {
		y = writes(values)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: topKKernel,
		Spec:   []uint32{uint32(l.Limits.Subgroup), oneIf(least), whole, oneIf(values >= 0), oneIf(last), oneIf(nans)},
		Push:   words(l, before*after, n, after, k), Buffers: []graph.Buffer{y, reads(0), writes(places)}, Groups: inLine(l, before*after),
	})
}

func lowerTopK(l *graph.Lowering) {
	axis := axisOf(l.Node, l.Node.Int("axis"), len(l.In[0].Shape))
	if loweredOut(l, 0) == nil || loweredOut(l, 1) == nil {
		l.Refuse("only one of its outputs is wanted")
		return
	}
	lowerRanked(l, l.Node.Int("largest") == 0, false, false, axis, l.Out[0].Shape[axis], 0, 1)
}

func lowerArg(least bool) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		axis := axisOf(l.Node, l.Node.Int("axis"), len(l.In[0].Shape))
		lowerRanked(l, least, l.Node.Int("select_last_index") != 0, true, axis, 1, -1, 0)
	}
}
