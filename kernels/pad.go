package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// padModes maps a position i, possibly outside [0, n), to the element of a dim of length n
// that the mode puts there. Mode constant is not among them.
var padModes = map[string]func(i, n int) int{
	"constant": nil,
	"edge":     func(i, n int) int { return max(0, min(i, n-1)) },
	"wrap":     func(i, n int) int { return (i%n + n) % n },
	"reflect": func(i, n int) int {
		if n == 1 {
			return 0
		}
		period := 2 * (n - 1)
		i = (i%period + period) % period
		return min(i, period-i)
	},
}

// Pad with a negative number of elements removes them.
var _ = define(graph.Op{
	Name:  "Pad",
	Since: 11,
	Doc:   "adds elements before and after the data along axes; negative pads remove them",
	In:    "data, pads, constant_value?, axes?",
	Out:   "output",
	Attrs: "mode string=constant",
	Known: []int{1, 3},
	Infer: func(n *graph.Node) {
		x, data := n.Inputs[0], []int{0}
		if v := n.In(2); v != nil {
			if v.Type != x.Type {
				n.Fail("constant_value is %s, but the data is %s", v.Type, x.Type)
			}
			n.Same(v.Shape.Elems(), graph.Num(1), "constant_value must have one element")
			data = append(data, 2)
		}
		n.Set(0, x.Type, padded(n, x.Shape))
		foldMoved(n, data...)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, pads, value, axes := n.Inputs[0], n.Inputs[1], n.In(2), n.In(3)
		dx := make([]*graph.Value, len(n.Inputs))
		if mode := n.Str("mode"); mode != "constant" {
			dx[0] = b.Op("memopt.PadGrad", graph.A{"mode": mode}, dy[0], pads, shapeOf(b, x), axes)
			return dx
		}
		back := make([]graph.Dim, len(pads.Ints))
		for i, p := range pads.Ints {
			back[i] = p.Neg()
		}
		dx[0] = b.Op("Pad", nil, dy[0], b.Ints(back...), nil, axes)
		if value != nil {
			sum := graph.A{"keepdims": 0}
			rest := b.Op("Sub", nil, b.Op("ReduceSum", sum, dy[0]), b.Op("ReduceSum", sum, dx[0]))
			dx[2] = reshape(b, rest, value.Shape)
		}
		return dx
	},
	NoOp: func(n *graph.Node) bool {
		return !slices.ContainsFunc(n.Inputs[1].Ints, func(p graph.Dim) bool { return !p.Is(0) })
	},
	Eval: func(c *graph.Call) {
		if padRepeats(c, f32.Serial) {
			return
		}
		padFill(c)
		padding.eval(c)
	},
	Fast: func(c *graph.Call) {
		if padRepeats(c, c.Parallel) {
			return
		}
		padFill(c)
		padding.fast(c)
	},
	Lower:     lowerPad,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3], i64{0,1,2,0}",
		"f32[2,3], i64{0,1,2,0}, f32[]>0",
		"f32[2,3], i64{1,2}, f32[1], i64{-1}",
		"f32[4,3], i64{-1,1,2,-2}",
		"f32[4,3], i64{-1,1,2,-2}, f32[]",
		"f32[4], i64{-3,-1}",
		"f32[2,3], i64{1,1,0,2}, _, i64{1,0}",
		"f32[3,4], i64{1,3,2,2}; mode=\"reflect\"",
		"f32[2,3], i64{4,5}, _, i64{1}; mode=\"reflect\"",
		"f32[1,2], i64{2,0,1,0}; mode=\"reflect\"",
		"f32[3,2], i64{2,0,1,3}; mode=\"edge\"",
		"f32[3,2], i64{4,1,5,3}; mode=\"wrap\"",
		"f32[4], i64{-1,2}; mode=\"edge\"",
		"f32[0,2], i64{1,0,1,0}",
		"f32[], i64{}",
		"f32[], i64{}; mode=\"edge\"",
		"i64{3,4}, i64{1,2}, i64[]{7}",
		"i64{3,4}, i64{1,0}; mode=\"reflect\"",
		"bool[2], i64{1,1}",
	},
})

