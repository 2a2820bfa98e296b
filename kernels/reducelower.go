package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

var (
	reduceKernel         = halved(shader("reduce", "reduce.comp"))
	reduceIntegerKernels = map[graph.DType]*graph.Kernel{
		graph.Int32: shader("reduce-i", "reduceint.comp", "-DELEMENT=int"),
		graph.Int64: shader("reduce-l", "reduceint.comp", "-DELEMENT=int64_t"),
	}
)

// What the kernel folds with, what it takes of a term and what it does to the
// result; the shader has the numbers.
const (
	foldSum, foldMax, foldMin, foldProduct         = 0, 1, 2, 3
	termPlain, termSquare, termSize, termExp       = 0, 1, 2, 3
	finalScale, finalRoot, finalLog, finalLogOfExp = 0, 1, 2, 3
)

// loweredReduction is a reduction as the kernel does it.
type loweredReduction struct {
	fold, term, final uint32
	mean              bool
	tops              *graph.Buffer // of the results, for exponentials
	goesOn            bool          // from the results that there are
}

// reducePart is the terms that one subgroup or lane adds up alone where there
// are few results to share the work; the kernel adds them up reduceBlock at a time.
const (
	reducePart  = 4096
	reduceBlock = 32
)

// reduceParts is into how many parts terms are cut, and how many each has.
func reduceParts(results, terms int) (parts, each int) {
	parts = 1
	if results < 1024 {
		parts = min(ceilDiv(max(terms, 1), reducePart), 64)
	}
	if results*parts > 1<<16 {
		parts = max(1, 1<<16/results)
	}
	each = ceilDiv(ceilDiv(max(terms, 1), parts), reduceBlock) * reduceBlock
	return ceilDiv(max(terms, 1), each), each
}

func (r loweredReduction) lower(l *graph.Lowering) {
	if reduceIntegerKernels[l.In[0].Type] != nil {
		r.lowerIntegers(l)
		return
	}
	if !onlyTypes(l, []graph.DType{graph.Float32, graph.Int64}, []graph.DType{graph.Float32}) {
		return
	}
	shape, axes := mergeDims(l.In[0].Shape, reducedAxes(l.Node))
	if r.term == termExp {
		// The greatest first, so that no exponential is too large.
		bytes := int64(4 * l.Out[0].Len())
		l.Scratch = aligned(bytes)
		loweredReduction{fold: foldMax}.append(l, reads(0), shape, axes, scratch(0, bytes, true))
		r.tops = new(scratch(0, bytes, false))
	}
	r.append(l, reads(0), shape, axes, writes(0))
}

// lowerIntegers reduces integers: no means, roots or logarithms.
func (r loweredReduction) lowerIntegers(l *graph.Lowering) {
	t := l.In[0].Type
	stay, stayAt, gone, goneAt := split(mergeDims(l.In[0].Shape, reducedAxes(l.Node)))
	results, terms := elems(stay), elems(gone)
	switch {
	case r.mean || r.final != finalScale || !l.Limits.Int64:
		l.Refuse("input 0 is %s, for which there is no kernel here", t)
		return
	case results == 0 || !mustFit(l, stay, 3) || !mustFit(l, gone, 3):
		return
	case terms == 0 && (r.fold == foldMax || r.fold == foldMin):
		l.Refuse("there are no terms")
		return
	}
	push := append(append(words(l, results, terms), reducedDims(l, stay, stayAt)...), reducedDims(l, gone, goneAt)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: reduceIntegerKernels[t], Spec: []uint32{r.fold, r.term}, Push: push, Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, ceilDiv(results, 64)),
	})
}

// append reduces a float32 tensor along axes. Many terms of few results are
// added in two runs, by way of scratch.
func (r loweredReduction) append(l *graph.Lowering, x graph.Buffer, shape, axes []int, y graph.Buffer) {
	stay, stayAt, gone, goneAt := split(shape, axes)
	results, terms := elems(stay), elems(gone)
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
	parts, each := reduceParts(results, terms)
	along := slices.Contains(axes, len(shape)-1) || len(stay) == 0
	if parts == 1 {
		r.inPieces(l, x, y, along, scale, stay, stayAt, gone, goneAt)
		return
	}
	at, bytes := aligned(l.Scratch), int64(4*results*parts)
	l.Scratch = at + aligned(bytes)
	first := loweredReduction{fold: r.fold, term: r.term, tops: r.tops}
	first.firstRun(l, x, scratch(at, bytes, true), along, parts, each, stay, stayAt, gone, goneAt)
	second := loweredReduction{fold: r.fold, final: r.final, tops: r.tops}
	second.dispatch(l, scratch(at, bytes, false), y, false, results, parts, 1, parts, scale, []int{results}, []int{1}, []int{parts}, []int{results})
}

// reducedDims are dims and strides as the kernels have them: three, less the outer
// dim.
func reducedDims(l *graph.Lowering, dims, at []int) []uint32 {
	dims, at = frontFilled(3, dims, 1), frontFilled(3, at, 0)
	return words(l, dims[1], dims[2], at[0], at[1], at[2])
}

