package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "SoftmaxCrossEntropyLoss",
	Doc:   "−ln softmax(scores) at each label, weighted and reduced",
	In:    "scores, labels, weights?",
	Out:   "output, log_prob?",
	Attrs: "ignore_index int, reduction string=mean",
	Infer: func(n *graph.Node) {
		inferClassLoss(n, n.Inputs[0], n.Inputs[1], n.In(2))
		n.Set(1, n.Inputs[0].Type, n.Inputs[0].Shape)
	},
	// The probabilities are computed again from the scores, so only these are kept, and
	// their gradient can be computed in place.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		attrs := classLossAttrs(n)
		dLoss := dy[0]
		if dLoss == nil {
			dLoss = zerosLike(b, n.Outputs[0])
		}
		in := []*graph.Value{dLoss, n.Inputs[0], n.Inputs[1], n.In(2), nil}
		if len(dy) > 1 {
			in[4] = dy[1]
		}
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op(own+".SoftmaxCrossEntropyLossGrad", attrs, in...)
		return dx
	},
	Eval: func(c *graph.Call) {
		newClassLoss(c.Node, c.In[1], input(c, 2), c.In[0].Shape).crossEntropy(c)
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 || c.Out[0] == nil {
			c.Node.Op.Eval(c)
			return
		}
		newClassLoss(c.Node, c.In[1], input(c, 2), c.In[0].Shape).fastCrossEntropy(c)
	},
	Lower:   lowerCrossEntropy,
	Scratch: func(n *graph.Node) graph.Dim { return n.Inputs[1].Shape.Elems().Mul(graph.Num(8)) },
	Flops:   scoresFlops(0, 10),
	Tests: graph.Tests{
		Places: graph.PlaceEach,
		Work:   eachIn(0, 10),
		Pieces: []string{
			"f32[90,20], i64[90]<20",
			`f32[90,20], i32[90]<20, f32[20]; reduction="none" ignore_index=3`,
			"f32[8,20,16], i64[8,16]<20",
			"f16[150,20], i64[150]<20",
		},
	},
	Fixed:     []int{2},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,5], i64[3]<5",
		`f32[3,5], i32[3]<5, f32[5]>0; reduction="mean" -> y`,
		`f32[3,5], i64[3]<5; reduction="none" ignore_index=2`,
		`f32[3,5], i64[3]<5, f32[5]>0; reduction="sum" ignore_index=1 -> y`,
		"f32[6,3], i64[6]<3; ignore_index=1 -> y",
		"f32[2,3,2,2], i64[2,2,2]<3",
		`f32[2,3,4], i64[2,4]<3, f32[3]>0; reduction="none" -> y`,
		"f32[2,3,4], i64[2,4]<3, f32[3]>0; ignore_index=0 -> y",
		"f32[4,300], i64[4]<300 -> y",
		"f64[2,3], i64[2]<3",
		"f32[0,5], i64[0]<5; reduction=\"sum\" -> l",
		"f32[0,5], i64[0]<5; reduction=\"none\" -> l, p",
	},
})

// crossEntropy computes the loss and, if it is an output, the log-softmax.
func (l classLoss) crossEntropy(c *graph.Call) {
	x := c.In[0]
	l.reduce(c.Out[0], func(s int) float64 {
		at, lse := l.first(s), l.logSumExp(x, s)
		if p := output(c, 1); p != nil {
			for k := range l.classes {
				p.SetFloat(at+k*l.inner, x.Float(at+k*l.inner)-lse)
			}
		}
		class, w := l.pick(s)
		if class < 0 {
			return w
		}
		return w * (lse - x.Float(at+class*l.inner))
	})
}

// fastCrossEntropy is crossEntropy for float32, with the samples' losses in work space.
func (l classLoss) fastCrossEntropy(c *graph.Call) {
	losses := scratch64(c, l.labels.Len())
	var logProb []float32
	if p := output(c, 1); p != nil {
		logProb = p.F32()
	}
	c.Parallel(len(losses), 1+f32.Grain/8/max(1, l.classes), func(lo, hi int) {
		l.rows(logProb, c.In[0].F32(), lo, hi, func(s int, out, row []float32) {
			var lse float64
			losses[s], lse = l.fastLoss(s, row)
			for k := range out {
				out[k] = float32(float64(row[k]) - lse)
			}
		})
	})
	l.reduce(c.Out[0], func(s int) float64 { return losses[s] })
}

// fastLoss returns the loss of a sample with the given scores, and their log-sum-exp.
func (l classLoss) fastLoss(sample int, row []float32) (loss, lse float64) {
	m, sum := softmaxSum(row)
	lse = float64(m) + math.Log(sum)
	class, w := l.pick(sample)
	if class < 0 {
		return w, lse
	}
	return w * (lse - float64(row[class])), lse
}

// fastGrad computes the gradient of a sample's scores; out may be row.
func (l classLoss) fastGrad(sample int, slope float64, out, row []float32) {
	class, w := l.pick(sample)
	if class < 0 && w == 0 {
		clear(out)
		return
	}
	g := w * slope
	m, sum := softmaxSum(row)
	f32.InBlocks(len(row), func(lo, hi int) {
		out := out[lo:hi]
		for i, v := range row[lo:hi] {
			out[i] = v - m
		}
		f32.Exp(out, out)
		scale := float32(g / sum)
		for i := range out {
			out[i] *= scale
		}
	})
	if class >= 0 {
		out[class] -= float32(g)
	}
}

