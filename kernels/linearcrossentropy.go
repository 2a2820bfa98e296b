package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// LinearCrossEntropy is a linear layer followed by SoftmaxCrossEntropyLoss, computed some
// rows at a time: the scores of all rows, often the largest tensor of a language model,
// never exist at once. In exchange the gradient computes them again. It is bit-identical to
// the separate operators, and replaces them only where the caller of Clean asks for it.
var LinearCrossEntropy = define(graph.Op{
	Name:   "LinearCrossEntropy",
	Domain: own,
	Doc:    "SoftmaxCrossEntropyLoss of x · weight + bias, rows at a time",
	In:     "x, weight, labels, bias?",
	Out:    "output",
	Attrs:  "ignore_index int, reduction string=mean, transB int=0, rows int=0",
	Infer: func(n *graph.Node) {
		inferLinearLoss(n, n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3))
		n.Set(0, n.Inputs[0].Type, graph.Shape{})
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		attrs := classLossAttrs(n)
		attrs["transB"], attrs["rows"] = n.Int("transB"), n.Int("rows")
		outputs := 2
		if n.In(3) != nil {
			outputs = 3
		}
		d := b.Ops(own+".LinearCrossEntropyGrad", attrs, outputs, dy[0], n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3))
		dx := make([]*graph.Value, len(n.Inputs))
		if dx[0], dx[1] = d[0], d[1]; outputs == 3 {
			dx[3] = d[2]
		}
		return dx
	},
	Eval: func(c *graph.Call) {
		l := newLinearLoss(c, 0)
		l.reduce(c.Out[0], func(s int) float64 {
			row, lse := l.scores(s)
			class, w := l.pick(s)
			if class < 0 {
				return w
			}
			return w * (lse - row[class])
		})
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		l := newLinearLoss(c, 0)
		losses := scratch64(c, l.samples)
		l.chunks(c, c.Scratch[8*l.samples:], func(first int, z []float32) {
			c.Parallel(len(z)/l.classes, 1+f32.Grain/8/max(1, l.classes), func(lo, hi int) {
				for i := lo; i < hi; i++ {
					losses[first+i], _ = l.fastLoss(first+i, z[i*l.classes:(i+1)*l.classes])
				}
			})
		})
		l.reduce(c.Out[0], func(s int) float64 { return losses[s] })
	},
	Scratch: func(n *graph.Node) graph.Dim {
		return n.Inputs[2].Shape.Elems().Mul(graph.Num(8)).Add(chunkBytes(n, 0))
	},
	Lower: lowerLinearLoss,
	Fuse:  fuseLinearCrossEntropy,
	Flops: func(n *graph.Node) graph.Dim { return linearLossFlops(n, 0, 1) },
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 { return c.scores(0) * (2*int64(c.In[0].Shape[1]) + 10) }),
		Pieces: []string{
			"f32[100,8], f32[20,8], i64[100]<20; transB=1",
		},
	},
	Recompute: graph.Heavy,
	Calls:     launches(6),
	Inside:    func(n *graph.Node) graph.Dim { return lossScoreBytes(n, 0).Mul(graph.Num(4)) }, // as the product and the loss of it do
	Pieces:    graph.LossInChunks,
	Samples: []string{
		"f32[3,4], f32[4,5], i64[3]<5",
		`f32[7,4], f32[5,4], i64[7]<5, f32[5]; transB=1 rows=3 reduction="sum"`,
		"f32[6,3], f32[3,7], i32[6]<7; ignore_index=1 rows=2",
		"f64[3,4], f64[4,5], i64[3]<5, f64[5]; rows=1",
		"f32[3,1], f32[300,1], i64[3]<300; transB=1",
		"f16[3,4], f16[4,5], i64[3]<5",
		`f32[0,4], f32[4,5], i64[0]<5; reduction="sum"`,
	},
})

