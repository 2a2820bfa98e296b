package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// SoftmaxCrossEntropyLossInternal is ONNX Runtime's form: ignore_index is an input, log_prob
// is kept for the gradient, and output_type may differ from the scores' type.
var _ = define(graph.Op{
	Name:   "SoftmaxCrossEntropyLossInternal",
	Domain: microsoft,
	Doc:    "SoftmaxCrossEntropyLoss with ignore_index as an input",
	In:     "scores, labels, weights?, ignore_index?",
	Out:    "output, log_prob?",
	Attrs:  "output_type int, reduction string=mean",
	Infer: func(n *graph.Node) {
		inferClassLoss(n, n.Inputs[0], n.Inputs[1], n.In(2))
		inferIgnored(n, 3)
		t := lossType(n, n.Inputs[0].Type)
		n.Set(0, t, n.Outputs[0].Shape)
		n.Set(1, t, n.Inputs[0].Shape)
	},
	// The gradient is that of ONNX's form: it needs the scores, not log_prob.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		scores := n.Inputs[0]
		attrs := graph.A{"reduction": n.Str("reduction")}
		if n.In(3) != nil {
			attrs["ignore_index"] = int(knownInts(n, 3, "ignore_index")[0])
		}
		in := []*graph.Value{dy[0], scores, n.Inputs[1], n.In(2), nil}
		if in[0] == nil {
			in[0] = zerosLike(b, n.Outputs[0])
		}
		if len(dy) > 1 && dy[1] != nil {
			in[4] = cast(b, dy[1], scores.Type)
		}
		in[0] = cast(b, in[0], scores.Type)
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op(own+".SoftmaxCrossEntropyLossGrad", attrs, in...)
		return dx
	},
	Eval: func(c *graph.Call) {
		keptClassLoss(c, c.In[1], input(c, 2), input(c, 3), c.In[0].Shape).crossEntropy(c)
	},
	Fast: func(c *graph.Call) {
		if p := output(c, 1); c.In[0].Type != graph.Float32 || p != nil && p.Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		keptClassLoss(c, c.In[1], input(c, 2), input(c, 3), c.In[0].Shape).fastCrossEntropy(c)
	},
	Scratch:   func(n *graph.Node) graph.Dim { return n.Inputs[1].Shape.Elems().Mul(graph.Num(8)) },
	Lower:     lowerInternalCrossEntropy,
	Flops:     scoresFlops(0, 10),
	Tests:     graph.Tests{Places: graph.PlaceEach, Work: eachIn(0, 10)},
	Fixed:     []int{2},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,5], i64[3]<5, _, i64[]{-100}",
		`f32[3,5], i64[3]<5, f32[5]>0, i64[]{1}; reduction="sum" -> y`,
		`f32[2,3,4], i64[2,4]<3; reduction="none"`,
		"f32[6,3], i32[6]<3, _, i64[]{1}; output_type=11",
		"f32[4,300], i64[4]<300",
		"f16[3,5], i64[3]<5; output_type=1",
		"f32[0,5], i64[0]<5; reduction=\"sum\" -> l, p",
	},
})

// inferIgnored checks input i, ignore_index.
func inferIgnored(n *graph.Node, i int) {
	wantType(n, i, isIndex, "int32 or int64")
	if v := n.In(i); v != nil {
		n.Same(v.Shape.Elems(), graph.Num(1), "ignore_index must have one element")
	}
}

// lossType is attribute output_type, or the type of the scores.
func lossType(n *graph.Node, scores graph.DType) graph.DType {
	if !n.Has("output_type") {
		return scores
	}
	t := graph.DType(n.Int("output_type"))
	if int(t) != n.Int("output_type") || !t.IsFloat() {
		n.Fail("output_type is %d, which is not a float type", n.Int("output_type"))
	}
	return t
}

// keptClassLoss is newClassLoss with ignore_index as a tensor, which may be nil.
func keptClassLoss(c *graph.Call, labels, weights, ignore *graph.Tensor, scores []int) classLoss {
	l := classLoss{labels: labels, weights: weights, classes: scores[1], inner: index.Elems(scores[2:]), reduction: c.Node.Str("reduction")}
	if ignore != nil {
		l.ignore, l.ignores = ignore.Int(0), true
	}
	return l
}

