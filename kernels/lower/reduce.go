package lower

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

var (
	reduceKernel         = Halved(Shader("reduce", "reduce.comp"))
	reduceTogether       = Halved(Shader("reduce-together", "reduce.comp", "-DTOGETHER"))
	reduceIntegerKernels = map[graph.DType]*graph.Kernel{
		graph.Int32: Shader("reduce-i", "reduceint.comp", "-DELEMENT=int"),
		graph.Int64: Shader("reduce-l", "reduceint.comp", "-DELEMENT=int64_t"),
	}
)

// The operations of reduce.comp: how it combines terms, what it applies to each term first,
// and to the result at the end.
const (
	FoldSum, FoldMax, FoldMin, FoldProduct         = 0, 1, 2, 3
	termPlain, TermSquare, TermSize, TermExp       = 0, 1, 2, 3
	finalScale, FinalRoot, FinalLog, FinalLogOfExp = 0, 1, 2, 3
)

// Reduction is a reduction in terms of reduce.comp.
type Reduction struct {
	Fold, Term, Final uint32
	Mean              bool
	tops              *graph.Buffer // maxima to subtract before exponentials
	GoesOn            bool          // accumulate onto the results
}

// reduceBytes is the most bytes reduced in one run if terms are farther apart than results.
// Larger inputs are split into parts, each within the descriptor range of every device.
const reduceBytes = 64 << 20

// ReducePart is the number of terms that one subgroup or lane sums if there are few results;
// the kernel sums ReduceBlock of them at a time.
const (
	ReducePart  = 4096
	ReduceBlock = 32
)

// ReduceParts returns how many parts the terms of a result are split into, and their size.
func ReduceParts(results, terms int, apart bool) (parts, each int) {
	parts = 1
	if results < 1024 {
		parts = min(index.CeilDiv(max(terms, 1), ReducePart), 64)
	}
	if results*parts > 1<<16 {
		parts = max(1, 1<<16/results)
	}
	if apart {
		parts = max(parts, index.CeilDiv(4*results*terms, reduceBytes))
	}
	each = index.CeilDiv(index.CeilDiv(max(terms, 1), parts), ReduceBlock) * ReduceBlock
	return index.CeilDiv(max(terms, 1), each), each
}

// Lower appends the reduction of input 0 along some axes.
func (r Reduction) Lower(l *graph.Lowering, along []int) {
	if reduceIntegerKernels[l.In[0].Type] != nil {
		r.lowerIntegers(l, along)
		return
	}
	if !OnlyTypes(l, []graph.DType{graph.Float32, graph.Int64}, []graph.DType{graph.Float32}) {
		return
	}
	shape, axes := index.MergeDims(l.In[0].Shape, along)
	if r.Term == TermExp {
		// Compute maxima first, so that exponentials do not overflow.
		bytes := int64(4 * l.Out[0].Len())
		l.Scratch = Aligned(bytes)
		Reduction{Fold: FoldMax}.Append(l, Reads(0), shape, axes, Scratch(0, bytes, true))
		r.tops = new(Scratch(0, bytes, false))
	}
	r.Append(l, Reads(0), shape, axes, Writes(0))
}

// lowerIntegers reduces integers; means, roots and logarithms are not supported.
func (r Reduction) lowerIntegers(l *graph.Lowering, along []int) {
	t := l.In[0].Type
	stay, stayAt, gone, goneAt := index.Split(index.MergeDims(l.In[0].Shape, along))
	results, terms := index.Elems(stay), index.Elems(gone)
	switch {
	case r.Mean || r.Final != finalScale || !l.Limits.Int64:
		l.Refuse("there is no kernel for %s", t)
		return
	case results == 0 || !MustFit(l, stay, 3) || !MustFit(l, gone, 3):
		return
	case terms == 0 && (r.Fold == FoldMax || r.Fold == FoldMin):
		l.Refuse("the reduced dims are empty")
		return
	}
	push := append(append(Words(l, results, terms), reducedDims(l, stay, stayAt)...), reducedDims(l, gone, goneAt)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: reduceIntegerKernels[t], Spec: []uint32{r.Fold, r.Term}, Push: push, Buffers: []graph.Buffer{Writes(0), Reads(0)}, Groups: InLine(l, index.CeilDiv(results, 64)),
	})
}

// Append reduces a float32 tensor along axes. Many terms of few results are reduced in two
// runs, through work space.
func (r Reduction) Append(l *graph.Lowering, x graph.Buffer, shape, axes []int, y graph.Buffer) {
	stay, stayAt, gone, goneAt := index.Split(shape, axes)
	results, terms := index.Elems(stay), index.Elems(gone)
	if results == 0 {
		return
	}
	if !MustFit(l, stay, 3) || !MustFit(l, gone, 3) {
		return
	}
	scale := 1.0
	if r.Mean {
		scale = 1 / float64(terms)
	}
	sums := reducing{stay: stay, stayAt: stayAt, gone: gone, goneAt: goneAt, along: slices.Contains(axes, len(shape)-1) || len(stay) == 0}
	parts, each := ReduceParts(results, terms, !sums.byResults())
	if parts == 1 {
		r.inPieces(l, x, y, sums, scale)
		return
	}
	at, bytes := Aligned(l.Scratch), int64(4*results*parts)
	l.Scratch = at + Aligned(bytes)
	sums.part = each
	first := Reduction{Fold: r.Fold, Term: r.Term, tops: r.tops}
	first.firstRun(l, x, Scratch(at, bytes, true), sums, 0, results, 0, parts)
	second := Reduction{Fold: r.Fold, Final: r.Final, tops: r.tops}
	second.Dispatch(l, Scratch(at, bytes, false), y, OfRows(parts, results, results), 0, results, 0, 1, 0, scale)
}