var _ = define(graph.Op{
	Name:   "LinearCrossEntropyGrad",
	Domain: own,
	Doc:    "the gradients of LinearCrossEntropy; computes the scores again",
	In:     "dloss, x, weight, labels, bias?",
	Out:    "dx?, dweight?, dbias?",
	Attrs:  "ignore_index int, reduction string=mean, transB int=0, rows int=0",
	Infer: func(n *graph.Node) {
		inferLinearLoss(n, n.Inputs[1], n.Inputs[2], n.Inputs[3], n.In(4))
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
		n.Set(1, n.Inputs[2].Type, n.Inputs[2].Shape)
		classes := n.Inputs[2].Shape[1]
		if n.Int("transB") != 0 {
			classes = n.Inputs[2].Shape[0]
		}
		n.Set(2, n.Inputs[1].Type, graph.Shape{classes})
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		l := newLinearLoss(c, 1)
		slope := l.slope(c.In[0])
		dx, dw, db := make([]float64, l.samples*l.features), make([]float64, l.classes*l.features), make([]float64, l.classes)
		for s := range l.samples {
			row, lse := l.scores(s)
			class, w := l.pick(s)
			if class < 0 && w == 0 {
				continue
			}
			for k, v := range row {
				d := w * slope(s) * math.Exp(v-lse)
				if k == class {
					d -= w * slope(s)
				}
				db[k] += d
				for p := range l.features {
					at := k*l.w.i + p*l.w.p
					dx[s*l.features+p] += d * l.weight.Float(at)
					dw[at] += d * l.x.Float(s*l.features+p)
				}
			}
		}
		for i, sums := range [][]float64{dx, dw, db} {
			if out := output(c, i); out != nil {
				for k, v := range sums {
					out.SetFloat(k, v)
				}
			}
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[1].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		newLinearLoss(c, 1).fastGrads(c)
	},
	Scratch: func(n *graph.Node) graph.Dim {
		return n.Inputs[2].Shape.Elems().FloorDiv(features(n, 1)).Mul(graph.Num(8)).Add(chunkBytes(n, 1))
	},
	Flops: func(n *graph.Node) graph.Dim {
		products := int64(1)
		for i := range 2 {
			if n.Output(i) != nil {
				products++
			}
		}
		return linearLossFlops(n, 1, products)
	},
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 {
			products := int64(1)
			for i := range 2 {
				if c.Node.Output(i) != nil {
					products++
				}
			}
			return c.scores(1) * (2*products*int64(c.In[1].Shape[1]) + 10)
		}),
		Pieces: []string{
			"f32[], f32[100,8], f32[20,8], i64[100]<20, f32[20]; transB=1",
			"f32[], f32[300,4], f32[4,20], i64[300]<20",
			"bf16[], bf16[400,8], bf16[8,10], i64[400]<10",
		},
	},
	Lower:     lowerLinearLossGrad,
	Recompute: graph.Heavy,
	Calls:     launches(12),
	Inside:    func(n *graph.Node) graph.Dim { return lossScoreBytes(n, 1).Mul(graph.Num(6)) },
	Samples: []string{
		"f32[], f32[3,4], f32[4,5], i64[3]<5",
		`f32[], f32[7,4], f32[5,4], i64[7]<5, f32[5]; transB=1 rows=3 reduction="sum"`,
		"f32[], f32[6,3], f32[3,7], i32[6]<7; ignore_index=1 rows=2",
		"f64[], f64[3,4], f64[4,5], i64[3]<5, f64[5]; rows=1",
		"f32[], f32[5,3], f32[3,7], i64[5]<7, f32[7]; rows=2 -> x",
		"f32[], f32[5,3], f32[3,7], i64[5]<7, f32[7]; rows=2 -> _, w",
		"f32[], f32[5,3], f32[3,7], i64[5]<7, f32[7]; rows=2 -> _, _, b",
		"f32[], f32[3,1], f32[300,1], i64[3]<300; transB=1",
		`f32[], f32[0,4], f32[4,5], i64[0]<5; reduction="sum"`,
	},
})