// inPieces reduces by one dispatch, or where x is larger than the device shows by
// one for some of the results each, or for some of the terms each, in order.
func (r loweredReduction) inPieces(l *graph.Lowering, x, y graph.Buffer, along bool, scale float64, stay, stayAt, gone, goneAt []int) {
	results, terms := elems(stay), elems(gone)
	byResults := len(stay) > 0 && (len(gone) == 0 || stayAt[0] >= goneAt[0])
	n, row, each := 1, 0, 0
	switch {
	case byResults:
		n, row, each = stay[0], stayAt[0], results/stay[0]
	case len(gone) > 0:
		n, row = gone[0], goneAt[0]
	}
	bytes := []int64{int64(4 * each), int64(4 * row), 0}
	whole := piece(l, n, bytes...) == n
	if r.tops != nil {
		bytes[2] = bytes[0]
	}
	tops := unused(false)
	switch {
	case r.tops != nil:
		tops = *r.tops
	case !whole && !byResults:
		tops = unwritten(y) // the kernel goes on from there: it must hold all bits of the sums
	}
	first := 0
	inPieces(l, n, []graph.Buffer{y, x, tops}, bytes, func(rows int, b []graph.Buffer) {
		part, scale := r, scale
		part.tops = nil
		if b[2].Place != graph.PlaceNone {
			part.tops = &b[2]
		}
		switch {
		case whole:
			part.dispatch(l, b[1], b[0], along, results, terms, 1, terms, scale, stay, stayAt, gone, goneAt)
		case byResults:
			some := append([]int{rows}, stay[1:]...)
			part.dispatch(l, b[1], b[0], along, elems(some), terms, 1, terms, scale, some, stayAt, gone, goneAt)
		default:
			some := append([]int{rows}, gone[1:]...)
			if part.goesOn = first > 0; first+rows < n {
				part.final, scale = finalScale, 1
			}
			part.dispatch(l, b[1], b[0], along, results, elems(some), 1, elems(some), scale, stay, stayAt, some, goneAt)
		}
		first += rows
	})
}

// firstRun reduces parts of the terms, as many of them at once as the device shows
// x of.
func (r loweredReduction) firstRun(l *graph.Lowering, x, y graph.Buffer, along bool, parts, each int, stay, stayAt, gone, goneAt []int) {
	results, terms := elems(stay), elems(gone)
	bytes := []int64{0, 0}
	if len(gone) == 1 && (len(stay) == 0 || goneAt[0] >= stayAt[0]) {
		bytes = []int64{int64(4 * results), int64(4 * each * goneAt[0])}
	}
	from := 0
	inPieces(l, parts, []graph.Buffer{y, x}, bytes, func(n int, b []graph.Buffer) {
		some, gone := max(0, min(n*each, terms-from)), gone
		if n < parts {
			gone = []int{some}
			b[1].Bytes = int64(4 * some * goneAt[0])
		}
		r.dispatch(l, b[1], b[0], along, results, some, n, each, 1, stay, stayAt, gone, goneAt)
		from += n * each
	})
}

// dispatch reduces so many parts of the terms.
func (r loweredReduction) dispatch(l *graph.Lowering, x, y graph.Buffer, along bool, results, terms, parts, part int, scale float64, stay, stayAt, gone, goneAt []int) {
	each := l.Limits.Subgroup // results of a group
	if along {
		each = 1
	}
	ranks := []uint32{uint32(max(1, len(stay))), uint32(max(1, len(gone)))}
	push := append(words(l, results, terms, part), bits(scale))
	push = append(append(push, reducedDims(l, stay, stayAt)...), reducedDims(l, gone, goneAt)...)
	groups, tops := inLine(l, ceilDiv(results, each)), unused(false)
	if r.tops != nil {
		tops = *r.tops
	}
	groups[2] = parts
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  reduceKernel,
		Spec:    append([]uint32{uint32(l.Limits.Subgroup), oneIf(along), r.fold, r.term, r.final}, append(ranks, oneIf(r.goesOn))...),
		Push:    push,
		Buffers: []graph.Buffer{y, x, tops},
		Groups:  groups,
	})
}

// inParts reduces parts of each input from first on into scratch, behind each
// other, and says how many there are.
func (r loweredReduction) inParts(l *graph.Lowering, first int) (all int) {
	for i := first; i < len(l.In); i++ {
		n := l.In[i].Len()
		// The kernel fills every part, so 16 of them are 64 bytes without a gap.
		parts := 16 * ceilDiv(min(ceilDiv(n, reducePart), 64), 16)
		if parts == 0 {
			continue
		}
		each := ceilDiv(ceilDiv(n, parts), reduceBlock) * reduceBlock
		r.firstRun(l, reads(i), scratch(int64(4*all), int64(4*parts), true), true, parts, each, nil, nil, []int{n}, []int{1})
		all += parts
	}
	l.Scratch = max(int64(4*all), 64)
	return all
}

var productGradKernel = halved(shader("prodgrad", "prodgrad.comp"))

func lowerProductGrad(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	shape := l.In[1].Shape
	stay, stayAt, gone, goneAt := split(mergeDims(shape, axesOf(l.Node, l.Node.Ints("axes"), len(shape))))
	results, terms := elems(stay), elems(gone)
	if results*terms == 0 || !mustFit(l, stay, 3) || !mustFit(l, gone, 3) {
		return
	}
	push := words(l, results, terms)
	for i, list := range [][]int{stay, stayAt, gone, goneAt} {
		push = append(push, words(l, frontFilled(3, list, 1-i%2)...)...)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: productGradKernel, Push: push, Buffers: []graph.Buffer{writes(0), reads(0), reads(1)}, Groups: inLine(l, ceilDiv(results, 64)),
	})
}
