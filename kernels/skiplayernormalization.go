package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// skip describes ONNX Runtime's LayerNormalization (centred) or RMSNormalization of
// input + skip (+ bias) over the last dim.
type skip struct {
	name, doc, in string
	centred       bool
	beta, bias    int // input numbers; beta is −1 if there is none
	samples       []string
	fuse          func(m *graph.Match) []*graph.Value
}

var _ = defineSkip(skip{
	name:    "SkipLayerNormalization",
	doc:     "LayerNormalization of input + skip + bias over the last dim, and that sum",
	in:      "input, skip, gamma, beta?, bias?",
	centred: true,
	beta:    3,
	bias:    4,
	fuse:    fuseSkip(true),
	samples: []string{
		"f32[2,3,5], f32[2,3,5], f32[5], f32[5], f32[5]; epsilon=0.01 -> y",
		"f32[2,3,5], f32[2,3,5], f32[5] -> y, _, _, s",
		"f32[2,3,5], f32[3,5], f32[5], _, f32[5] -> y, _, _, s",
		"f32[2,3,5], f32[1,3,5], f32[5], f32[5]; epsilon=0.01",
		"f32[3,300], f32[3,300], f32[300], f32[300]; epsilon=1e-5 -> y",
		"f32[0,3,5], f32[0,3,5], f32[5], f32[5] -> y",
		"f16[3,5], f16[3,5], f16[5], f16[5]; epsilon=1e-5 -> y",
	},
})

var _ = defineSkip(skip{
	name: "SkipSimplifiedLayerNormalization",
	doc:  "RMSNormalization of input + skip + bias over the last dim, and that sum",
	in:   "input, skip, gamma, bias?",
	beta: -1,
	bias: 3,
	fuse: fuseSkip(false),
	samples: []string{
		"f32[2,3,5], f32[2,3,5], f32[5], f32[5]; epsilon=0.01 -> y",
		"f32[2,3,5], f32[2,3,5], f32[5] -> y, _, _, s",
		"f32[3,300], f32[3,300], f32[300]; epsilon=1e-5 -> y, _, _, s",
		"f32[0,3,5], f32[0,3,5], f32[5] -> y",
		"f16[3,5], f16[3,5], f16[5]; epsilon=1e-5 -> y",
	},
})

func defineSkip(s skip) *graph.Op {
	return define(graph.Op{
		Name:      s.name,
		Domain:    microsoft,
		Doc:       s.doc,
		In:        s.in,
		Out:       "output, mean?, inv_std_var?, input_skip_bias_sum?",
		Attrs:     "epsilon float=1e-12",
		Infer:     s.infer,
		Grad:      s.grad,
		Fuse:      s.fuse,
		Unfold:    s.unfold,
		Eval:      s.eval,
		Fast:      s.fast,
		Lower:     lowerSkip(s),
		Flops:     perElement(9),
		Tests:     graph.Tests{Work: eachOut(9)},
		Recompute: graph.Cheap,
		InPlace:   []int{0, 1},
		Samples:   s.samples,
	})
}

func (s skip) infer(n *graph.Node) {
	sameTypes(n)
	wantType(n, 0, isFloat, "floats")
	x := n.Inputs[0]
	if x.Rank() < 1 {
		n.Fail("the input is a scalar")
	}
	last := x.Rank() - 1
	for i, v := range n.Inputs[1:] {
		if v == nil {
			continue
		}
		if i > 0 {
			if v.Rank() != 1 {
				n.Fail("input %d must be a vector, but is %s", i+1, v.Shape)
			}
			n.Same(v.Shape[0], x.Shape[last], "the last dim")
		} else if !broadcast(n, x.Shape, v.Shape).Equal(x.Shape) {
			n.Fail("skip is %s, which does not broadcast to %s", v.Shape, x.Shape)
		}
	}
	stats := append(x.Shape[:last:last], graph.Num(1))
	n.Set(0, x.Type, x.Shape)
	n.Set(1, graph.Float32, stats)
	n.Set(2, graph.Float32, stats)
	n.Set(3, x.Type, x.Shape)
}

