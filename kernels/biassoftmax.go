package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// biasSoftmax is softmax(data + bias) over all dims from axis on, flattened; the bias
// broadcasts. The attribute is_inner_broadcast is ignored: the bias's shape says the same.
type biasSoftmax struct {
	shape  []int
	axis   int
	rows   int
	width  int
	bias   *graph.Tensor
	stride []int
}

const biasSoftmaxAttrs = "axis int=1, is_inner_broadcast int"

func inferBiasSoftmax(n *graph.Node) {
	for i, v := range n.Inputs[:2] {
		if v.Type != n.Inputs[0].Type {
			n.Fail("input %d is %s, but input 0 is %s", i, v.Type, n.Inputs[0].Type)
		}
	}
	axisOf(n, n.Int("axis"), n.Inputs[0].Rank())
	biasFits(n, 0, 1)
	floatMap(n)
}

func newBiasSoftmax(c *graph.Call) biasSoftmax {
	shape := c.In[0].Shape
	axis := axisOf(c.Node, c.Node.Int("axis"), len(shape))
	return biasSoftmax{shape: shape, axis: axis, rows: index.Elems(shape[:axis]), width: index.Elems(shape[axis:]),
		bias: c.In[1], stride: index.Broadcast(c.In[1].Shape, shape)}
}

func (s biasSoftmax) eval(x, y *graph.Tensor) {
	row := make([]float64, s.width)
	for r := range s.rows {
		at := r * s.width
		index.Walk(s.shape, at, at+s.width, func(i int, from []int) { row[i-at] = x.Float(i) + s.bias.Float(from[0]) }, s.stride)
		top, sum := greatestOf(row), 0.0
		for i, v := range row {
			row[i] = math.Exp(v - top)
			sum += row[i]
		}
		for i, v := range row {
			y.SetFloat(at+i, v/sum)
		}
	}
}

// fast is eval for float32 and any number of workers; other types go to eval.
func (s biasSoftmax) fast(c *graph.Call, x, y *graph.Tensor) {
	if x.Type != graph.Float32 {
		s.eval(x, y)
		return
	}
	in, out, bias := x.F32(), y.F32(), s.bias.F32()
	c.Parallel(s.rows, max(1, f32.Grain/max(1, 4*s.width)), func(lo, hi int) {
		row := make([]float32, s.width)
		for r := lo; r < hi; r++ {
			at := r * s.width
			copy(row, in[at:])
			index.Walk(s.shape, at, at+s.width, func(i int, from []int) { row[i-at] += bias[from[0]] }, s.stride)
			f32.Softmax(out[at:at+s.width], row)
		}
	})
}

// coercedGrad is the gradient of a softmax over all dims from axis on, given its output y.
func coercedGrad(b *graph.Builder, n *graph.Node, dy, y *graph.Value) *graph.Value {
	return b.Op("com.microsoft.SoftmaxGrad", graph.A{"axis": n.Int("axis")}, dy, y)
}

var _ = define(graph.Op{
	Name:     "BiasSoftmax",
	Domain:   microsoft,
	OnlyCUDA: true,
	Doc:      "softmax of data + bias over all dims from axis on",
	In:       "data, bias",
	Out:      "output",
	Attrs:    biasSoftmaxAttrs,
	Infer:    inferBiasSoftmax,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return biasGrads(b, n, coercedGrad(b, n, dy[0], n.Outputs[0]))
	},
	Fuse:      fuseBiasSoftmax,
	Eval:      func(c *graph.Call) { newBiasSoftmax(c).eval(c.In[0], c.Out[0]) },
	Fast:      func(c *graph.Call) { newBiasSoftmax(c).fast(c, c.In[0], c.Out[0]) },
	Lower:     lowerBiasSoftmax,
	Flops:     perElement(13),
	Tests:     graph.Tests{Work: eachOut(13)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,5], f32[5]; is_inner_broadcast=0",
		"f32[2,3,4,5], f32[2,1,1,5]; axis=3 is_inner_broadcast=1",
		"f32[2,3,4,5], f32[4,5]; axis=-1 is_inner_broadcast=0",
		"f32[2,3,4], f32[3,4]; axis=1",
		"f32[2,300], f32[2,300]",
		"f16[2,3], f16[3]",
		"f32[0,3], f32[3]",
	},
})