// softmaxSum returns the maximum m of the scores and Σ e^(score − m).
func softmaxSum(row []float32) (m float32, sum float64) {
	m = float32(math.Inf(-1))
	for _, v := range row {
		if v > m || v != v {
			m = v
		}
	}
	var e [f32.BlockLen]float32
	f32.InBlocks(len(row), func(lo, hi int) {
		e := e[:hi-lo]
		for i, v := range row[lo:hi] {
			e[i] = v - m
		}
		f32.Exp(e, e)
		sum = f32.Sum(sum, e)
	})
	return m, sum
}

// logSumExp is the log-sum-exp of a sample's scores.
func (l classLoss) logSumExp(x *graph.Tensor, sample int) float64 {
	at, m, sum := l.first(sample), math.Inf(-1), 0.0
	for k := range l.classes {
		m = math.Max(m, x.Float(at+k*l.inner))
	}
	for k := range l.classes {
		sum += math.Exp(x.Float(at+k*l.inner) - m)
	}
	return m + math.Log(sum)
}

// rows calls f for samples [lo, hi) with a contiguous row of scores from src, and a row that is
// stored to dst (which may be nil, or src itself).
func (l classLoss) rows(dst, src []float32, lo, hi int, f func(sample int, out, row []float32)) {
	if l.inner == 1 {
		for s := lo; s < hi; s++ {
			var out []float32
			if dst != nil {
				out = dst[s*l.classes : (s+1)*l.classes]
			}
			f(s, out, src[s*l.classes:(s+1)*l.classes])
		}
		return
	}
	row, out := make([]float32, l.classes), make([]float32, l.classes)
	if dst == nil {
		out = nil
	}
	for s := lo; s < hi; s++ {
		at := l.first(s)
		for k := range row {
			row[k] = src[at+k*l.inner]
		}
		f(s, out, row)
		for k, v := range out {
			dst[at+k*l.inner] = v
		}
	}
}

// scoresFlops counts flops operations for each element of an input.
func scoresFlops(input int, flops int64) func(*graph.Node) graph.Dim {
	return func(n *graph.Node) graph.Dim { return n.Inputs[input].Shape.Elems().Mul(graph.Num(flops)) }
}

var _ = define(graph.Op{
	Name:   "SoftmaxCrossEntropyLossGrad",
	Domain: own,
	Doc:    "dscores = (softmax(scores) − onehot(labels)) · weight · dloss, plus the gradient through log_prob",
	In:     "dloss, scores, labels, weights?, dlog_prob?",
	Out:    "dscores",
	Attrs:  "ignore_index int, reduction string=mean",
	Infer: func(n *graph.Node) {
		inferClassLoss(n, n.Inputs[1], n.Inputs[2], n.In(3))
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		x, dx, dp := c.In[1], c.Out[0], input(c, 4)
		l := newClassLoss(c.Node, c.In[2], input(c, 3), x.Shape)
		slope := l.slope(c.In[0])
		for s := range l.labels.Len() {
			at, lse := l.first(s), l.logSumExp(x, s)
			class, w := l.pick(s)
			g := w * slope(s)
			if class < 0 && w == 0 {
				g = 0 // avoid 0·∞
			}
			// Log-softmax: dx = up − softmax·Σ up, with up the gradient of log_prob.
			sum := -g
			for k := range l.classes {
				if dp != nil {
					sum += dp.Float(at + k*l.inner)
				}
			}
			for k := range l.classes {
				o, up := at+k*l.inner, 0.0
				if dp != nil {
					up = dp.Float(o)
				}
				if k == class {
					up -= g
				}
				if sum != 0 {
					up -= math.Exp(x.Float(o)-lse) * sum
				}
				dx.SetFloat(o, up)
			}
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[1].Type != graph.Float32 || input(c, 4) != nil {
			c.Node.Op.Eval(c)
			return
		}
		l := newClassLoss(c.Node, c.In[2], input(c, 3), c.In[1].Shape)
		slope := l.slope(c.In[0])
		c.Parallel(l.labels.Len(), 1+f32.Grain/8/max(1, l.classes), func(lo, hi int) {
			l.rows(c.Out[0].F32(), c.In[1].F32(), lo, hi, func(s int, out, row []float32) {
				l.fastGrad(s, slope(s), out, row)
			})
		})
	},
	Lower: lowerCrossEntropyGrad,
	Flops: scoresFlops(1, 10),
	Tests: graph.Tests{
		Work: eachIn(1, 10),
		Pieces: []string{
			"f32[], f32[90,20], i64[90]<20",
			`f32[90], f32[90,20], i64[90]<20; reduction="none"`,
			`f32[], f32[8,20,16], i32[8,16]<20; reduction="sum"`,
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{1},
	Samples: []string{
		"f32[], f32[3,5], i64[3]<5",
		`f32[3], f32[3,5], i64[3]<5, f32[5]>0; reduction="none"`,
		`f32[], f32[3,5], i64[3]<5, f32[5]>0, f32[3,5]; reduction="sum" ignore_index=0`,
		"f32[], f32[2,3,4], i32[2,4]<3; ignore_index=2",
		"f32[], f32[4,300], i64[4]<300",
		"f64[], f64[2,3], i64[2]<3, _, f64[2,3]",
	},
})

func lowerCrossEntropy(l *graph.Lowering) { lower.ForwardLoss(l, 0, 0) }

func lowerCrossEntropyGrad(l *graph.Lowering) {
	if lower.In(l, 4) != nil {
		l.Refuse("there is no kernel for the gradient of log_prob")
		return
	}
	if !lower.OnlyLoss(l, 1, 2) {
		return
	}
	lower.NewLoss(l, 1).Backward()
}
