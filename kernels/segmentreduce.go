package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var segmentModes = []string{"sum", "mean", "max", "min"}

var segmentOp = define(graph.Op{
	Name:   "SegmentReduce",
	Domain: own,
	Doc:    "reduces the rows between each pair of starts and ends: sum, mean, max or min",
	In:     "data, starts, ends",
	Out:    "reduced",
	Attrs:  "mode string=sum",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		wantType(n, 0, isFloat, "floats")
		wantSegments(n, x.Shape, 1)
		n.Set(0, x.Type, slices.Concat(graph.Shape{n.Inputs[1].Shape[0]}, x.Shape[1:]))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		in := []*graph.Value{dy[0], shapeOf(b, x), n.Inputs[1], n.Inputs[2]}
		if segmentPicks(n) {
			in = append(in, x)
		}
		return []*graph.Value{b.Op("memopt.SegmentReduceGrad", convCopy(n), in...), nil, nil}
	},
	Eval:      func(c *graph.Call) { newSegments(c, c.In[0].Shape, 1).reduce(c, f32.Serial) },
	Fast:      func(c *graph.Call) { newSegments(c, c.In[0].Shape, 1).reduce(c, c.Parallel) },
	Lower:     lowerSegmentReduce,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(0, 1), NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[7,3], i64{0,2,2,5}, i64{2,2,5,7}",
		`f32[7,3], i64{0,2,2,5}, i64{2,2,5,7}; mode="mean"`,
		`f32[7,3], i64{0,2,5}, i64{2,5,7}; mode="max"`,
		`f32[7,2,2], i64{1,0,-3}, i64{3,9223372036854775807,-1}; mode="min"`,
		`f32[7], i64{1,0,4}, i64{3,6,2}; mode="mean"`,
		`f32[7,2], i64[4]<7, i64[4]<9`,
		`f32[7,2], i64[4]<7, i64[4]<9; mode="max"`,
		`f16[5,4], i64{0,3}, i64{3,5}; mode="mean"`,
		"f64[5,4], i64{0,3}, i64{3,5}",
		"f32[0,4], i64{0,0}, i64{0,0}",
		"f32[5,4], i64[0]<5, i64[0]<5",
	},
})

