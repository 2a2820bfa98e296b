package kernels

import (
	"iter"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// reduction describes an operator that reduces along axes.
type reduction struct {
	name  string
	doc   string
	since int                    // opset from which axes are an input
	types func(graph.DType) bool // element types; nil: numbers

	// of reduces the n elements of xs, in order; it may iterate several times. ints is
	// for integers and bools; nil uses of.
	of   func(xs iter.Seq[float64], n int) float64
	ints func(xs iter.Seq[int64], t graph.DType) int64
	// fold reduces known contents; nil if that is not supported.
	fold func(ds []graph.Dim) graph.Dim
	// grad is the gradient of x. dy and y have x's rank, with dims of 1 along the axes.
	grad func(b *graph.Builder, x, y, dy *graph.Value, axes []int) *graph.Value
	// quick is the fast form for float32; may be nil.
	quick *quickReduction
	// lowered is the Vulkan form; may be nil.
	lowered *lower.Reduction
	flops   int64    // for each element; 0 means 1
	pieces  []string // graph.Tests.Pieces
	// segments is the mode of SegmentReduce, "" if there is none.
	segments string
	// positive: samples must be positive.
	positive bool
}

var reduceSamples = []string{
	"f32[2,3,4], i64{1}",
	"f32[2,3,4], i64{1}; keepdims=0",
	"f32[2,3,4], i64{-1}; keepdims=0",
	"f32[2,3,4], i64{0,2}",
	"f32[2,3,2,2], i64{0,2}; keepdims=0",
	"f32[3,2], i64{0}",
	"f32[3,2]",
	"f32[3,2]; keepdims=0",
	"f32[3,2], i64{}",
	"f32[3], i64{}; noop_with_empty_axes=1",
	"f32[3]; noop_with_empty_axes=1",
	"f32[]",
	"f32[2,0,3], i64{0}",
	"f32[1100,3], i64{0}",
	"f32[2,1600,2,1], i64{1}; keepdims=0",
	"f64[3,2], i64{1}",
	"f16[3,2], i64{1}",
}

// defineReduce defines a reduction in two forms: with axes as an input, and of older opsets as
// an attribute.
func defineReduce(r reduction) *graph.Op {
	if r.types == nil {
		r.types = isNumber
	}
	samples := slices.Clone(reduceSamples)
	if r.positive {
		for i, s := range samples {
			samples[i] = strings.Replace(s, "]", "]>0", 1)
		}
	}
	if r.ints != nil {
		samples = append(samples, "i32[2,3], i64{1}", "i64{2,3,4}, i64{0}; keepdims=0")
	}
	if r.types(graph.Bool) {
		samples = append(samples, "bool[4,2], i64{1}")
	}
	op := graph.Op{
		Name:      r.name,
		Since:     r.since,
		Known:     []int{1},
		Doc:       r.doc,
		In:        "data, axes?",
		Out:       "reduced",
		Attrs:     "keepdims int=1, noop_with_empty_axes int=0",
		Infer:     r.infer,
		Ragged:    raggedReduce(r.segments),
		Grad:      r.gradient,
		Eval:      r.eval,
		Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems().Mul(graph.Num(max(1, r.flops))) },
		Tests:     graph.Tests{Work: eachIn(0, max(1, r.flops)), Pieces: r.pieces},
		Recompute: graph.Cheap,
		Samples:   samples,
	}
	if r.quick != nil {
		op.Fast = r.fast
		op.Scratch = columnParts
	}
	if r.lowered != nil {
		op.Lower = func(l *graph.Lowering) { r.lowered.Lower(l, reducedAxes(l.Node)) }
	}
	if r.since > 0 {
		define(graph.Op{
			Name:    r.name,
			Doc:     r.doc,
			In:      "data",
			Out:     "reduced",
			Attrs:   "axes ints, keepdims int=1",
			Rewrite: axesToInput,
		})
	}
	return define(op)
}

// axesToInput rewrites an operator with axes as an attribute into its newest form.
func axesToInput(b *graph.Builder, n *graph.Node) []*graph.Value {
	in := slices.Clone(n.Inputs)
	if axes := n.Ints("axes"); len(axes) > 0 {
		in = append(in, b.Ints(graph.Dims(axes...)...))
	}
	return []*graph.Value{b.Op(n.Op.FullName(), graph.A{"keepdims": n.Int("keepdims")}, in...)}
}

// reducedAxes returns the axes of a reduction, sorted.
func reducedAxes(n *graph.Node) []int {
	x := n.Inputs[0]
	var axes []int64
	if n.In(1) != nil {
		axes = knownInts(n, 1, "axes")
	}
	if len(axes) == 0 && n.Int("noop_with_empty_axes") == 0 {
		for i := range x.Shape {
			axes = append(axes, int64(i))
		}
	}
	return axesOf(n, axes, x.Rank())
}