// grad is LayerNormalization's gradient of the sum, which is computed again if it is not an
// output.
func (s skip) grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	flow := make([]*graph.Value, 4)
	copy(flow, dy)
	if flow[0] == nil {
		flow[0] = zerosLike(b, n.Outputs[0])
	}
	sum := n.Output(3)
	if sum == nil {
		sum = s.sum(b, n)
	}
	attrs, dx := graph.A{"epsilon": n.Float("epsilon")}, make([]*graph.Value, len(n.Inputs))
	gamma := n.Inputs[2]
	var part []*graph.Value
	if s.centred {
		beta := n.In(s.beta)
		outs := 2
		if beta != nil {
			outs = 3
		}
		part = b.Ops(own+".LayerNormalizationGrad", attrs, outs, flow[0], sum, gamma, beta, flow[1], flow[2])
		if beta != nil {
			dx[s.beta] = part[2]
		}
	} else {
		if flow[1] != nil || flow[2] != nil {
			n.Fail("outputs mean and inv_std_var have no gradient")
		}
		part = b.Ops(own+".RMSNormalizationGrad", attrs, 2, flow[0], sum, gamma)
	}
	dSum := part[0]
	if flow[3] != nil {
		dSum = b.Op("Add", nil, dSum, flow[3])
	}
	dx[0], dx[1], dx[2] = dSum, sumTo(b, dSum, n.Inputs[1].Shape), part[1]
	if bias := n.In(s.bias); bias != nil {
		dx[s.bias] = sumTo(b, dSum, bias.Shape)
	}
	return dx
}

// sum is the value that is normalized.
func (s skip) sum(b *graph.Builder, n *graph.Node) *graph.Value {
	sum := b.Op("Add", nil, n.Inputs[0], n.Inputs[1])
	if bias := n.In(s.bias); bias != nil {
		sum = b.Op("Add", nil, sum, bias)
	}
	return sum
}

// unfold splits the node into the sum and its norm, so that a plan can keep the sum and
// recompute the norm from it. The node itself can only be recomputed from two tensors, which
// would leave a BERT layer without its cheapest checkpoint. Nodes on 16-bit floats stay whole:
// the sum would be rounded in between.
func (s skip) unfold(b *graph.Builder, n *graph.Node) []*graph.Value {
	if t := n.Inputs[0].Type; t != graph.Float32 && t != graph.Float64 || n.Output(1) != nil || n.Output(2) != nil {
		return nil
	}
	sum := s.sum(b, n)
	attrs := graph.A{"epsilon": n.Float("epsilon")}
	if s.centred {
		return []*graph.Value{b.Op("LayerNormalization", attrs, sum, n.Inputs[2], n.In(s.beta)), nil, nil, sum}
	}
	return []*graph.Value{b.Op("RMSNormalization", attrs, sum, n.Inputs[2]), nil, nil, sum}
}

// fuseSkip fuses a residual sum, and a bias before it, with the norm after it. The sum must
// have no other reader, and one of the summands must be kept for another node anyway: where
// the node does not unfold, the gradient keeps both summands instead of the sum, which then
// costs no more.
func fuseSkip(centred bool) func(m *graph.Match) []*graph.Value {
	norms, name := []string{"RMSNormalization", "SimplifiedLayerNormalization"}, "SkipSimplifiedLayerNormalization"
	if centred {
		norms, name = []string{"LayerNormalization"}, "SkipLayerNormalization"
	}
	return func(m *graph.Match) []*graph.Value {
		p, n := pieces{m}, m.Node
		if !slices.Contains(norms, n.Op.FullName()) || n.Output(1) != nil || n.Output(2) != nil {
			return nil
		}
		sum, gamma, beta := n.Inputs[0], n.Inputs[1], n.In(2)
		rank := sum.Rank()
		if rank != 2 && rank != 3 || axisOf(n, n.Int("axis"), rank) != rank-1 || gamma.Rank() != 1 || gamma.Type != sum.Type || beta != nil && beta.Rank() != 1 {
			return nil
		}
		add := p.Inner(sum, "Add")
		if add == nil {
			return nil
		}
		x, skip := add.Inputs[0], add.Inputs[1]
		if len(p.Readers(x)) > 1 {
			x, skip = skip, x
		}
		if x == skip || len(p.Readers(skip)) < 2 || !x.Shape.Equal(sum.Shape) || !skip.Shape.Equal(sum.Shape) || !p.Kept(skip) {
			return nil
		}
		var bias *graph.Value
		if inner, b := p.biased(x); inner != nil {
			x, bias = inner, b
		}
		in := []*graph.Value{x, skip, gamma, bias}
		if centred {
			in = []*graph.Value{x, skip, gamma, beta, bias}
		}
		return []*graph.Value{m.Builder.Op(microsoft+"."+name, graph.A{"epsilon": n.Float("epsilon")}, in...)}
	}
}

// skipRows is a call of skip: each row is summed, then normalized.
type skipRows struct {
	rowNorm
	terms       []*graph.Tensor // input, skip and perhaps a bias
	strides     [][]int         // of the terms, in the shape of the sum
	gamma, beta *graph.Tensor   // beta may be nil
}

func (s skip) of(c *graph.Call) skipRows {
	shape := c.In[0].Shape
	last := len(shape) - 1
	r := skipRows{rowNorm: rowNorm{centred: s.centred, eps: c.Node.Float("epsilon"), shape: shape, axis: last, rows: index.Elems(shape[:last]), width: shape[last]},
		terms: []*graph.Tensor{c.In[0], c.In[1]}, gamma: c.In[2]}
	if s.beta >= 0 {
		r.beta = input(c, s.beta)
	}
	if bias := input(c, s.bias); bias != nil {
		r.terms = append(r.terms, bias)
	}
	for _, t := range r.terms {
		r.strides = append(r.strides, index.Broadcast(t.Shape, shape))
	}
	return r
}