var _ = define(graph.Op{
	Name:   "SegmentReduceGrad",
	Domain: own,
	Doc:    "the gradient of SegmentReduce: rows of dY spread over the rows of their segments",
	In:     "dY, shape, starts, ends, data?",
	Out:    "dX",
	Attrs:  "mode string=sum",
	Known:  []int{1},
	Infer: func(n *graph.Node) {
		shape := graph.Shape(knownDims(n, 1, "shape"))
		wantType(n, 0, isFloat, "floats")
		wantSegments(n, shape, 2)
		if segmentPicks(n) != (n.In(4) != nil) {
			n.Fail("input data must be given for modes max and min, and only for these; mode is %s", n.Str("mode"))
		}
		n.Set(0, n.Inputs[0].Type, shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { newSegments(c, c.Out[0].Shape, 2).spread(c, f32.Serial) },
	Fast:      func(c *graph.Call) { newSegments(c, c.Out[0].Shape, 2).spread(c, c.Parallel) },
	Lower:     lowerSegmentReduceGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Outputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[4,3], i64{7,3}, i64{0,2,2,5}, i64{2,2,5,7}",
		`f32[4,3], i64{7,3}, i64{0,2,2,5}, i64{2,2,5,7}; mode="mean"`,
		`f32[3,3], i64{7,3}, i64{0,2,5}, i64{2,5,7}, f32[7,3]; mode="max"`,
		`f32[3,2,2], i64{7,2,2}, i64{1,0,-3}, i64{3,9223372036854775807,-1}, f32[7,2,2]; mode="min"`,
		`f32[4,2], i64{7,2}, i64[4]<7, i64[4]<9`,
		`f32[4,2], i64{7,2}, i64[4]<7, i64[4]<9, f32[7,2]; mode="max"`,
		`f16[2,4], i64{5,4}, i64{0,3}, i64{3,5}; mode="mean"`,
		"f32[0,4], i64{5,4}, i64[0]<5, i64[0]<5",
		"f32[2,4], i64{0,4}, i64{0,0}, i64{0,0}",
	},
})

// segmentPicks reports whether results are selected elements (max, min).
func segmentPicks(n *graph.Node) bool { return n.Str("mode") == "max" || n.Str("mode") == "min" }

// wantSegments checks the mode, and the bounds in inputs at and at+1.
func wantSegments(n *graph.Node, x graph.Shape, at int) {
	if !slices.Contains(segmentModes, n.Str("mode")) {
		n.Fail("mode is %q, not one of %s", n.Str("mode"), segmentModes)
	}
	for i := at; i < at+2; i++ {
		wantType(n, i, func(t graph.DType) bool { return t == graph.Int64 }, "int64")
		if n.Inputs[i].Rank() != 1 {
			n.Fail("input %d must be a list, but is %s", i, n.Inputs[i].Shape)
		}
	}
	if len(x) == 0 {
		n.Fail("the data must not be a scalar")
	}
	n.Same(n.Inputs[at].Shape[0], n.Inputs[at+1].Shape[0], "starts and ends")
}

// segments are runs of rows of width elements.
type segments struct {
	mode        string
	rows, width int
	first, end  []int
}

// newSegments reads the bounds of segments as Slice does: negative ones count from the end, and
// all are clamped.
func newSegments(c *graph.Call, data []int, at int) segments {
	s := segments{mode: c.Node.Str("mode"), rows: data[0], width: index.Elems(data[1:])}
	bound := func(x *graph.Tensor, i int) int {
		v := x.Int(i)
		if v < 0 {
			v += int64(s.rows)
		}
		return int(max(0, min(v, int64(s.rows))))
	}
	for i := range c.In[at].Len() {
		first := bound(c.In[at], i)
		s.first, s.end = append(s.first, first), append(s.end, max(first, bound(c.In[at+1], i)))
	}
	return s
}

// reduce computes the output. An empty segment is 0, or −∞ for max and ∞ for min.
func (s segments) reduce(c *graph.Call, par f32.Parallel) {
	x, y := c.In[0], c.Out[0]
	average := max(1, s.rows/max(1, len(s.first)))
	par(len(s.first), max(1, f32.Grain/max(1, s.width*average)), func(lo, hi int) {
		sums := make([]float64, s.width)
		for i := lo; i < hi; i++ {
			s.one(x, i, sums)
			for k, v := range sums {
				y.SetFloat(i*s.width+k, v)
			}
		}
	})
}

// one reduces segment i.
func (s segments) one(x *graph.Tensor, i int, to []float64) {
	clear(to)
	if s.mode == "max" || s.mode == "min" {
		for k := range to {
			to[k] = math.Inf(1)
			if s.mode == "max" {
				to[k] = math.Inf(-1)
			}
			if at := s.place(x, i, k); at >= 0 {
				to[k] = x.Float(at*s.width + k)
			}
		}
		return
	}
	for row := s.first[i]; row < s.end[i]; row++ {
		if x.Type == graph.Float32 {
			for k, v := range x.F32()[row*s.width : (row+1)*s.width] {
				to[k] += float64(v)
			}
			continue
		}
		for k := range to {
			to[k] += x.Float(row*s.width + k)
		}
	}
	if n := s.end[i] - s.first[i]; s.mode == "mean" && n > 0 {
		for k := range to {
			to[k] /= float64(n)
		}
	}
}

// place is the first row of segment i whose element k is the maximum or minimum, or NaN; −1 if
// the segment is empty.
func (s segments) place(x *graph.Tensor, i, k int) int {
	best, at := 0.0, -1
	for row := s.first[i]; row < s.end[i]; row++ {
		v := x.Float(row*s.width + k)
		if at < 0 || s.mode == "max" && v > best || s.mode == "min" && v < best || v != v && best == best {
			best, at = v, row
		}
	}
	return at
}

// spread computes the gradient of the data. Workers divide the columns, as segments may
// overlap.
func (s segments) spread(c *graph.Call, par f32.Parallel) {
	dy, dx, x := c.In[0], c.Out[0], input(c, 4)
	clear(dx.Bytes)
	par(s.width, max(1, f32.Grain/max(1, s.rows)), func(lo, hi int) {
		if dx.Type != graph.Float32 {
			for k := lo; k < hi; k++ {
				sums := make([]float64, s.rows)
				s.column(dy, x, k, func(row int, d float64) { sums[row] += d })
				for row, v := range sums {
					dx.SetFloat(row*s.width+k, v)
				}
			}
			return
		}
		to := dx.F32()
		if x != nil {
			for k := lo; k < hi; k++ {
				s.column(dy, x, k, func(row int, d float64) { to[row*s.width+k] += float32(d) })
			}
			return
		}
		for i, first := range s.first {
			from, scale := dy.F32()[i*s.width+lo:i*s.width+hi], float32(s.scale(i))
			for row := first; row < s.end[i]; row++ {
				out := to[row*s.width+lo:]
				for k, d := range from {
					out[k] += d * scale
				}
			}
		}
	})
}

// scale is the weight of a row of segment i.
func (s segments) scale(i int) float64 {
	if n := s.end[i] - s.first[i]; s.mode == "mean" && n > 0 {
		return 1 / float64(n)
	}
	return 1
}

// column calls f with the contributions to column k of the gradient.
func (s segments) column(dy, x *graph.Tensor, k int, f func(row int, d float64)) {
	for i, first := range s.first {
		d := dy.Float(i*s.width + k)
		if x != nil {
			if at := s.place(x, i, k); at >= 0 {
				f(at, d)
			}
			continue
		}
		for row := first; row < s.end[i]; row++ {
			f(row, d*s.scale(i))
		}
	}
}

var segmentKernel = lower.Shader("segmentreduce", "segmentreduce.comp")

func segmentPass(l *graph.Lowering, pass uint32, data []int, segments, invocations int, buffers ...graph.Buffer) {
	mode := uint32(slices.Index(segmentModes, l.Node.Str("mode")))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: segmentKernel, Spec: []uint32{pass, mode}, Push: lower.Words(l, data[0], index.Elems(data[1:]), segments),
		Buffers: buffers, Groups: lower.InLine(l, index.CeilDiv(invocations, 64)),
	})
}

