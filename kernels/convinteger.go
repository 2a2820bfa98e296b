package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// ConvInteger pads with x's zero point, so padding contributes 0. Sums are int32 and wrap
// around, which ONNX allows.
var _ = define(graph.Op{
	Name:  "ConvInteger",
	Since: 10,
	Doc:   "y = (w − w_zero_point) convolved with (x − x_zero_point) in int32",
	In:    "x, w, x_zero_point?, w_zero_point?",
	Out:   "y",
	Attrs: convAttrs,
	Infer: func(n *graph.Node) {
		x, w := n.Inputs[0], n.Inputs[1]
		for i, v := range []*graph.Value{x, w} {
			wantType(n, i, isByte, "i8 or u8")
			if z := n.In(2 + i); z != nil && z.Type != v.Type {
				n.Fail("the zero point of a %s is %s", v.Type, z.Type)
			}
		}
		wantOne(n, 2, "x_zero_point")
		win := convWindow(n, x.Shape, w.Shape)
		group := graph.Num(int64(n.Int("group")))
		n.Same(x.Shape[1], w.Shape[1].Mul(group), "channels of x, and of w times group")
		if m := w.Shape[0].Mod(group); !m.Is(0) {
			n.Fail("%s filters cannot be split into %s groups", w.Shape[0], group)
		}
		if z := n.In(3); z != nil && !z.Shape.Elems().Is(1) {
			if z.Rank() != 1 {
				n.Fail("w_zero_point must be one number or [M], but is %s", z.Shape)
			}
			n.Same(z.Shape[0], w.Shape[0], "zero points and filters")
		}
		n.Set(0, graph.Int32, win.shape(n, x.Shape, w.Shape[0]))
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		x, w, zx, zw, y := c.In[0], c.In[1], input(c, 2), input(c, 3), c.Out[0]
		conv := convOf(c.Node, x.Shape, w.Shape, y.Shape)
		each := index.Elems(w.Shape[1:])
		xZero, wZero := 0.0, func(int) float64 { return 0 }
		if zx != nil {
			xZero = zx.Float(0)
		}
		if zw != nil {
			wZero = func(i int) float64 { return zw.Float(i / each % zw.Len()) }
		}
		sums := make([]float64, y.Len())
		conv.plain(sums, func(xi, wi, yi int) (int, float64) {
			return yi, (x.Float(xi) - xZero) * (w.Float(wi) - wZero(wi))
		})
		for i, s := range sums {
			y.SetInt(i, int64(s))
		}
	},
	Flops:     func(n *graph.Node) graph.Dim { return convFlops(n.Outputs[0].Shape, n.Inputs[1].Shape) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return 2 * c.out(0) * visits(c.In[1].Shape[1:]...) })},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		"u8[1,1,3,3]>0, u8[1,1,2,2]>0, u8[]{1}",
		"u8[2,2,4]>0, i8[3,2,2], u8[]{1}, i8[3]; pads=[1, 1]",
		"i8[1,4,4,4], i8[4,2,3,3], _, i8[]{2}; group=2 strides=[2, 1]",
	},
})