func features(n *graph.Node, x int) graph.Dim { return n.Inputs[x].Shape[1] }

// chunkBytes is the work space for the scores of the rows that are computed at a time.
func chunkBytes(n *graph.Node, x int) graph.Dim {
	most := n.Int("rows")
	if most == 0 {
		most = f32.BlockK
	}
	rows := n.Inputs[x].Shape[0].Min(graph.Num(int64(most)))
	return rows.Mul(n.Inputs[x+1].Shape.Elems().FloorDiv(features(n, x))).Mul(graph.Num(4))
}

// linearLossFlops counts products of x and weight, and the loss.
func linearLossFlops(n *graph.Node, x int, products int64) graph.Dim {
	rows, weight := n.Inputs[x].Shape[0], n.Inputs[x+1].Shape.Elems()
	return rows.Mul(weight).Mul(graph.Num(2 * products)).Add(rows.Mul(weight.FloorDiv(features(n, x))).Mul(graph.Num(10)))
}

// lossScoreBytes is what all scores take.
func lossScoreBytes(n *graph.Node, x int) graph.Dim {
	return n.Inputs[x].Shape[0].Mul(n.Inputs[x+1].Shape.Elems().FloorDiv(features(n, x))).Mul(graph.Num(n.Inputs[x].Type.Size()))
}

func inferLinearLoss(n *graph.Node, x, weight, labels, bias *graph.Value) {
	for _, v := range []*graph.Value{x, weight} {
		if !isFloat(v.Type) || v.Type != x.Type || v.Rank() != 2 {
			n.Fail("x and weight must be float matrices of one type, but are %s and %s", x, weight)
		}
	}
	if !isIndex(labels.Type) || labels.Rank() != 1 {
		n.Fail("labels must be int32 or int64 [rows], but are %s%s", labels.Type, labels.Shape)
	}
	in, classes := weight.Shape[0], weight.Shape[1]
	if n.Int("transB") != 0 {
		in, classes = classes, in
	}
	n.Same(in, x.Shape[1], "the inner dims of x and weight")
	n.Same(labels.Shape[0], x.Shape[0], "labels and rows")
	if bias != nil {
		if bias.Type != x.Type || bias.Rank() != 1 {
			n.Fail("bias must be %s [classes], but is %s%s", x.Type, bias.Type, bias.Shape)
		}
		n.Same(bias.Shape[0], classes, "bias and classes")
	}
	if r := n.Str("reduction"); r != "mean" && r != "sum" {
		n.Fail("reduction is %q, not sum or mean", r)
	}
	if n.Int("rows") < 0 {
		n.Fail("rows is %d; it must be at least 1, or 0 for the default", n.Int("rows"))
	}
}

// linearLoss is a call of LinearCrossEntropy or its gradient.
type linearLoss struct {
	classLoss
	x, weight, bias   *graph.Tensor // bias may be nil
	samples, features int
	chunk             int                // rows at a time
	w                 struct{ i, p int } // strides of weight: from class to class, from feature to feature
}

func newLinearLoss(c *graph.Call, x int) linearLoss {
	l := linearLoss{x: c.In[x], weight: c.In[x+1], bias: input(c, x+3), chunk: int(c.Node.Int("rows"))}
	l.samples, l.features = l.x.Shape[0], l.x.Shape[1]
	classes := l.weight.Shape[1]
	l.w.i, l.w.p = 1, classes
	if c.Node.Int("transB") != 0 {
		classes = l.weight.Shape[0]
		l.w.i, l.w.p = l.features, 1
	}
	if l.chunk == 0 { // split sums over rows where a product splits them
		l.chunk = f32.DepthOf(max(1, l.samples))
	}
	l.classLoss = newClassLoss(c.Node, c.In[x+2], nil, []int{l.samples, classes})
	return l
}

