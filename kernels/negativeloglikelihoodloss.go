package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "NegativeLogLikelihoodLoss",
	Doc:   "−(log-probability of each label), weighted and reduced",
	In:    "input, target, weight?",
	Out:   "loss",
	Attrs: "ignore_index int, reduction string=mean",
	Infer: func(n *graph.Node) { inferClassLoss(n, n.Inputs[0], n.Inputs[1], n.In(2)) },
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		attrs := classLossAttrs(n)
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op(own+".NegativeLogLikelihoodLossGrad", attrs, dy[0], shapeOf(b, n.Inputs[0]), n.Inputs[1], n.In(2))
		return dx
	},
	Eval: func(c *graph.Call) {
		x := c.In[0]
		l := newClassLoss(c.Node, c.In[1], input(c, 2), x.Shape)
		l.reduce(c.Out[0], func(s int) float64 {
			class, w := l.pick(s)
			if class < 0 {
				return w
			}
			return -w * x.Float(l.first(s)+class*l.inner)
		})
	},
	Lower: lowerLogLikelihood,
	Flops: func(n *graph.Node) graph.Dim { return n.Inputs[1].Shape.Elems().Mul(graph.Num(2)) },
	Tests: graph.Tests{Places: graph.PlaceEach, Work: eachIn(1, 2)},
	Reads: func(n *graph.Node, input int) graph.Dim {
		if input == 0 {
			input = 1 // a score for each label
		}
		return n.Inputs[input].Shape.Elems()
	},
	Fixed:     []int{2},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[3,5], i64[3]<5",
		"f32[3,5], i32[3]<5, f32[5]>0",
		`f32[3,5], i64[3]<5; reduction="none" ignore_index=2`,
		`f32[3,5], i64[3]<5, f32[5]>0; reduction="sum" ignore_index=1`,
		"f32[2,3,2,2], i64[2,2,2]<3; ignore_index=0",
		`f64[2,3,4], i64[2,4]<3, f64[3]>0; reduction="none"`,
		"f32[0,5], i64[0]<5; reduction=\"sum\"",
		"f32[0,5], i64[0]<5; reduction=\"none\"",
	},
})

// NegativeLogLikelihoodLoss's gradient needs only the shape of the input.
var _ = define(graph.Op{
	Name:   "NegativeLogLikelihoodLossGrad",
	Domain: own,
	Doc:    "dinput = −onehot(target) · weight · dloss",
	In:     "dloss, shape, target, weight?",
	Out:    "dinput",
	Attrs:  "ignore_index int, reduction string=mean",
	Known:  []int{1},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		n.Set(0, n.Inputs[0].Type, knownDims(n, 1, "shape"))
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dx := c.Out[0]
		l := newClassLoss(c.Node, c.In[2], input(c, 3), dx.Shape)
		slope := l.slope(c.In[0])
		clear(dx.Bytes)
		for s := range l.labels.Len() {
			switch class, w := l.pick(s); {
			case class >= 0:
				dx.SetFloat(l.first(s)+class*l.inner, -w*slope(s))
			case w != 0: // a label out of range: w is NaN
				dx.SetFloat(l.first(s), w)
			}
		}
	},
	Lower:     lowerLogLikelihoodGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Outputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[], i64{3,5}, i64[3]<5",
		`f32[2,4], i64{2,3,4}, i32[2,4]<3, f32[3]>0; reduction="none" ignore_index=1`,
		`f64[], i64{2,3}, i64[2]<3; reduction="sum"`,
	},
})

func lowerLogLikelihood(l *graph.Lowering) { lower.ForwardLoss(l, 0, 1) }

// lowerLogLikelihoodGrad has only the shape of the scores.
func lowerLogLikelihoodGrad(l *graph.Lowering) {
	if l.Out[0].Type != graph.Float32 || l.In[2].Len() == 0 || l.Out[0].Len() == 0 {
		l.Refuse("dinput is empty or %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	c := lower.NewLoss(l, 1)
	c.Scores, c.Shape, c.Kept = lower.Unused(false), l.Out[0].Shape, 2
	c.Backward()
}