// keptShape is shape s with dims of 1 along the axes.
func keptShape(s graph.Shape, axes []int) graph.Shape {
	out := slices.Clone(s)
	for _, a := range axes {
		out[a] = graph.Num(1)
	}
	return out
}

func (r reduction) infer(n *graph.Node) {
	wantType(n, 0, r.types, "numbers")
	x, axes := n.Inputs[0], reducedAxes(n)
	var shape graph.Shape
	for i, d := range x.Shape {
		switch {
		case !slices.Contains(axes, i):
			shape = append(shape, d)
		case n.Int("keepdims") != 0:
			shape = append(shape, graph.Num(1))
		}
	}
	n.Set(0, x.Type, shape)
	switch {
	case r.fold == nil || len(x.Ints) == 0:
	case len(axes) == 0:
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d, true })
	case len(axes) == x.Rank():
		foldEach(n, 1, func(int) (graph.Dim, bool) { return r.fold(x.Ints), true })
	}
}

func (r reduction) gradient(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x, axes := n.Inputs[0], reducedAxes(n)
	kept := keptShape(x.Shape, axes)
	dx := make([]*graph.Value, len(n.Inputs))
	dx[0] = r.grad(b, x, reshape(b, n.Outputs[0], kept), reshape(b, dy[0], kept), axes)
	return dx
}

// expandTo builds an Expand of v, or returns v if it has the shape already.
func expandTo(b *graph.Builder, v *graph.Value, s graph.Shape) *graph.Value {
	if v.Shape.Equal(s) {
		return v
	}
	return b.Op("Expand", nil, v, b.Ints(s...))
}

// count is the number of elements reduced to one, as a scalar of v's type.
func count(b *graph.Builder, v *graph.Value, s graph.Shape, axes []int) *graph.Value {
	n := graph.Num(1)
	for _, a := range axes {
		n = n.Mul(s[a])
	}
	if k, ok := n.Const(); ok {
		return num(b, v, float64(k))
	}
	return cast(b, b.Int(n), v.Type)
}

func (r reduction) eval(c *graph.Call) {
	x, y := c.In[0], c.Out[0]
	stay, stayAt, gone, goneAt := index.Split(x.Shape, reducedAxes(c.Node))
	size := index.Elems(gone)
	index.Walk(stay, 0, y.Len(), func(i int, at []int) {
		base := at[0]
		if r.ints != nil && !x.Type.IsFloat() {
			y.SetInt(i, r.ints(func(yield func(int64) bool) {
				each(gone, goneAt, func(k int) bool { return yield(x.Int(base + k)) })
			}, x.Type))
			return
		}
		v := r.of(func(yield func(float64) bool) {
			each(gone, goneAt, func(k int) bool { return yield(x.Float(base + k)) })
		}, size)
		if y.Type.IsFloat() {
			y.SetFloat(i, v)
		} else {
			y.SetInt(i, toInt(y.Type, v))
		}
	}, stayAt)
}

// each calls f with the offset of every element of a strided shape, in order, until it returns
// false.
func each(shape, st []int, f func(k int) bool) {
	more := true
	index.Walk(shape, 0, index.Elems(shape), func(_ int, at []int) { more = more && f(at[0]) }, st)
}

// quickReduction is a reduction of float32 with float64 accumulators: along rows if the last
// dim is reduced, else whole rows at a time.
type quickReduction struct {
	start float64
	row   func(acc float64, xs []float32) float64
	rows  func(acc []float64, xs []float32, rows, step int) // rows at stride step
	join  func(acc, more []float64)                         // combines with the result of later rows
	done  func(acc float64, n int) float64                  // final step; nil for none
}

// rowByRow makes quickReduction.rows of a function for one row.
func rowByRow(f func(acc []float64, xs []float32)) func(acc []float64, xs []float32, rows, step int) {
	return func(acc []float64, xs []float32, rows, step int) {
		for r := range rows {
			f(acc, xs[r*step:][:len(acc)])
		}
	}
}

// partRows is the least number of rows of a part when columns are reduced. Parts are reduced
// in parallel and joined in order. They depend on the shape alone, so the result does not
// depend on the number of workers.
const partRows = 512

// columnParts is the work space for the results of parts: at most 1/256 of the input.
func columnParts(n *graph.Node) graph.Dim {
	shape, axes := n.Inputs[0].Shape, reducedAxes(n)
	last := len(shape) - 1
	for last >= 0 && shape[last].Is(1) {
		last--
	}
	if last < 0 || slices.Contains(axes, last) {
		return graph.Num(0)
	}
	rows := graph.Num(1)
	for _, a := range axes {
		rows = rows.Mul(shape[a])
	}
	return rows.FloorDiv(graph.Num(partRows)).Mul(n.Outputs[0].Shape.Elems()).Mul(graph.Num(8))
}