// OfRows reduces n rows at stride step.
func OfRows(n, columns, step int) reducing {
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
	return Words(l, dims[1], dims[2], at[0], at[1], at[2])
}

// inPieces reduces in one dispatch, or if x exceeds the descriptor range in one for each piece
// of the results.
func (r Reduction) inPieces(l *graph.Lowering, x, y graph.Buffer, s reducing, scale float64) {
	s.part = index.Elems(s.gone)
	n, bytes := 1, []int64{0, 0, 0}
	if s.byResults() {
		n, bytes[0], bytes[1] = s.stay[0], int64(4*index.Elems(s.stay[1:])), int64(4*s.stayAt[0])
	}
	tops := Unused(false)
	if r.tops != nil {
		tops, bytes[2] = *r.tops, bytes[0]
	}
	InPieces(l, n, []graph.Buffer{y, x, tops}, bytes, func(rows int, b []graph.Buffer) {
		part, s := r, s
		if r.tops != nil {
			part.tops = &b[2]
		}
		if rows < n {
			s.stay = append([]int{rows}, s.stay[1:]...)
		}
		part.Dispatch(l, b[1], b[0], s, 0, index.Elems(s.stay), 0, 1, 0, scale)
	})
}

// firstRun reduces parts of the terms of results, as many at a time as fit the descriptor
// range of x.
func (r Reduction) firstRun(l *graph.Lowering, x, y graph.Buffer, s reducing, first, results, part, parts int) {
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
			before = from / PieceStep * PieceStep
		}
		x.At, x.Bytes = x.At+int64(4*before), int64(4*(to-before))
		r.Dispatch(l, x, y, s, first, results, part, parts, before, 1)
	}
}

// Dispatch reduces parts of the terms of results; x is bound from element before on.
func (r Reduction) Dispatch(l *graph.Lowering, x, y graph.Buffer, s reducing, first, results, part, parts, before int, scale float64) {
	each := l.Limits.Subgroup // results of a workgroup
	if s.along {
		each = 1
	}
	ranks := []uint32{uint32(max(1, len(s.stay))), uint32(max(1, len(s.gone)))}
	push := append(Words(l, first, results, index.Elems(s.stay), part, s.part, index.Elems(s.gone), before), Bits(scale))
	push = append(append(push, reducedDims(l, s.stay, s.stayAt)...), reducedDims(l, s.gone, s.goneAt)...)
	kernel, spec, tail := reduceKernel, []uint32{uint32(l.Limits.Subgroup)}, []uint32{OneIf(r.GoesOn)}
	if width := s.together(l); width > 0 {
		local := SmallTeam
		if lines := SmallTeam / width; !s.along {
			width = columnsOf(l, width, lines, results, min(s.part, index.Elems(s.gone)))
			local = lines * width
		}
		each, kernel, spec, tail = width, reduceTogether, []uint32{uint32(local)}, append(tail, uint32(width))
	}
	groups, tops := InLine(l, index.CeilDiv(results-first, each)), Unused(false)
	if r.tops != nil {
		tops = *r.tops
	}
	groups[2] = parts - part
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  kernel,
		Spec:    slices.Concat(spec, []uint32{OneIf(s.along), r.Fold, r.Term, r.Final}, ranks, tail),
		Push:    push,
		Buffers: []graph.Buffer{y, x, tops},
		Groups:  groups,
	})
}

// together is how many results a workgroup of SmallTeam invocations reduces; 0: a subgroup, or each of its lanes, has a result of
// its own. Neighbouring invocations read neighbouring elements, at least a sector of eight; few results have more workgroups so.
func (s reducing) together(l *graph.Lowering) int {
	terms, results := min(s.part, index.Elems(s.gone)), index.Elems(s.stay)
	switch {
	case !l.Limits.Shared || !Fits(SmallTeam, l.Limits.Invocations):
		return 0
	case s.along && terms > 1024:
		return 1
	case s.along || terms <= ReduceBlock:
		return 0
	case results >= 1<<14:
		return 32
	}
	return 8
}

// columnsOf picks how many neighbouring results a workgroup reduces, each by a number of lines of invocations, on which alone
// the order of sums depends.
func columnsOf(l *graph.Lowering, expected, lines, results, terms int) int {
	widths, variants := map[string]int{}, []string{}
	for _, width := range []int{expected, 8, 16, 32, 64} {
		name := fmt.Sprint("columns-", width)
		if widths[name] == 0 && lines*width >= l.Limits.Subgroup && Fits(lines*width, l.Limits.Invocations) && lines*width <= largeTeam {
			widths[name], variants = width, append(variants, name)
		}
	}
	return widths[l.Pick(fmt.Sprintf("sums in %d lines %d×%d", lines, SizeClass(results), SizeClass(terms)), variants...)]
}

// InParts reduces parts of each input from number first on into consecutive work space, and
// returns the number of parts.
func (r Reduction) InParts(l *graph.Lowering, first int) (all int) {
	for i := first; i < len(l.In); i++ {
		n := l.In[i].Len()
		// The kernel writes every part, empty ones, too; a multiple of 16 keeps 64-byte alignment.
		parts := 16 * index.CeilDiv(min(index.CeilDiv(n, ReducePart), 64), 16)
		if parts == 0 {
			continue
		}
		each := index.CeilDiv(index.CeilDiv(n, parts), ReduceBlock) * ReduceBlock
		r.firstRun(l, Reads(i), Scratch(int64(4*all), int64(4*parts), true), reducing{gone: []int{n}, goneAt: []int{1}, along: true, part: each}, 0, 1, 0, parts)
		all += parts
	}
	l.Scratch = max(int64(4*all), 64)
	return all
}
