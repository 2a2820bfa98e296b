package kernels

import "memopt/memopt/graph"

var _ = define(graph.Op{
	Name:   "Scale",
	Domain: own,
	Doc:    "y = factor·x; the factor is one number",
	In:     "X, factor",
	Out:    "Y",
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isFloat, "floats")
		if !n.Inputs[1].Shape.Elems().Is(1) {
			n.Fail("the factor has shape %s; one number expected", n.Inputs[1].Shape)
		}
		sameShape(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, factor := n.Inputs[0], n.Inputs[1]
		sum := b.Op("ReduceSum", graph.A{"keepdims": 0}, b.Op("Mul", nil, dy[0], x))
		return []*graph.Value{b.Op("memopt.Scale", nil, dy[0], factor), reshape(b, sum, factor.Shape)}
	},
	Eval: func(c *graph.Call) {
		k := c.In[1].Float(0)
		unary{f: func(x float64) float64 { return k * x }}.eval(c)
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		k := c.In[1].F32()[0]
		x, y := c.In[0].F32(), c.Out[0].F32()
		c.Parallel(len(y), grain, func(lo, hi int) { scaleRow(y[lo:hi], x[lo:hi], k) })
	},
	Flops:     perElement(1),
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Role:      graph.RoleScale,
	Samples:   []string{"f32[2,3], f32[]", "f32[5], f32[1]", "f16[3], f16[]"},
})