// ONNX Runtime's gradients read log_prob of the forward pass. Input bias is another gradient
// of the scores, which is added.
var _ = define(graph.Op{
	Name:   "SoftmaxCrossEntropyLossInternalGrad",
	Domain: microsoft,
	Doc:    "dscores = (e^log_prob − onehot(labels)) · weight · dloss + bias",
	In:     "dY, log_prob, label, weight?, ignore_index?, bias?",
	Out:    "d_logits",
	Attrs:  "output_type int, reduction string=mean",
	Infer: func(n *graph.Node) {
		inferKeptLoss(n)
		inferIgnored(n, 4)
		if bias := n.In(5); bias != nil {
			n.Same(bias.Shape.Elems(), n.Inputs[1].Shape.Elems(), "elements of the bias and of log_prob")
			wantType(n, 5, isFloat, "floats")
		}
		n.Set(0, lossType(n, n.Inputs[1].Type), n.Inputs[1].Shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		keptClassLoss(c, c.In[2], input(c, 3), input(c, 4), c.In[1].Shape).keptGrad(c, input(c, 5))
	},
	Fast: func(c *graph.Call) {
		keptClassLoss(c, c.In[2], input(c, 3), input(c, 4), c.In[1].Shape).fastKeptGrad(c, input(c, 5))
	},
	Lower:     lowerInternalKeptGrad,
	Flops:     scoresFlops(1, 6),
	Tests:     graph.Tests{Work: eachIn(1, 6)},
	Recompute: graph.Cheap,
	InPlace:   []int{1},
	Samples: []string{
		"f32[], f32[3,5], i64[3]<5, _, i64[]{-100}",
		`f32[3], f32[3,5], i64[3]<5, f32[5]>0, i64[]{2}; reduction="none"`,
		`f32[], f32[2,3,4], i32[2,4]<3, _, i64[]{0}, f32[2,3,4]; reduction="sum"`,
		"f32[], f32[3,5], i64[3]<5, _, _, f32[15]; output_type=11",
		"f32[], f32[4,300], i64[4]<300",
		"f32[], f16[3,5], i64[3]<5; output_type=10",
	},
})

var _ = define(graph.Op{
	Name:   "SoftmaxCrossEntropyLossGrad",
	Domain: microsoft,
	Doc:    "dscores = (e^log_prob − onehot(labels)) · weight · dloss",
	In:     "dY, log_prob, label, weight?",
	Out:    "d_logits",
	Attrs:  "ignore_index int, reduction string=mean",
	Infer: func(n *graph.Node) {
		inferKeptLoss(n)
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
	},
	NoGrad: true,
	Eval:   func(c *graph.Call) { newClassLoss(c.Node, c.In[2], input(c, 3), c.In[1].Shape).keptGrad(c, nil) },
	Fast:   func(c *graph.Call) { newClassLoss(c.Node, c.In[2], input(c, 3), c.In[1].Shape).fastKeptGrad(c, nil) },
	Lower:  lowerKeptGrad,
	Flops:  scoresFlops(1, 6),
	Tests: graph.Tests{
		Work: eachIn(1, 6),
		Pieces: []string{
			"f32[], f32[90,20], i64[90]<20",
			"f16[], f16[150,20], i64[150]<20",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{1},
	Samples: []string{
		"f32[], f32[3,5], i64[3]<5; ignore_index=2",
		`f32[3], f32[3,5], i64[3]<5, f32[5]>0; reduction="none"`,
		"f32[], f32[4,300], i64[4]<300",
	},
})

// inferKeptLoss checks dY, log_prob, label and weight.
func inferKeptLoss(n *graph.Node) {
	inferClassLoss(n, n.Inputs[1], n.Inputs[2], n.In(3))
	wantType(n, 0, isFloat, "floats")
	n.Same(n.Inputs[0].Shape.Elems(), n.Outputs[0].Shape.Elems(), "elements of dY and of the loss")
}

// slopeOf returns a sample's class, and the factor of its probabilities in the gradient.
func (l classLoss) slopeOf(s int, slope func(sample int) float64) (class int, g float64) {
	class, w := l.pick(s)
	if class < 0 && w == 0 {
		return class, 0 // avoid 0·∞
	}
	return class, w * slope(s)
}

func (l classLoss) keptGrad(c *graph.Call, bias *graph.Tensor) {
	p, dx, slope := c.In[1], c.Out[0], l.slope(c.In[0])
	for s := range l.labels.Len() {
		at := l.first(s)
		class, g := l.slopeOf(s, slope)
		for k := range l.classes {
			o := at + k*l.inner
			d := 0.0
			if g != 0 {
				d = math.Exp(p.Float(o)) * g
			}
			if k == class {
				d -= g
			}
			if bias != nil {
				d += bias.Float(o)
			}
			dx.SetFloat(o, d)
		}
	}
}

func (l classLoss) fastKeptGrad(c *graph.Call, bias *graph.Tensor) {
	if c.In[1].Type != graph.Float32 || c.Out[0].Type != graph.Float32 || bias != nil && bias.Type != graph.Float32 {
		l.keptGrad(c, bias)
		return
	}
	slope := l.slope(c.In[0])
	c.Parallel(l.labels.Len(), 1+f32.Grain/8/max(1, l.classes), func(lo, hi int) {
		l.rows(c.Out[0].F32(), c.In[1].F32(), lo, hi, func(s int, out, row []float32) {
			class, g := l.slopeOf(s, slope)
			if g == 0 {
				clear(out)
			} else {
				f32.Exp(out, row)
				f32.Scale(out, out, float32(g))
				if class >= 0 {
					out[class] -= float32(g)
				}
			}
			if bias != nil {
				more, at := bias.F32(), l.first(s)
				for k := range out {
					out[k] += more[at+k*l.inner]
				}
			}
		})
	})
}

func lowerInternalCrossEntropy(l *graph.Lowering) { lower.ForwardLoss(l, 3, 0) }

// lowerKeptGrad is the gradient from log_prob.
func lowerKeptGrad(l *graph.Lowering) {
	if lower.OnlyLoss(l, 1, 2) {
		c := lower.NewLoss(l, 1)
		c.Kept = 1
		c.Backward()
	}
}

// lowerInternalKeptGrad is lowerKeptGrad, and adds input bias in place.
func lowerInternalKeptGrad(l *graph.Lowering) {
	if !lower.OnlyLoss(l, 1, 2) {
		return
	}
	c := lower.NewLoss(l, 1)
	c.Ignore, c.Kept = 4, 1
	c.Backward()
	if more := lower.In(l, 5); more != nil && l.Refused == "" {
		like := &graph.Operand{Type: more.Type, Shape: l.Out[0].Shape}
		activationForm.Append(l, plusTerm, l.Out[0], []*graph.Operand{l.Out[0], like}, []graph.Buffer{lower.Writes(0), lower.Rereads(0), lower.Reads(5)})
	}
}
