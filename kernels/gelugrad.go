package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// Gelu of com.microsoft is older than ONNX's and always exact.
var _ = define(graph.Op{
	Name:   "Gelu",
	Domain: microsoft,
	Doc:    "y = x·Φ(x)",
	In:     "X",
	Out:    "Y",
	Infer:  floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("com.microsoft.GeluGrad", nil, dy[0], n.Inputs[0])}
	},
	Eval:      exactGelu.eval,
	Fast:      exactGelu.fast,
	Lower:     lower.Pointwise("a * normal(a)"),
	Pointwise: true,
	Flops:     perElement(8),
	Tests:     graph.Tests{Work: eachOut(8)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,5]", "f32[300]", "f16[7]", "f64[]", "f32[0,3]"},
})

var _ = define(graph.Op{
	Name:      "GeluGrad",
	Domain:    microsoft,
	Doc:       "dx = dy·(Φ(x) + x·φ(x))",
	In:        "dY, X",
	Out:       "dX",
	Infer:     geluGradInfer,
	NoGrad:    true,
	Eval:      exactGelu.evalGrad,
	Fast:      exactGelu.fastGrad,
	Lower:     lower.Pointwise("a * geluSlope(b)"),
	Pointwise: true,
	Flops:     perElement(16),
	Tests:     graph.Tests{Work: eachOut(16)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   []string{"f32[2,5], f32[2,5]", "f32[300], f32[300]", "f16[7], f16[7]"},
})

// biasedGelu is BiasGelu or FastGelu of ONNX Runtime: gelu(x) or gelu(x + bias), where the
// bias broadcasts to x. Gradients compute x + bias again.
type biasedGelu struct{ form string }

var (
	exactGelu = biasedGelu{"none"}
	tanhGelu  = biasedGelu{"tanh"}
)

// biasInfer infers y = f(x + bias).
func biasInfer(n *graph.Node) {
	sameTypes(n)
	biasFits(n, 0, 1)
	floatMap(n)
}

// biasFits requires input number bias, if present, to broadcast to input number x.
func biasFits(n *graph.Node, x, bias int) {
	b, to := n.In(bias), n.Inputs[x]
	if b != nil && !broadcast(n, to.Shape, b.Shape).Equal(to.Shape) {
		n.Fail("the bias is %s, which does not broadcast to %s", b.Shape, to.Shape)
	}
}

func geluGradInfer(n *graph.Node) {
	sameTypes(n)
	sameDims(n, n.Inputs[1].Shape, n.Inputs[0].Shape)
	biasFits(n, 1, 2)
	floatMap(n)
}

func (g biasedGelu) eval(c *graph.Call) {
	f := geluForms[g.form].y
	if input(c, 1) == nil {
		unary{f: f}.eval(c)
		return
	}
	binary{f: func(x, bias float64) float64 { return f(x + bias) }}.eval(c)
}

func (g biasedGelu) fast(c *graph.Call) {
	if c.In[0].Type != graph.Float32 {
		g.eval(c)
		return
	}
	row := geluForms[g.form].row
	eachBiased(c, c.In[0], input(c, 1), func(lo int, x []float32) { row(c.Out[0].F32()[lo:lo+len(x)], x) })
}

func (g biasedGelu) evalGrad(c *graph.Call) {
	dy, x, bias, dx := c.In[0], c.In[1], input(c, 2), c.Out[0]
	slope := geluForms[g.form].dy
	st := make([]int, len(x.Shape))
	if bias != nil {
		st = index.Broadcast(bias.Shape, x.Shape)
	}
	index.Walk(x.Shape, 0, x.Len(), func(i int, at []int) {
		v := x.Float(i)
		if bias != nil {
			v += bias.Float(at[0])
		}
		dx.SetFloat(i, dy.Float(i)*slope(v))
	}, st)
}

func (g biasedGelu) fastGrad(c *graph.Call) {
	if c.In[0].Type != graph.Float32 {
		g.evalGrad(c)
		return
	}
	dy, dx, slope := c.In[0].F32(), c.Out[0].F32(), geluForms[g.form].slopeRow
	eachBiased(c, c.In[1], input(c, 2), func(lo int, x []float32) {
		hi := lo + len(x)
		slope(dx[lo:hi], dy[lo:hi], x)
	})
}

// eachBiased calls f with float32 pieces of x + bias and their first element. Without a bias
// the pieces are slices of x.
func eachBiased(c *graph.Call, x, bias *graph.Tensor, f func(lo int, x []float32)) {
	xs := x.F32()
	if bias == nil {
		c.Parallel(len(xs), f32.Grain, func(lo, hi int) { f(lo, xs[lo:hi]) })
		return
	}
	if len(xs) == 0 {
		return
	}
	bs := bias.F32()
	rows, width, _, st, shape := rowForm(x.Shape, bias.Shape, x.Shape)
	last := len(shape) - 1
	c.Parallel(rows, max(1, f32.Grain/width), func(lo, hi int) {
		var sum [f32.BlockLen]float32
		index.Walk(shape[:last], lo, hi, func(r int, at []int) {
			f32.InBlocks(width, func(lo, hi int) {
				x, sum := xs[r*width+lo:r*width+hi], sum[:hi-lo]
				if st[last] == 0 {
					b := bs[at[0]]
					for i, v := range x {
						sum[i] = v + b
					}
				} else {
					b := bs[at[0]+lo : at[0]+hi]
					for i, v := range x {
						sum[i] = v + b[i]
					}
				}
				f(r*width+lo, sum)
			})
		}, st[:last])
	})
}

// biasGrads returns the gradients of x and bias from that of their sum, dx.
func biasGrads(b *graph.Builder, n *graph.Node, dx *graph.Value) []*graph.Value {
	grads := make([]*graph.Value, len(n.Inputs))
	grads[0] = dx
	if bias := n.In(1); bias != nil {
		grads[1] = sumTo(b, dx, bias.Shape)
	}
	return grads
}