// PadGrad is the gradient of the modes reflect, edge and wrap. That of constant is a Pad with
// negative pads.
var _ = define(graph.Op{
	Name:   "PadGrad",
	Domain: own,
	Doc:    "the gradient of Pad in modes reflect, edge and wrap: dy added where each element came from",
	In:     "dY, pads, shape, axes?",
	Out:    "dX",
	Attrs:  "mode string",
	Known:  []int{1, 2, 3},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		shape := graph.Shape(knownDims(n, 2, "shape"))
		want := padded(n, shape)
		if n.Inputs[0].Rank() != len(want) {
			n.Fail("dY has rank %d, not %d", n.Inputs[0].Rank(), len(want))
		}
		for i, d := range want {
			n.Same(n.Inputs[0].Shape[i], d, "dims of dY and of the padded data")
		}
		n.Set(0, n.Inputs[0].Type, shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, dx := c.In[0], c.Out[0]
		clear(dx.Bytes)
		add := put(dx, dy, "add")
		rows, width, at := padSources(c, dx.Shape, dy.Shape)
		for r := range rows {
			base, last := at(r)
			for j := range width {
				add(base+last[j], r*width+j)
			}
		}
	},
	Lower:     lowerPadGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(0, 1)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[6,9], i64{1,3,2,2}, i64{3,4}; mode=\"reflect\"",
		"f32[2,5], i64{1,1}, i64{2,3}, i64{1}; mode=\"edge\"",
		"f32[0,5], i64{1,1}, i64{0,3}, i64{1}; mode=\"edge\"",
	},
})

// padded is the shape of the padded data.
func padded(n *graph.Node, s graph.Shape) graph.Shape {
	mode, ok := padModes[n.Str("mode")]
	if !ok {
		n.Fail("mode is %q, not constant, reflect, edge or wrap", n.Str("mode"))
	}
	var axes []int
	if n.In(3) == nil {
		for i := range s {
			axes = append(axes, i)
		}
	} else {
		given := knownInts(n, 3, "axes")
		axesOf(n, given, len(s))
		for _, a := range given {
			axes = append(axes, axisOf(n, int(a), len(s)))
		}
	}
	pads := knownDims(n, 1, "pads")
	if len(pads) != 2*len(axes) {
		n.Fail("there are %d pads for %d axes; each axis needs two", len(pads), len(axes))
	}
	out := slices.Clone(s)
	for i, a := range axes {
		out[a] = s[a].Add(pads[i]).Add(pads[i+len(axes)])
		if mode != nil && s[a].Is(0) && !out[a].Is(0) {
			n.Fail("dim %d is 0: mode %s has no element to repeat", a, n.Str("mode"))
		}
	}
	return out
}

// padBefore is the number of elements added before each dim.
func padBefore(c *graph.Call, rank int) []int {
	out := make([]int, rank)
	pads, axes := c.In[1], input(c, 3)
	for i := range pads.Len() / 2 {
		a := i
		if axes != nil {
			a = axisOf(c.Node, int(axes.Int(i)), rank)
		}
		out[a] = int(pads.Int(i))
	}
	return out
}

// padFill fills the output with the constant.
func padFill(c *graph.Call) {
	y := c.Out[0].Bytes
	value := input(c, 2)
	if value == nil {
		clear(y)
		return
	}
	for done := copy(y, value.Bytes); 0 < done && done < len(y); done *= 2 {
		copy(y[done:], y[:done])
	}
}

// padding copies the data into an output filled with the constant.
var padding mover = func(c *graph.Call) []lower.Move {
	x, y := c.In[0], c.Out[0]
	m := lower.Move{From: index.Strides(x.Shape), To: index.Strides(y.Shape)}
	for i, before := range padBefore(c, len(x.Shape)) {
		first := max(0, -before) // the first element of x that stays
		n := min(x.Shape[i]-first, y.Shape[i]-max(0, before))
		if n <= 0 {
			return nil
		}
		m.Shape = append(m.Shape, n)
		m.FromAt += first * m.From[i]
		m.ToAt += max(0, before) * m.To[i]
	}
	return []lower.Move{m}
}

// padRepeats runs modes reflect, edge and wrap, and returns false for constant.
func padRepeats(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) bool {
	if padModes[c.Node.Str("mode")] == nil {
		return false
	}
	x, y := c.In[0], c.Out[0]
	size := int(x.Type.Size())
	rows, width, at := padSources(c, x.Shape, y.Shape)
	parallel(rows, max(1, f32.Grain/max(1, width)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			base, last := at(r)
			for j, f := range last {
				copy(y.Bytes[(r*width+j)*size:(r*width+j+1)*size], x.Bytes[(base+f)*size:])
			}
		}
	})
	return true
}

