package kernels

import "memopt/internal/graph"

// QLinearConv is rewritten into the integer convolution and what makes bytes of its sums
// again. The bias has the scale of the sums.
var _ = define(graph.Op{
	Name:  "QLinearConv",
	Since: 10,
	Doc:   "the convolution of dequantized x by w, + B for each channel, quantized again",
	In:    "x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B?",
	Out:   "y",
	Attrs: convAttrs,
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := n.Inputs
		wantOne(n, 1, "x_scale")
		sums := b.Op("ConvInteger", convCopy(n), in[0], in[3], in[2], in[5])
		channels := func(v *graph.Value) *graph.Value {
			if v.Rank() != 1 || v.Shape.Elems().Is(1) {
				return reshape(b, v, nil)
			}
			n.Same(v.Shape[0], in[3].Shape[0], "scales or biases and filters")
			shape := append(graph.Shape{v.Shape[0]}, graph.Dims(1, 1, 1)[:sums.Rank()-2]...)
			return reshape(b, v, shape)
		}
		if bias := n.In(8); bias != nil {
			if bias.Type != graph.Int32 {
				n.Fail("B is %s; int32 expected", bias.Type)
			}
			sums = b.Op("Add", nil, sums, channels(bias))
		}
		return []*graph.Value{requantized(b, n, sums, reshape(b, in[1], nil), channels(in[4]), 6)}
	},
	Samples: []string{"u8[1,1,3,3]>0, f32[]{0.1}, u8[]{3}, i8[2,1,2,2], f32{0.1,0.2}, i8{0,1}, f32[]{0.5}, u8[]{100}, i32[2]"},
})
