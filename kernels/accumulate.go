package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// Accumulate sums gradients over micro-batches in place. Micro-batch 0 overwrites
// the sum of the previous update, so the accumulator is never cleared.
var _ = define(graph.Op{
	Name:   "Accumulate",
	Domain: own,
	Doc:    "sum + grad, or grad alone in micro-batch 0",
	In:     "sum, grad, micro",
	Out:    "total",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		sameAsParam(n, 1)
		wantScalar(n, 2, graph.Int64)
		sameShape(n)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		sum, grad, out := c.In[0], c.In[1], c.Out[0]
		first := c.In[2].Int(0) == 0
		for i := range out.Len() {
			x := grad.Float(i)
			if !first {
				x += sum.Float(i)
			}
			out.SetFloat(i, x)
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		sum, grad, out := c.In[0].F32(), c.In[1].F32(), c.Out[0].F32()
		first := c.In[2].Int(0) == 0
		c.Parallel(len(out), f32.Grain, func(lo, hi int) {
			sum, grad, out := sum[lo:hi], grad[lo:hi], out[lo:hi]
			if first {
				copy(out, grad)
				return
			}
			for i := range out {
				out[i] = sum[i] + grad[i]
			}
		})
	},
	Lower:      lower.PointwiseOf("c == 0 ? b : a + b", nil, graph.Float32, graph.Float32, graph.Float32, graph.Int64),
	Flops:      perElement(1),
	Tests:      graph.Tests{Work: eachOut(1)},
	Recompute:  graph.Never,
	Overwrites: []int{0},
	Role:       graph.RoleAccumulate,
	Samples: []string{
		"f32[2,3], f32[2,3], i64[]{0}",
		"f32[2,3], f32[2,3], i64[]{3}",
		"f16[5], f16[5], i64[]{1}",
		"f32[0], f32[0], i64[]{1}",
	},
})

// sameAsParam requires input i to have the type and shape of input 0.
func sameAsParam(n *graph.Node, i int) {
	p, x := n.Inputs[0], n.Inputs[i]
	if x.Type != p.Type || x.Rank() != p.Rank() {
		n.Fail("input %d is %s%s, but input 0 is %s%s", i, x.Type, x.Shape, p.Type, p.Shape)
	}
	for d := range p.Shape {
		n.Same(x.Shape[d], p.Shape[d], "shapes of an update")
	}
}

// wantScalar requires input i, if present, to be a scalar of type t.
func wantScalar(n *graph.Node, i int, t graph.DType) {
	if v := n.In(i); v != nil && (v.Type != t || v.Rank() != 0) {
		n.Fail("input %d must be a scalar %s, but is %s%s", i, t, v.Type, v.Shape)
	}
}