func lowerSegmentReduce(l *graph.Lowering) {
	if f := graph.Float32; !lower.OnlyTypes(l, []graph.DType{f, graph.Int64}, []graph.DType{f}) {
		return
	}
	data := lower.Reads(0)
	if l.In[0].Len() == 0 {
		data = lower.Unused(false)
	}
	if n := l.Out[0].Len(); n > 0 {
		segmentPass(l, 0, l.In[0].Shape, l.In[1].Len(), n, lower.Writes(0), lower.Unused(false), data, lower.Reads(1), lower.Reads(2), lower.Unused(true))
	}
}

func lowerSegmentReduceGrad(l *graph.Lowering) {
	if f, i := graph.Float32, graph.Int64; !lower.OnlyTypes(l, []graph.DType{f, i, i, i, f}, []graph.DType{f}) {
		return
	}
	n, segments, data := l.Out[0].Len(), l.In[2].Len(), lower.Unused(false)
	if n == 0 || segments == 0 {
		lower.Fill(l, 0, 0)
		return
	}
	if lower.In(l, 4) != nil {
		data = lower.Reads(4)
	}
	shape := l.Out[0].Shape
	l.Scratch = int64(8 * shape[0])
	work := lower.Scratch(0, l.Scratch, true)
	segmentPass(l, 1, shape, segments, shape[0], lower.Unused(true), lower.Unused(false), lower.Unused(false), lower.Reads(2), lower.Reads(3), work)
	segmentPass(l, 2, shape, segments, n, lower.Writes(0), lower.Reads(0), data, lower.Reads(2), lower.Reads(3), lower.Unwritten(work))
}