// padSources returns where elements of the padded shape come from: element column of row r
// from base + last[column].
func padSources(c *graph.Call, small, large []int) (rows, width int, at func(r int) (base int, last []int)) {
	source := padModes[c.Node.Str("mode")]
	st := index.Strides(small)
	from := make([][]int, len(large))
	for i, before := range padBefore(c, len(large)) {
		from[i] = make([]int, large[i])
		for o := range from[i] {
			from[i][o] = source(o-before, small[i]) * st[i]
		}
	}
	if len(large) == 0 {
		return 1, 1, func(int) (int, []int) { return 0, []int{0} }
	}
	inner := len(large) - 1
	return index.Elems(large[:inner]), large[inner], func(r int) (base int, last []int) {
		for i := inner - 1; i >= 0; i-- {
			base += from[i][r%large[i]]
			r /= large[i]
		}
		return base, from[inner]
	}
}

// Before opset 11 all inputs but the data are attributes.
var _ = define(graph.Op{
	Name:  "Pad",
	Doc:   "the form before opset 11, with pads as an attribute",
	In:    "data",
	Out:   "output",
	Attrs: "mode string=constant, pads ints, value float=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x := n.Inputs[0]
		if !n.Has("pads") {
			n.Fail("attribute pads is missing")
		}
		pads := b.Ints(graph.Dims(n.Ints("pads")...)...)
		return []*graph.Value{b.Op("Pad", graph.A{"mode": n.Str("mode")}, x, pads, num(b, x, n.Float("value")))}
	},
})

var padKernel = lower.Halved(lower.Shader("pad", "pad.comp"))

// padRules are the modes of pad.comp.
var padRules = map[string]uint32{"edge": 0, "reflect": 1, "wrap": 2}

// lowerPad fills the output with the constant and copies the data into it.
func lowerPad(l *graph.Lowering) {
	known := []int{1}
	if l.Node.In(3) != nil {
		known = append(known, 3)
	}
	c := lower.Call(l, known...)
	switch {
	case c == nil:
		return
	case l.Node.Str("mode") != "constant":
		lowerRepeats(l, c, false)
		return
	case l.Node.In(2) == nil:
		lower.Fill(l, 0, 0)
	case l.Out[0].Len() > 0:
		n := l.Out[0].Len()
		lower.Box(l, int(l.Out[0].Type.Size()), []graph.Buffer{lower.Writes(0), lower.Reads(2)}, nil, []int{n}, []int{0}, []int{1}, 0, 0)
	}
	for _, m := range padding(c) {
		m.Lower(l)
	}
}

// lowerRepeats lowers modes reflect, edge and wrap, or with back their gradient; the pads are
// in input 1 of c.
func lowerRepeats(l *graph.Lowering, c *graph.Call, back bool) {
	if !lower.OnlyTypes(l, []graph.DType{graph.Float32, graph.Int64}, []graph.DType{graph.Float32}) {
		return
	}
	little, large := l.In[0].Shape, l.Out[0].Shape
	if back {
		little, large = large, little
	}
	var dims [3][]int // little, large, before
	whole := false    // the last dim has no pads
	for i, before := range padBefore(c, len(little)) {
		same := before == 0 && little[i] == large[i]
		if k := len(dims[0]) - 1; same && whole {
			dims[0][k] *= little[i]
			dims[1][k] *= large[i]
		} else {
			for j, d := range []int{little[i], large[i], before} {
				dims[j] = append(dims[j], d)
			}
		}
		whole = same
	}
	n := l.Out[0].Len()
	if n == 0 || !lower.MustFit(l, dims[0], 4) {
		return
	}
	push := lower.Words(l, n)
	for j, list := range dims {
		for _, d := range index.Padded(4, list, min(1, 2-j)) {
			push = append(push, uint32(int32(d)))
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: padKernel, Spec: []uint32{lower.OneIf(back), padRules[l.Node.Str("mode")]}, Push: push,
		Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0)}, Groups: lower.InLine(l, index.CeilDiv(n, 64)),
	})
}

func lowerPadGrad(l *graph.Lowering) {
	known := []int{1}
	if l.Node.In(3) != nil {
		known = append(known, 3)
	}
	if c := lower.Call(l, known...); c != nil {
		lowerRepeats(l, c, true)
	}
}