// fuseBiasSoftmax fuses a bias with the softmax over the last dim after it, if the bias
// broadcasts in a way that ONNX Runtime supports: over leading dims, or over the dims just
// before the last. A softmax guarded against NaN is left to SafeSoftmax, which saves more.
func fuseBiasSoftmax(m *graph.Match) []*graph.Value {
	n, p := m.Node, pieces{m}
	if n.Op.FullName() != "Softmax" {
		return nil
	}
	y := n.Outputs[0]
	last := y.Rank() - 1
	if last < 1 || axisOf(n, n.Int("axis"), last+1) != last {
		return nil
	}
	for _, r := range p.Readers(y) {
		if r.Op.FullName() == "IsNaN" {
			return nil
		}
	}
	add := p.Inner(n.Inputs[0], "Add")
	if add == nil {
		return nil
	}
	for i, data := range add.Inputs {
		bias := add.Inputs[1-i]
		if !data.Shape.Equal(y.Shape) {
			continue
		}
		if inner, ok := repeatedOnce(bias.Shape, y.Shape); ok {
			return []*graph.Value{m.Builder.Op("com.microsoft.BiasSoftmax", graph.A{"axis": last, "is_inner_broadcast": inner}, data, bias)}
		}
	}
	return nil
}

// repeatedOnce reports whether shape s broadcasts to another over leading dims only, or
// (inner) over dims that end right before the last.
func repeatedOnce(s, to graph.Shape) (inner, ok bool) {
	s = append(slices.Repeat(graph.Dims(1), len(to)-len(s)), s...)
	last := len(to) - 1
	lead := 0
	for lead < last && s[lead].Is(1) {
		lead++
	}
	if s[lead:].Equal(to[lead:]) {
		return false, true
	}
	for lead = 0; lead < last && s[lead].Equal(to[lead]); {
		lead++
	}
	for _, d := range s[lead:last] {
		if !d.Is(1) {
			return false, false
		}
	}
	return true, s[last].Equal(to[last])
}