func (r reduction) fast(c *graph.Call) {
	x, y := c.In[0], c.Out[0]
	if x.Type != graph.Float32 || y.Len() == 0 {
		r.eval(c)
		return
	}
	q := r.quick
	shape, axes := index.MergeDims(x.Shape, reducedAxes(c.Node))
	stay, stayAt, gone, goneAt := index.Split(shape, axes)
	in, out, n := x.F32(), y.F32(), index.Elems(gone)
	finish := func(acc float64) float32 {
		if q.done != nil {
			acc = q.done(acc, n)
		}
		return float32(acc)
	}
	last := len(shape) - 1
	if last < 0 || slices.Contains(axes, last) {
		width := 1
		if k := len(gone) - 1; k >= 0 {
			width, gone, goneAt = gone[k], gone[:k], goneAt[:k]
		}
		c.Parallel(len(out), max(1, f32.Grain/max(1, n)), func(lo, hi int) {
			index.Walk(stay, lo, hi, func(i int, at []int) {
				base, acc := at[0], q.start
				each(gone, goneAt, func(k int) bool {
					acc = q.row(acc, in[base+k:base+k+width])
					return true
				})
				out[i] = finish(acc)
			}, stayAt)
		})
		return
	}
	k := len(stay) - 1
	width := stay[k]
	parts := n / partRows
	if parts < 2 || len(c.Scratch) < 8*parts*len(out) {
		parts = 1
	}
	// columns reduces rows [from, to) of columns that begin at output i into acc.
	columns := func(acc []float64, i, from, to int) {
		for j := range acc {
			acc[j] = q.start
		}
		base := i % width
		index.Walk(stay[:k], i/width, i/width+1, func(_ int, at []int) { base += at[0] }, stayAt[:k])
		run, step := 1, width
		if k := len(gone) - 1; k >= 0 {
			run, step = gone[k], goneAt[k]
		}
		for from < to {
			rows, first := min(run-from%run, to-from), base
			index.Walk(gone, from, from+1, func(_ int, at []int) { first += at[0] }, goneAt)
			q.rows(acc, in[first:], rows, step)
			from += rows
		}
	}
	const together = 2048 // columns: their accumulators fit the cache
	if parts == 1 {
		c.Parallel(len(out), max(512, f32.Grain/max(1, n)), func(lo, hi int) {
			var block [together]float64
			for lo < hi {
				acc := block[:min(together, hi-lo, width-lo%width)]
				columns(acc, lo, 0, n)
				for i, a := range acc {
					out[lo+i] = finish(a)
				}
				lo += len(acc)
			}
		})
		return
	}
	sums := scratch64(c, parts*len(out)) // [outer, parts, width]
	c.Parallel(len(out)/width*parts, max(1, f32.Grain*parts/(width*n)), func(lo, hi int) {
		for x := lo; x < hi; x++ {
			outer, part := x/parts, x%parts
			for column := 0; column < width; column += together {
				acc := sums[x*width+column:][:min(together, width-column)]
				columns(acc, outer*width+column, part*n/parts, (part+1)*n/parts)
			}
		}
	})
	c.Parallel(len(out), max(1, f32.Grain/parts), func(lo, hi int) {
		for lo < hi {
			first, run := (lo/width*parts)*width+lo%width, min(hi-lo, width-lo%width)
			acc := sums[first:][:run]
			for part := 1; part < parts; part++ {
				q.join(acc, sums[first+part*width:][:run])
			}
			for i, a := range acc {
				out[lo+i] = finish(a)
			}
			lo += run
		}
	})
}

// foldDims folds a nonempty list.
func foldDims(f func(a, b graph.Dim) graph.Dim) func([]graph.Dim) graph.Dim {
	return func(ds []graph.Dim) graph.Dim {
		acc := ds[0]
		for _, d := range ds[1:] {
			acc = f(acc, d)
		}
		return acc
	}
}

// extremeGrad is the gradient of a maximum or minimum: equal shares for all elements that
// attain it.
func extremeGrad(b *graph.Builder, x, y, dy *graph.Value, axes []int) *graph.Value {
	is := cast(b, b.Op("Equal", nil, x, y), x.Type)
	among := sumTo(b, is, keptShape(x.Shape, axes))
	return b.Op("Mul", nil, is, b.Op("Div", nil, dy, among))
}

// below is a < b for elements of an integer type, as Tensor.Int returns them.
func below(t graph.DType, a, b int64) bool {
	if t == graph.Uint64 {
		return uint64(a) < uint64(b)
	}
	return a < b
}
