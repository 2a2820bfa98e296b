package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

var (
	reduceKernel         = halved(shader("reduce", "reduce.comp"))
	reduceIntegerKernels = map[graph.DType]*graph.Kernel{
		graph.Int32: shader("reduce-i", "reduceint.comp", "-DELEMENT=int"),
		graph.Int64: shader("reduce-l", "reduceint.comp", "-DELEMENT=int64_t"),
	}
)

// The operations of reduce.comp: how it combines terms, what it applies to each term first,
// and to the result at the end.
const (
	foldSum, foldMax, foldMin, foldProduct         = 0, 1, 2, 3
	termPlain, termSquare, termSize, termExp       = 0, 1, 2, 3
	finalScale, finalRoot, finalLog, finalLogOfExp = 0, 1, 2, 3
)

// loweredReduction is a reduction in terms of reduce.comp.
type loweredReduction struct {
	fold, term, final uint32
	mean              bool
	tops              *graph.Buffer // maxima to subtract before exponentials
	goesOn            bool          // accumulate onto the results
}

// reduceBytes is the most bytes reduced in one run if terms are farther apart than results.
// Larger inputs are split into parts, each within the descriptor range of every device.
const reduceBytes = 64 << 20

// reducePart is the number of terms that one subgroup or lane sums if there are few results;
// the kernel sums reduceBlock of them at a time.
const (
	reducePart  = 4096
	reduceBlock = 32
)

// reduceParts returns how many parts the terms of a result are split into, and their size.
func reduceParts(results, terms int, apart bool) (parts, each int) {
	parts = 1
	if results < 1024 {
		parts = min(index.CeilDiv(max(terms, 1), reducePart), 64)
	}
	if results*parts > 1<<16 {
		parts = max(1, 1<<16/results)
	}
	if apart {
		parts = max(parts, index.CeilDiv(4*results*terms, reduceBytes))
	}
	each = index.CeilDiv(index.CeilDiv(max(terms, 1), parts), reduceBlock) * reduceBlock
	return index.CeilDiv(max(terms, 1), each), each
}

func (r loweredReduction) lower(l *graph.Lowering) {
	if reduceIntegerKernels[l.In[0].Type] != nil {
		r.lowerIntegers(l)
		return
	}
	if !onlyTypes(l, []graph.DType{graph.Float32, graph.Int64}, []graph.DType{graph.Float32}) {
		return
	}
	shape, axes := index.MergeDims(l.In[0].Shape, reducedAxes(l.Node))
	if r.term == termExp {
		// Compute maxima first, so that exponentials do not overflow.
		bytes := int64(4 * l.Out[0].Len())
		l.Scratch = aligned(bytes)
		loweredReduction{fold: foldMax}.append(l, reads(0), shape, axes, scratch(0, bytes, true))
		r.tops = new(scratch(0, bytes, false))
	}
	r.append(l, reads(0), shape, axes, writes(0))
}

// lowerIntegers reduces integers; means, roots and logarithms are not supported.
func (r loweredReduction) lowerIntegers(l *graph.Lowering) {
	t := l.In[0].Type
	stay, stayAt, gone, goneAt := index.Split(index.MergeDims(l.In[0].Shape, reducedAxes(l.Node)))
	results, terms := index.Elems(stay), index.Elems(gone)
	switch {
	case r.mean || r.final != finalScale || !l.Limits.Int64:
		l.Refuse("there is no kernel for %s", t)
		return
	case results == 0 || !mustFit(l, stay, 3) || !mustFit(l, gone, 3):
		return
	case terms == 0 && (r.fold == foldMax || r.fold == foldMin):
		l.Refuse("the reduced dims are empty")
		return
	}
	push := append(append(words(l, results, terms), reducedDims(l, stay, stayAt)...), reducedDims(l, gone, goneAt)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: reduceIntegerKernels[t], Spec: []uint32{r.fold, r.term}, Push: push, Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, index.CeilDiv(results, 64)),
	})
}

// append reduces a float32 tensor along axes. Many terms of few results are reduced in two
// runs, through work space.
func (r loweredReduction) append(l *graph.Lowering, x graph.Buffer, shape, axes []int, y graph.Buffer) {
	stay, stayAt, gone, goneAt := index.Split(shape, axes)
	results, terms := index.Elems(stay), index.Elems(gone)
	if results == 0 {
		return
	}
	if !mustFit(l, stay, 3) || !mustFit(l, gone, 3) {
		return
	}
	scale := 1.0
	if r.mean {
		scale = 1 / float64(terms)
	}
	sums := reducing{stay: stay, stayAt: stayAt, gone: gone, goneAt: goneAt, along: slices.Contains(axes, len(shape)-1) || len(stay) == 0}
	parts, each := reduceParts(results, terms, !sums.byResults())
	if parts == 1 {
		r.inPieces(l, x, y, sums, scale)
		return
	}
	at, bytes := aligned(l.Scratch), int64(4*results*parts)
	l.Scratch = at + aligned(bytes)
	sums.part = each
	first := loweredReduction{fold: r.fold, term: r.term, tops: r.tops}
	first.firstRun(l, x, scratch(at, bytes, true), sums, 0, results, 0, parts)
	second := loweredReduction{fold: r.fold, final: r.final, tops: r.tops}
	second.dispatch(l, scratch(at, bytes, false), y, ofRows(parts, results, results), 0, results, 0, 1, 0, scale)
}

// ofRows reduces n rows at stride step.
func ofRows(n, columns, step int) reducing {
	return reducing{stay: []int{columns}, stayAt: []int{1}, gone: []int{n}, goneAt: []int{step}, part: n}
}

// reducing is the layout of a reduction: dims and strides that stay and that are reduced, and
// the number of terms of a part.
type reducing struct {
	stay, stayAt, gone, goneAt []int
	along                      bool // terms are contiguous
	part                       int
}

