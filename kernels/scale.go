package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:   "Scale",
	Domain: own,
	Doc:    "y = factor·x; the factor has one element",
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
		c.Parallel(len(y), f32.Grain, func(lo, hi int) { f32.Scale(y[lo:hi], x[lo:hi], k) })
	},
	Lower:     lower.Pointwise("a * b"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Role:      graph.RoleScale,
	Samples:   []string{"f32[2,3], f32[]", "f32[5], f32[1]", "f16[3], f16[]", "f32[0], f32[]"},
})

// Scale of ONNX Runtime takes a scale of any number type, and can divide by it.
var _ = define(graph.Op{
	Name:   "Scale",
	Domain: microsoft,
	Doc:    "y = x·scale, or x/scale; the scale has one element",
	In:     "input, scale",
	Out:    "output",
	Attrs:  "scale_down int=0",
	Infer: func(n *graph.Node) {
		wantType(n, 1, isNumber, "a number")
		n.Same(n.Inputs[1].Shape.Elems(), graph.Num(1), "the scale must have one element")
		floatMap(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, scale := n.Inputs[0], n.Inputs[1]
		dx := []*graph.Value{b.Op("com.microsoft.Scale", graph.A{"scale_down": n.Int("scale_down")}, dy[0], scale), nil}
		if scale.Type != x.Type {
			return dx
		}
		// dscale: dy·x, or −dy·y/scale.
		by := b.Op("Mul", nil, dy[0], x)
		if n.Int("scale_down") != 0 {
			by = b.Op("Neg", nil, b.Op("com.microsoft.Scale", graph.A{"scale_down": 1}, b.Op("Mul", nil, dy[0], n.Outputs[0]), scale))
		}
		dx[1] = reshape(b, b.Op("ReduceSum", graph.A{"keepdims": 0}, by), scale.Shape)
		return dx
	},
	Eval: func(c *graph.Call) {
		k := scaleOf(c)
		unary{f: func(x float64) float64 { return k * x }}.eval(c)
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		k, x, y := float32(scaleOf(c)), c.In[0].F32(), c.Out[0].F32()
		c.Parallel(len(y), f32.Grain, func(lo, hi int) { f32.Scale(y[lo:hi], x[lo:hi], k) })
	},
	Lower:     lowerScale,
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3], f32[]",
		"f32[2,3], f32[1]>0; scale_down=1",
		"f32[5], i64[]{12}; scale_down=1",
		"f16[3], i32[]{3}",
		"f16[3], f32[]",
		"f32[0,3], f32[]",
	},
})

// scaleOf is the factor: input 1, or its reciprocal with scale_down.
func scaleOf(c *graph.Call) float64 {
	k := c.In[1].Float(0)
	if c.Node.Int("scale_down") != 0 {
		k = 1 / k
	}
	return k
}

var lowerScale = byScale(graph.Float32, lower.Pointwise("a * b"), lower.Pointwise("a / b"),
	byScale(graph.Int64, wholeScale("a * float(b)"), wholeScale("a / float(b)"), nil))

// byScale selects between product and quotient for a scale of type t; other is for other types.
func byScale(t graph.DType, up, down, other func(*graph.Lowering)) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		switch {
		case l.In[1].Type != t && other != nil:
			other(l)
		case l.Node.Int("scale_down") != 0:
			down(l)
		default:
			up(l)
		}
	}
}

func wholeScale(expr string) func(*graph.Lowering) {
	return lower.PointwiseOf(expr, nil, graph.Float32, graph.Float32, graph.Int64, graph.Int64)
}