// scores returns the scores of a sample and their log-sum-exp.
func (l linearLoss) scores(sample int) (row []float64, lse float64) {
	row = make([]float64, l.classes)
	m, sum := math.Inf(-1), 0.0
	for k := range row {
		for p := range l.features {
			row[k] += l.x.Float(sample*l.features+p) * l.weight.Float(k*l.w.i+p*l.w.p)
		}
		if l.bias != nil {
			row[k] += l.bias.Float(k)
		}
		m = math.Max(m, row[k])
	}
	for _, v := range row {
		sum += math.Exp(v - m)
	}
	return row, m + math.Log(sum)
}

// chunks calls f with the scores of each chunk of rows.
func (l linearLoss) chunks(c *graph.Call, room []byte, f func(first int, z []float32)) {
	for first := 0; first < l.samples; first += l.chunk {
		rows := min(l.chunk, l.samples-first)
		z := floats(room[:4*rows*l.classes])
		if l.bias != nil {
			for i := range rows {
				copy(z[i*l.classes:], l.bias.F32())
			}
		}
		f32.Multiply(c.Parallel, rows, l.classes, l.features, f32.Dense(l.x.F32()[first*l.features:], l.features, 1, 1),
			f32.Dense(l.weight.F32(), l.w.i, l.w.p, 1), z, l.classes, l.bias != nil)
		f(first, z)
	}
}

func (l linearLoss) fastGrads(c *graph.Call) {
	slope := l.slope(c.In[0])
	dx, dw, db := output(c, 0), output(c, 1), output(c, 2)
	sums := scratch64(c, l.classes)
	clear(sums)
	if dw != nil && l.samples == 0 {
		clear(dw.Bytes)
	}
	l.chunks(c, c.Scratch[8*l.classes:], func(first int, z []float32) {
		rows := len(z) / max(1, l.classes)
		c.Parallel(rows, 1+f32.Grain/8/max(1, l.classes), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := z[i*l.classes : (i+1)*l.classes]
				l.fastGrad(first+i, slope(first+i), row, row)
			}
		})
		if dx != nil {
			f32.Multiply(c.Parallel, rows, l.features, l.classes, f32.Dense(z, l.classes, 1, 1), f32.Dense(l.weight.F32(), l.w.p, l.w.i, 1),
				dx.F32()[first*l.features:], l.features, false)
		}
		x := l.x.F32()[first*l.features:]
		switch {
		case dw == nil:
		case l.w.p == 1: // a row for each class
			f32.Multiply(c.Parallel, l.classes, l.features, rows, f32.Dense(z, 1, l.classes, 1), f32.Dense(x, 1, l.features, 1), dw.F32(), l.features, first > 0)
		default:
			f32.Multiply(c.Parallel, l.features, l.classes, rows, f32.Dense(x, 1, l.features, 1), f32.Dense(z, 1, l.classes, 1), dw.F32(), l.classes, first > 0)
		}
		if db != nil {
			c.Parallel(l.classes, f32.Grain, func(lo, hi int) {
				for i := range rows {
					for k, v := range z[i*l.classes:][lo:hi] {
						sums[lo+k] += float64(v)
					}
				}
			})
		}
	})
	if db != nil {
		for k, v := range sums {
			db.SetFloat(k, v)
		}
	}
}

