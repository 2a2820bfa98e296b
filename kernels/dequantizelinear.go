package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = defineTwice(graph.Op{
	Name:  "DequantizeLinear",
	Doc:   "y = (x − x_zero_point)·x_scale; scales are laid out as in QuantizeLinear",
	In:    "x, x_scale, x_zero_point?",
	Out:   "y",
	Attrs: "axis int=1, block_size int=0, output_dtype int=0",
	Infer: func(n *graph.Node) {
		x, scale, zero := n.Inputs[0], n.Inputs[1], n.In(2)
		wantType(n, 0, intOrFloat8, "integers or 8-bit floats")
		wantType(n, 1, isFloat, "floats")
		if zero != nil && zero.Type != x.Type {
			n.Fail("x_zero_point is %s, but x is %s", zero.Type, x.Type)
		}
		t := scale.Type
		if n.Int("output_dtype") != 0 {
			t = graph.DType(n.Int("output_dtype"))
			if int(t) != n.Int("output_dtype") || !t.IsFloat() {
				n.Fail("output_dtype is %d; 1, 10, 11 and 16 are floats", n.Int("output_dtype"))
			}
		}
		checkScale(n, x.Shape, scale, zero)
		n.Set(0, t, x.Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		attrs := graph.A{"axis": n.Int("axis"), "block_size": n.Int("block_size")}
		dx[1] = b.Op("memopt.DequantizeLinearGrad", attrs, dy[0], n.Inputs[0], n.Inputs[1], n.In(2))
		return dx
	},
	Eval:      func(c *graph.Call) { dequantize(c, f32.Serial) },
	Fast:      func(c *graph.Call) { dequantize(c, c.Parallel) },
	Lower:     lowerDequantize,
	Flops:     perElement(2),
	Tests:     graph.Tests{Work: eachOut(2)},
	Recompute: graph.Cheap,
	Samples: []string{
		"u8[2,3]>0, f32[]{0.1}",
		"i8[2,3], f32[]{0.01}, i8[]{3}",
		"u8[2,3,4]>0, f32{0.1,0.02,0.5}, u8{128,0,7}",
		"i16[2,3], f32{0.1,0.2}, i16{0,1000}; axis=0",
		"i8[2,5], f32[2,3], i8[2,3]; axis=1 block_size=2",
		"i32[5], f32[2]; axis=0 block_size=4",
		"i32[2,3], f16[]{0.5}; output_dtype=1",
		"u8[0,3], f32[]{0.1}",
		"f8e4m3fn[2,3], f32[]{0.1}",
		"f8e5m2[2,3], f32{0.1,0.001}, f8e5m2{0,0}; axis=0",
		"i4[2,5], f32[2,3], i4[2,3]; axis=1 block_size=2",
		"u4[2,3], f32[2,3]; axis=0 block_size=1",
		"u2[2,3], f32{0.1,0.2}, u2{1,3}; axis=0",
	},
})

func intOrFloat8(t graph.DType) bool { return t.IsInt() || t.IsFloat8() }

func dequantize(c *graph.Call, par f32.Parallel) {
	x, scale, zero, y := c.In[0], c.In[1], input(c, 2), c.Out[0]
	at := scaleIndex(c.Node, x, scale)
	par(y.Len(), f32.Grain/8, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y.SetFloat(i, centred(x, zero, i, at(i))*scale.Float(at(i)))
		}
	})
}

// centred is element i minus its zero point.
func centred(x, zero *graph.Tensor, i, k int) float64 {
	v := x.Float(i)
	if zero != nil {
		v -= zero.Float(k)
	}
	return v
}

var _ = define(graph.Op{
	Name:   "DequantizeLinearGrad",
	Domain: own,
	Doc:    "the gradient of the scales: Σ dy·(x − zero point)",
	In:     "dY, x, x_scale, x_zero_point?",
	Out:    "dScale",
	Attrs:  "axis int=1, block_size int=0",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		wantType(n, 1, intOrFloat8, "integers or 8-bit floats")
		wantType(n, 2, isFloat, "floats")
		sameDims(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
		checkScale(n, n.Inputs[1].Shape, n.Inputs[2], n.In(3))
		n.Set(0, n.Inputs[2].Type, n.Inputs[2].Shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, x, scale, zero := c.In[0], c.In[1], c.In[2], input(c, 3)
		at := scaleIndex(c.Node, x, scale)
		sums := make([]float64, scale.Len())
		for i := range x.Len() {
			sums[at(i)] += dy.Float(i) * centred(x, zero, i, at(i))
		}
		for k, s := range sums {
			c.Out[0].SetFloat(k, s)
		}
	},
	Lower:     lowerDequantizeGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems().Mul(graph.Num(3)) },
	Tests:     graph.Tests{Work: eachIn(0, 3)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3], u8[2,3]>0, f32[]{0.1}",
		"f32[2,3,4], u8[2,3,4]>0, f32{0.1,0.02,0.5}, u8{128,0,7}",
		"f32[2,5], i8[2,5], f32[2,3], i8[2,3]; axis=1 block_size=2",
	},
})

func lowerDequantize(l *graph.Lowering) {
	lowerQuantized(l, quantizeBack, l.Out[0], l.In[0], 1, 2, [6]*graph.Buffer{0: new(lower.Writes(0)), 2: new(lower.Reads(1)), 3: optionalIn(l, 2), 4: new(lower.Reads(0))})
}

func lowerDequantizeGrad(l *graph.Lowering) {
	lowerQuantized(l, quantizeGrad, l.In[0], l.In[1], 2, 3, [6]*graph.Buffer{0: new(lower.Writes(0)), 1: new(lower.Reads(0)), 2: new(lower.Reads(2)), 3: optionalIn(l, 3), 4: new(lower.Reads(1))})
}