// BiasSoftmaxDropout's gradient reads the mask and the softmax before the dropout.
var _ = define(graph.Op{
	Name:   "BiasSoftmaxDropout",
	Domain: microsoft,
	Doc:    "dropout, always in training, of the softmax of data + bias",
	In:     "data, bias, ratio?",
	Out:    "output, mask?, softmax_output?",
	Attrs:  biasSoftmaxAttrs + ", seed int",
	Infer: func(n *graph.Node) {
		inferBiasSoftmax(n)
		inferChance(n, 2, 3)
		n.Set(1, graph.Bool, n.Inputs[0].Shape)
		n.Set(2, n.Inputs[0].Type, n.Inputs[0].Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		y := n.Output(2)
		if y == nil {
			attrs := graph.A{"axis": n.Int("axis")}
			if n.Has("is_inner_broadcast") {
				attrs["is_inner_broadcast"] = n.Int("is_inner_broadcast")
			}
			y = b.Op("com.microsoft.BiasSoftmax", attrs, n.Inputs[0], n.Inputs[1])
		}
		var flow *graph.Value
		if dy[0] != nil {
			flow = b.Op("memopt.DropoutGrad", graph.A{"seed": int64(n.Identity())}, dy[0], n.In(2), b.Num(graph.Bool, 1))
		}
		if len(dy) > 2 && dy[2] != nil {
			if flow == nil {
				flow = dy[2]
			} else {
				flow = b.Op("Add", nil, flow, dy[2])
			}
		}
		return biasGrads(b, n, coercedGrad(b, n, flow, y))
	},
	Eval: func(c *graph.Call) {
		newBiasSoftmax(c).eval(c.In[0], softmaxPlace(c))
		dropSoftmax(c, f32.Serial)
	},
	Fast: func(c *graph.Call) {
		newBiasSoftmax(c).fast(c, c.In[0], softmaxPlace(c))
		dropSoftmax(c, c.Parallel)
	},
	Lower:     lowerSoftmaxDropout,
	Flops:     perElement(30),
	Tests:     graph.Tests{Work: eachOut(30)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Random:    true,
	Samples: []string{
		"f32[2,50], f32[50], f32[]{0.4}; is_inner_broadcast=0",
		"f32[2,3,4,5], f32[2,1,1,5]; axis=3 is_inner_broadcast=1 seed=5 -> y",
		"f32[2,3,4], f32[3,4], f32[]{0}; axis=1 -> y, m",
		"f16[2,3], f16[3], f32[]{0.4}",
		"f32[0,5], f32[5], f32[]{0.4}; is_inner_broadcast=0 -> y",
	},
})

// softmaxPlace is where the softmax is computed: in its own output if that is used, else in
// the dropout's output.
func softmaxPlace(c *graph.Call) *graph.Tensor {
	if y := output(c, 2); y != nil {
		return y
	}
	return c.Out[0]
}

func dropSoftmax(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	x, y, mask := softmaxPlace(c), c.Out[0], output(c, 1)
	h := trainingChance(c, input(c, 2))
	h.each(x.Len(), par, func(at, count int, stays uint32) {
		for i := range count {
			v := 0.0
			if stays>>i&1 != 0 {
				v = x.Float(at+i) * h.scale
			}
			y.SetFloat(at+i, v)
		}
		if mask != nil {
			keptMask(mask, at, count, stays)
		}
	})
}

var _ = define(graph.Op{
	Name:   "SoftmaxDropoutGrad",
	Domain: microsoft,
	Doc:    "dx of BiasSoftmaxDropout, from its kept softmax and mask",
	In:     "dy, softmax_y, mask, ratio?",
	Out:    "dx",
	Attrs:  "axis int=1",
	Infer: func(n *graph.Node) {
		if n.Inputs[0].Type != n.Inputs[1].Type {
			n.Fail("dy is %s, but softmax_y is %s", n.Inputs[0].Type, n.Inputs[1].Type)
		}
		sameDims(n, n.Inputs[1].Shape, n.Inputs[0].Shape)
		inferMask(n, n.Inputs[0], n.Inputs[2], false)
		inferChance(n, 3, 4)
		axisOf(n, n.Int("axis"), n.Inputs[0].Rank())
		floatMap(n)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { softmaxDropoutGrad(c, f32.Serial) },
	Fast:      func(c *graph.Call) { softmaxDropoutGrad(c, c.Parallel) },
	Lower:     lowerSoftmaxDropoutGrad,
	Flops:     perElement(6),
	Tests:     graph.Tests{Work: eachOut(6)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,5], f32[2,5], bool[2,5], f32[]{0.4}",
		"f32[2,3,4], f32[2,3,4], bool[2,3,4]; axis=-1",
		"f16[2,3,4], f16[2,3,4], bool[2,3,4], f32[]{0}",
	},
})

func softmaxDropoutGrad(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	dy, y, mask, dx := c.In[0], c.In[1], c.In[2], c.Out[0]
	axis := axisOf(c.Node, c.Node.Int("axis"), len(dy.Shape))
	rows, width := index.Elems(dy.Shape[:axis]), index.Elems(dy.Shape[axis:])
	scale := 1 / (1 - ratioOf(c, 3))
	par(rows, max(1, f32.Grain/max(1, 4*width)), func(lo, hi int) {
		flow := make([]float64, width)
		for r := lo; r < hi; r++ {
			at, dot := r*width, 0.0
			for i := range flow {
				if flow[i] = 0; mask.Bytes[at+i] != 0 {
					flow[i] = dy.Float(at+i) * scale
				}
				dot += flow[i] * y.Float(at+i)
			}
			for i, d := range flow {
				dx.SetFloat(at+i, y.Float(at+i)*(d-dot))
			}
		}
	})
}

// lowerSoftmaxDropout computes the softmax in output 2 if that is used, else in output 0,
// then the dropout.
var lowerSoftmaxDropout = func() func(*graph.Lowering) {
	softmax := biasSoftmaxInto()
	drop := lower.Dropout{Ratio: 2, Mode: -1, Bias: -1, Residual: -1, Mask: -1, Always: true}
	return func(l *graph.Lowering) {
		place := 0
		if lower.Out(l, 2) != nil {
			place = 2
		}
		if softmax(l, place); l.Refused == "" {
			drop.Carry(l, lower.Rereads(place), lower.Writes(0))
		}
	}
}()

var lowerBiasSoftmax = func() func(*graph.Lowering) {
	into := biasSoftmaxInto()
	return func(l *graph.Lowering) { into(l, 0) }
}()

// lowerSoftmaxDropoutGrad undoes the dropout into work space, then takes the softmax's gradient.
func lowerSoftmaxDropoutGrad(l *graph.Lowering) {
	if !lower.OnlyTypes(l, []graph.DType{graph.Float32, graph.Float32, graph.Bool, graph.Float32}, []graph.DType{graph.Float32}) {
		return
	}
	shape := l.Out[0].Shape
	axis := axisOf(l.Node, l.Node.Int("axis"), len(shape))
	l.Scratch = int64(4 * index.Elems(shape))
	lower.Dropout{Ratio: 3, Mode: -1, Bias: -1, Residual: -1, Mask: 2, Always: true}.Carry(l, lower.Reads(0), lower.Scratch(0, l.Scratch, true))
	lower.Lines(l, lower.RowSoftmaxGrad, index.Elems(shape[:axis]), index.Elems(shape[axis:]), 1, lower.Scratch(0, l.Scratch, false), lower.Reads(1))
}

// biasSoftmaxInto adds the bias into an output, then computes the softmax in place.
func biasSoftmaxInto() func(l *graph.Lowering, out int) {
	f := graph.Float32
	form := lower.FormOf(f, f, f, f)
	const add = "a + b"
	form.Exprs = append(form.Exprs, add)
	return func(l *graph.Lowering, out int) {
		shape := l.Out[out].Shape
		axis := axisOf(l.Node, l.Node.Int("axis"), len(shape))
		if form.Lower(l, add, out, []int{0, 1}); l.Refused == "" {
			lower.LinesInto(l, lower.Writes(out), lower.RowSoftmax, index.Elems(shape[:axis]), index.Elems(shape[axis:]), 1, lower.Rereads(out), lower.Unused(false))
		}
	}
}