// fuseLinearCrossEntropy matches the loss of a product with a matrix (possibly reshaped from
// [batch, seq, …] to rows), if nothing else reads the scores.
func fuseLinearCrossEntropy(m *graph.Match) []*graph.Value {
	n := m.Node
	if n.Op.FullName() != "SoftmaxCrossEntropyLoss" || n.In(2) != nil || len(n.Outputs) > 1 && n.Outputs[1] != nil ||
		n.Str("reduction") == "none" || n.Inputs[0].Rank() != 2 {
		return nil
	}
	scores, labels := n.Inputs[0], n.Inputs[1]
	if r := m.Inner(scores, "Reshape"); r != nil {
		from := r.Inputs[0]
		if from.Rank() < 2 || !from.Shape[from.Rank()-1].Equal(scores.Shape[1]) {
			return nil
		}
		scores = from
	}
	var bias *graph.Value
	made := pieces{m}.product(scores)
	if made == nil {
		made = m.Inner(scores, "Gemm")
	}
	if made == nil {
		return nil
	}
	if isOneOf(made, "Gemm") {
		if bias = made.In(2); bias != nil && (bias.Rank() != 1 || made.Float("beta") != 1 || !bias.Shape[0].Equal(scores.Shape[1])) {
			return nil
		}
	}
	p := productOfNode(made)
	transB := p.TransB
	if p.TransB = false; p != plainProduct {
		return nil
	}
	x, weight := made.Inputs[0], made.Inputs[1]
	if x.Rank() < 2 || weight.Rank() != 2 || !m.KeepsSums(x) || !m.KeepsSums(weight) || !m.KeepsSums(bias) {
		return nil
	}
	b := m.Builder
	if x.Rank() > 2 {
		x = tall(b, x)
	}
	attrs := classLossAttrs(n)
	attrs["transB"] = transB
	return []*graph.Value{b.Op(own+".LinearCrossEntropy", attrs, x, weight, labels, bias)}
}

// Fusions reports whether a fused operator is always at least as good as the nodes it
// replaces. Operators that unfold are not, and those with Pieces compute something twice.
func Fusions(op *graph.Op) bool {
	return op.Unfold == nil && op.Pieces == graph.NoPieces
}

// newLoweredLinear begins a lowering whose inputs from number x on are x, weight, labels and
// bias; nil if it is refused.
func newLoweredLinear(l *graph.Lowering, x int) *loweredLinear {
	for _, o := range append(l.Out, l.In[x]) {
		if o != nil && o.Type != graph.Float32 {
			l.Refuse("x is %s; there is a kernel for f32", o.Type)
			return nil
		}
	}
	weight := l.In[x+1].Shape
	c := &loweredLinear{x: x, weight: x + 1, bias: x + 3, features: weight[0], classes: weight[1], toClass: 1, toFeature: weight[1]}
	if l.Node.Int("transB") != 0 {
		c.classes, c.features, c.toClass, c.toFeature = weight[0], weight[1], weight[1], 1
	}
	samples := l.In[x].Shape[0]
	if samples*c.features*c.classes == 0 {
		l.Refuse("the number of samples, features or classes is 0")
		return nil
	}
	c.Loss = lower.Loss{L: l, Shape: []int{samples, c.classes}, Labels: x + 2, Weights: -1, LogProb: lower.Unused(true), Slope: lower.Unused(false)}
	if c.chunk = index.CeilDiv(l.Node.Int("rows"), lower.ReduceBlock) * lower.ReduceBlock; c.chunk == 0 {
		c.chunk = f32.BlockK
	}
	c.end = lower.Aligned(c.Work()) + lower.Aligned(int64(4*min(c.chunk, samples)*c.classes))
	l.Scratch = c.end
	// The chunk that a plan reserves work space for may exceed the descriptor range.
	c.chunk = min(c.chunk, int(l.Limits.Range/int64(4*c.classes))/lower.ReduceBlock*lower.ReduceBlock)
	if c.chunk == 0 {
		l.Refuse("the scores of %d rows exceed the device's buffer range", lower.ReduceBlock)
		return nil
	}
	return c
}

func lowerLinearLoss(l *graph.Lowering) {
	c := newLoweredLinear(l, 0)
	if c == nil {
		return
	}
	c.chunks(func(z graph.Buffer) {
		c.Some(lower.LossOfRows, c.first, c.rows, lower.Unused(true), lower.Unwritten(z), lower.Unused(true))
	})
	c.Pass(lower.LossOfAll)
}

