package kernels

import "memopt/internal/graph"

// QLinearMatMul is rewritten into the integer product and what makes bytes of its sums again.
var _ = define(graph.Op{
	Name:  "QLinearMatMul",
	Since: 10,
	Doc:   "the product of dequantized a and b, quantized again",
	In:    "a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point",
	Out:   "y",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := n.Inputs
		sums := b.Op("MatMulInteger", nil, in[0], in[3], in[2], in[5])
		of := in[1]
		if r := in[0].Rank(); of.Rank() == 1 && !of.Shape.Elems().Is(1) && r > 1 {
			of = b.Op("Unsqueeze", nil, of, b.Ints(graph.Num(1))) // one for each row
		}
		return []*graph.Value{requantized(b, n, sums, of, in[4], 6)}
	},
	Samples: []string{"u8[3,4]>0, f32[]{0.1}, u8[]{3}, i8[4,5], f32{0.1,0.2,0.3,0.4,0.5}, i8{0,0,0,0,1}, f32[]{0.5}, u8[]{100}"},
})

// requantized quantizes int32 sums, whose scale is that of x times that of w, by the scale and
// the zero point that are inputs y and y+1. The three scales become one factor first, as ONNX
// Runtime does it: that decides which way sums are rounded.
func requantized(b *graph.Builder, n *graph.Node, sums, x, w *graph.Value, y int) *graph.Value {
	wantType(n, y, isFloat, "floats")
	wantOne(n, y, "y_scale")
	wantOne(n, y+1, "y_zero_point")
	factor := b.Op("Div", nil, b.Op("Mul", nil, x, w), reshape(b, n.Inputs[y], nil))
	real := b.Op("Mul", nil, cast(b, sums, graph.Float32), cast(b, factor, graph.Float32))
	return b.Op("QuantizeLinear", nil, real, b.Num(graph.Float32, 1), reshape(b, n.Inputs[y+1], nil))
}