// run computes rows [lo, hi).
func (r skipRows) run(c *graph.Call, lo, hi int) {
	x, total := make([]float64, r.width), output(c, 3)
	for row := lo; row < hi; row++ {
		at := row * r.width
		mean, squares := 0.0, 0.0
		index.Walk(r.shape, at, at+r.width, func(i int, from []int) {
			sum := 0.0
			for k, t := range r.terms {
				sum += t.Float(from[k])
			}
			x[i-at] = sum
			mean += sum
		}, r.strides...)
		if mean /= float64(r.width); !r.centred {
			mean = 0
		}
		for _, v := range x {
			squares += (v - mean) * (v - mean)
		}
		inv := 1 / math.Sqrt(squares/float64(r.width)+r.eps)
		for i, v := range x {
			y := (v - mean) * inv * r.gamma.Float(i)
			if r.beta != nil {
				y += r.beta.Float(i)
			}
			c.Out[0].SetFloat(at+i, y)
			if total != nil {
				total.SetFloat(at+i, v)
			}
		}
		r.keep(c, row, mean, inv)
	}
}

// keep writes a row's statistics to the outputs that are used.
func (r skipRows) keep(c *graph.Call, row int, mean, inv float64) {
	if out := output(c, 1); out != nil {
		out.SetFloat(row, mean)
	}
	if out := output(c, 2); out != nil {
		out.SetFloat(row, inv)
	}
}

func (s skip) eval(c *graph.Call) {
	r := s.of(c)
	r.run(c, 0, r.rows)
}

func (s skip) fast(c *graph.Call) {
	r := s.of(c)
	work := 1 + f32.Grain/8/max(1, r.width)
	if c.In[0].Type != graph.Float32 {
		c.Parallel(r.rows, work, func(lo, hi int) { r.run(c, lo, hi) })
		return
	}
	y, gamma, lead := c.Out[0].F32(), r.gamma.F32(), make([][]int, len(r.terms))
	var beta, total []float32
	if r.beta != nil {
		beta = r.beta.F32()
	}
	if t := output(c, 3); t != nil {
		total = t.F32()
	}
	data := make([][]float32, len(r.terms))
	for k, t := range r.terms {
		lead[k], data[k] = r.strides[k][:r.axis], t.F32()
	}
	c.Parallel(r.rows, work, func(lo, hi int) {
		x := make([]float32, r.width)
		index.Walk(r.shape[:r.axis], lo, hi, func(row int, from []int) {
			copy(x, data[0][from[0]:])
			for k := 1; k < len(data); k++ {
				term := data[k][from[k]:]
				if step := r.strides[k][r.axis]; step == 0 {
					for i := range x {
						x[i] += term[0]
					}
				} else {
					term = term[:len(x)]
					for i, v := range term {
						x[i] += v
					}
				}
			}
			at := row * r.width
			if total != nil {
				copy(total[at:], x)
			}
			mean, inv := r.stats32(x)
			f32.Norm(y[at:at+r.width], x, float32(mean), float32(inv), gamma, beta, 1)
			r.keep(c, row, mean, inv)
		}, lead...)
	})
}

// lowerSkip sums input, skip and bias into output 3 if that is used, else into output 0, then
// normalizes.
func lowerSkip(s skip) func(*graph.Lowering) {
	f := graph.Float32
	form := lower.FormOf(f, f, f, f)
	const two, three = "a + b", "a + b + c"
	form.Exprs = append(form.Exprs, two, three)
	w := loweredNorm{centred: s.centred, x: 0, scale: 2, bias: s.beta, mean: 1, inv: 2}
	return func(l *graph.Lowering) {
		to := 0
		if lower.Out(l, 3) != nil {
			to = 3
		}
		if !lower.OnlyF32(l) {
			return
		}
		if l.Out[0] == nil {
			l.Refuse("output 0 is not used")
			return
		}
		in, expr := []int{0, 1}, two
		if lower.In(l, s.bias) != nil {
			in, expr = append(in, s.bias), three
		}
		form.Lower(l, expr, to, in)
		shape := l.In[0].Shape
		last := len(shape) - 1
		r := rowNorm{centred: s.centred, eps: l.Node.Float("epsilon"), shape: shape, axis: last, rows: index.Elems(shape[:last]), width: shape[last]}
		if l.Refused == "" && r.rows*r.width > 0 {
			w.rowsOf(l, loweredRows{r, 1, r.width, 1, 0}, lower.Rereads(to))
		}
	}
}