func lowerLinearLossGrad(l *graph.Lowering) {
	c := newLoweredLinear(l, 1)
	if c == nil {
		return
	}
	c.Slope = lower.Reads(0)
	c.Weigh()
	var sums *lower.RowSums
	if lower.Out(l, 2) != nil {
		sums = lower.NewRowSums(l, c.classes, c.Samples(), lower.Writes(2), c.end)
		l.Scratch += sums.Bytes()
	}
	c.chunks(func(z graph.Buffer) {
		c.Some(lower.ScoresGrad, c.first, c.rows, z, lower.Unwritten(z), lower.Unused(true))
		if lower.Out(l, 0) != nil {
			to := lower.Writes(0)
			to.At = int64(4 * c.first * c.features)
			lower.ProductsOf(c.rows, c.features, c.classes, 1, lower.Factor{Buffer: z, Outside: c.classes, Along: 1}, lower.Factor{Buffer: lower.Reads(c.weight), Outside: c.toFeature, Along: c.toClass}, to, c.rows*c.features).Append(l)
		}
		if lower.Out(l, 1) != nil {
			flow, x := lower.Factor{Buffer: z, Outside: 1, Along: c.classes}, c.part(c.x)
			x.Outside, x.Along = x.Along, x.Outside
			p := lower.ProductsOf(c.features, c.classes, c.rows, 1, x, flow, lower.Writes(1), c.features*c.classes)
			if c.toFeature == 1 { // a row for each class
				p = lower.ProductsOf(c.classes, c.features, c.rows, 1, flow, x, lower.Writes(1), c.features*c.classes)
			}
			if c.first > 0 {
				p.GoesOn, p.C, p.Ci, p.Cj = true, lower.Rereads(1), p.Ldy, 1
			}
			p.Append(l)
		}
		if sums != nil {
			sums.Add(z, c.first, c.rows)
		}
	})
	if sums != nil {
		sums.Finish()
	}
}

// loweredLinear lowers LinearCrossEntropy or its gradient: products, the passes of the loss
// and sums over rows, chunk by chunk. The chunk's scores lie in work space after the loss's
// data for each sample. Sums over rows continue from chunk to chunk in the same order as over
// all rows, so results are bit-identical to the separate operators.
type loweredLinear struct {
	lower.Loss
	x, weight, bias    int // inputs; the bias may be missing
	features, classes  int
	toClass, toFeature int // strides of the weight
	chunk              int // rows at a time
	first, rows        int // of the current chunk
	end                int64
}

// chunks calls f for each chunk, with the buffer of its scores.
func (c *loweredLinear) chunks(f func(z graph.Buffer)) {
	for c.first = 0; c.first < c.Samples() && c.L.Refused == ""; c.first += c.chunk {
		c.rows = min(c.chunk, c.Samples()-c.first)
		z := lower.Scratch(lower.Aligned(c.Work()), int64(4*c.rows*c.classes), true)
		p := lower.ProductsOf(c.rows, c.classes, c.features, 1, c.part(c.x), lower.Factor{Buffer: lower.Reads(c.weight), Outside: c.toClass, Along: c.toFeature}, z, c.rows*c.classes)
		if lower.In(c.L, c.bias) != nil {
			p.C, p.Biased, p.Beta, p.Cj = lower.Reads(c.bias), true, 1, 1
		}
		p.Append(c.L)
		f(z)
	}
}

// part is a product's factor: the chunk's rows of an input [rows, features].
func (c *loweredLinear) part(in int) lower.Factor {
	b := lower.Reads(in)
	b.At = int64(4 * c.first * c.features)
	return lower.Factor{Buffer: b, Outside: c.features, Along: 1}
}

// scores is the number of scores of input x, whose weight is the next input.
func (c sampled) scores(x int) int64 {
	classes := c.In[x+1].Shape[1]
	if c.Node.Int("transB") != 0 {
		classes = c.In[x+1].Shape[0]
	}
	return visits(c.In[x].Shape[0], classes)
}