// byResults reports whether results are farther apart than terms.
func (s reducing) byResults() bool {
	return len(s.stay) > 0 && (len(s.gone) == 0 || s.stayAt[0] >= s.goneAt[0])
}

// seen returns the range of elements that some results and parts read.
func (s reducing) seen(first, results, part, parts int) (from, to int) {
	from, to = reach(s.stay, s.stayAt, first, results)
	low, high := reach(s.gone, s.goneAt, part*s.part, min(parts*s.part, index.Elems(s.gone)))
	return from + low, to + high + 1
}

// reach returns the least and greatest offset of elements [from, to) of a strided shape.
func reach(dims, at []int, from, to int) (least, most int) {
	if len(dims) == 0 || from >= to {
		return 0, 0
	}
	inner := index.Elems(dims[1:])
	first, last := from/inner, (to-1)/inner
	least, most = reach(dims[1:], at[1:], 0, inner)
	if first == last {
		least, most = reach(dims[1:], at[1:], from%inner, (to-1)%inner+1)
	}
	return least + first*at[0], most + last*at[0]
}

// reducedDims returns three dims and strides as push constants, without the outermost dim.
func reducedDims(l *graph.Lowering, dims, at []int) []uint32 {
	dims, at = index.Padded(3, dims, 1), index.Padded(3, at, 0)
	return words(l, dims[1], dims[2], at[0], at[1], at[2])
}

// inPieces reduces in one dispatch, or if x exceeds the descriptor range in one for each piece
// of the results.
func (r loweredReduction) inPieces(l *graph.Lowering, x, y graph.Buffer, s reducing, scale float64) {
	s.part = index.Elems(s.gone)
	n, bytes := 1, []int64{0, 0, 0}
	if s.byResults() {
		n, bytes[0], bytes[1] = s.stay[0], int64(4*index.Elems(s.stay[1:])), int64(4*s.stayAt[0])
	}
	tops := unused(false)
	if r.tops != nil {
		tops, bytes[2] = *r.tops, bytes[0]
	}
	inPieces(l, n, []graph.Buffer{y, x, tops}, bytes, func(rows int, b []graph.Buffer) {
		part, s := r, s
		if r.tops != nil {
			part.tops = &b[2]
		}
		if rows < n {
			s.stay = append([]int{rows}, s.stay[1:]...)
		}
		part.dispatch(l, b[1], b[0], s, 0, index.Elems(s.stay), 0, 1, 0, scale)
	})
}

// firstRun reduces parts of the terms of results, as many at a time as fit the descriptor
// range of x.
func (r loweredReduction) firstRun(l *graph.Lowering, x, y graph.Buffer, s reducing, first, results, part, parts int) {
	from, to := s.seen(first, results, part, parts)
	some, fewer := (first+results)/2, (part+parts)/2
	switch fits := int64(4*to) <= l.Limits.Range || int64(4*(to-from)) <= l.Limits.Range-pieceAlignment; {
	case !fits && first < some && (s.byResults() || part == fewer):
		r.firstRun(l, x, y, s, first, some, part, parts)
		r.firstRun(l, x, y, s, some, results, part, parts)
	case !fits && part < fewer:
		r.firstRun(l, x, y, s, first, results, part, fewer)
		r.firstRun(l, x, y, s, first, results, fewer, parts)
	default:
		before := 0
		if int64(4*to) > l.Limits.Range {
			before = from / pieceStep * pieceStep
		}
		x.At, x.Bytes = x.At+int64(4*before), int64(4*(to-before))
		r.dispatch(l, x, y, s, first, results, part, parts, before, 1)
	}
}

// dispatch reduces parts of the terms of results; x is bound from element before on.
func (r loweredReduction) dispatch(l *graph.Lowering, x, y graph.Buffer, s reducing, first, results, part, parts, before int, scale float64) {
	each := l.Limits.Subgroup // results of a workgroup
	if s.along {
		each = 1
	}
	ranks := []uint32{uint32(max(1, len(s.stay))), uint32(max(1, len(s.gone)))}
	push := append(words(l, first, results, index.Elems(s.stay), part, s.part, index.Elems(s.gone), before), bits(scale))
	push = append(append(push, reducedDims(l, s.stay, s.stayAt)...), reducedDims(l, s.gone, s.goneAt)...)
	groups, tops := inLine(l, index.CeilDiv(results-first, each)), unused(false)
	if r.tops != nil {
		tops = *r.tops
	}
	groups[2] = parts - part
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  reduceKernel,
		Spec:    append([]uint32{uint32(l.Limits.Subgroup), oneIf(s.along), r.fold, r.term, r.final}, append(ranks, oneIf(r.goesOn))...),
		Push:    push,
		Buffers: []graph.Buffer{y, x, tops},
		Groups:  groups,
	})
}

// inParts reduces parts of each input from number first on into consecutive work space, and
// returns the number of parts.
func (r loweredReduction) inParts(l *graph.Lowering, first int) (all int) {
	for i := first; i < len(l.In); i++ {
		n := l.In[i].Len()
		// The kernel writes every part, empty ones, too; a multiple of 16 keeps 64-byte alignment.
		parts := 16 * index.CeilDiv(min(index.CeilDiv(n, reducePart), 64), 16)
		if parts == 0 {
			continue
		}
		each := index.CeilDiv(index.CeilDiv(n, parts), reduceBlock) * reduceBlock
		r.firstRun(l, reads(i), scratch(int64(4*all), int64(4*parts), true), reducing{gone: []int{n}, goneAt: []int{1}, along: true, part: each}, 0, 1, 0, parts)
		all += parts
	}
	l.Scratch = max(int64(4*all), 64)
	return all
}
