package kernels

import "memopt/internal/graph"

// The operators on bytes that ONNX Runtime's static quantization writes are rewritten into those
// on numbers, between a DequantizeLinear of each input and a QuantizeLinear of the output.

func realNumbers(b *graph.Builder, x, scale, zero *graph.Value) *graph.Value {
	return b.Op("DequantizeLinear", nil, x, scale, zero)
}

// quantizedAs quantizes by the scale and the zero point that are inputs i and i+1.
func quantizedAs(b *graph.Builder, n *graph.Node, y *graph.Value, i int) []*graph.Value {
	return []*graph.Value{b.Op("QuantizeLinear", nil, y, n.Inputs[i], n.In(i+1))}
}

// qlinearOne is an operator on one tensor of bytes.
func qlinearOne(name, attrs, sample string, on func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value) *graph.Op {
	return define(graph.Op{
		Name:   "QLinear" + name,
		Domain: microsoft,
		Doc:    name + " of dequantized X, quantized again",
		In:     "X, X_scale, X_zero_point?, Y_scale, Y_zero_point?",
		Out:    "Y",
		Attrs:  attrs,
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			return quantizedAs(b, n, on(b, n, realNumbers(b, n.Inputs[0], n.Inputs[1], n.In(2))), 3)
		},
		Samples: []string{sample},
	})
}

// qlinearTwo is an operator on two tensors of bytes.
func qlinearTwo(name string) *graph.Op {
	return define(graph.Op{
		Name:   "QLinear" + name,
		Domain: microsoft,
		Doc:    name + " of dequantized A and B, quantized again",
		In:     "A, A_scale, A_zero_point?, B, B_scale, B_zero_point?, C_scale, C_zero_point?",
		Out:    "C",
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			in := n.Inputs
			y := b.Op(name, nil, realNumbers(b, in[0], in[1], in[2]), realNumbers(b, in[3], in[4], in[5]))
			return quantizedAs(b, n, y, 6)
		},
		Samples: []string{"u8[2,3]>0, f32[]{0.1}, u8[]{3}, u8[3]>0, f32[]{0.2}, _, f32[]{0.3}, u8[]{7}"},
	})
}

const qlinearSample = "u8[1,2,4,4]>0, f32[]{0.1}, u8[]{3}, f32[]{0.2}, u8[]{7}"

var _ = [...]*graph.Op{
	qlinearTwo("Add"),
	qlinearTwo("Mul"),
	qlinearOne("Sigmoid", "", qlinearSample, func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value { return b.Op("Sigmoid", nil, x) }),
	qlinearOne("LeakyRelu", "alpha float=0.01", qlinearSample, func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value {
		return b.Op("LeakyRelu", graph.A{"alpha": n.Float("alpha")}, x)
	}),
	qlinearOne("GlobalAveragePool", "channels_last int=0", qlinearSample, func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value {
		channelsFirst(n)
		return b.Op("GlobalAveragePool", nil, x)
	}),
	qlinearOne("AveragePool", windowAttrs+", ceil_mode int=0, channels_last int=0, count_include_pad int=0, kernel_shape ints", qlinearSample+"; kernel_shape=[2, 2]",
		func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value {
			channelsFirst(n)
			attrs := convCopy(n)
			delete(attrs, "channels_last")
			return b.Op("AveragePool", attrs, x)
		}),
	qlinearOne("ReduceMean", "axes ints, keepdims int=1", qlinearSample+"; axes=[2, 3]", func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value {
		var axes *graph.Value
		if given := n.Ints("axes"); given != nil {
			var dims []graph.Dim
			for _, a := range given {
				dims = append(dims, graph.Num(a))
			}
			axes = b.Ints(dims...)
		}
		return b.Op("ReduceMean", graph.A{"keepdims": n.Int("keepdims")}, x, axes)
	}),
	qlinearOne("Softmax", "axis int=-1, opset int=13", qlinearSample, func(b *graph.Builder, n *graph.Node, x *graph.Value) *graph.Value {
		axis := axisOf(n, n.Int("axis"), x.Rank())
		const oneAxis = 13 // forms before are over all dims from the axis on
		if n.Int("opset") >= oneAxis || axis == x.Rank()-1 {
			return b.Op("Softmax", graph.A{"axis": axis}, x)
		}
		flat := reshape(b, x, graph.Shape{x.Shape[:axis].Elems(), x.Shape[axis:].Elems()})
		return reshape(b, b.Op("Softmax", nil, flat), x.Shape)
	}),
}

func channelsFirst(n *graph.Node) {
	if n.Int("channels_last") != 0 {
		n.Fail("channels_last is not supported")
	}
}

var _ = define(graph.Op{
	Name:   "QLinearConcat",
	Domain: microsoft,
	Doc:    "dequantized tensors one after another along an axis, quantized again; each comes with its scale and zero point",
	In:     "Y_scale, Y_zero_point, inputs...",
	Out:    "Y",
	Attrs:  "axis int",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := n.Inputs[2:]
		if len(in)%3 != 0 || len(in) == 0 {
			n.Fail("%d inputs are not tensors with a scale and a zero point each", len(in))
		}
		var parts []*graph.Value
		for ; len(in) > 0; in = in[3:] {
			parts = append(parts, realNumbers(b, in[0], in[1], in[2]))
		}
		return quantizedAs(b, n, b.Op("Concat", graph.A{"axis": n.Int("axis")}, parts...), 0)
	},
	Samples: []string{"f32[]{0.1}, u8[]{3}, u8[2,3]>0, f32[]{0.1}, u8[]{3}, u8[2,2]>0, f32[]{0.2}, u8[]{1}; axis=1"},
})

var _ = define(graph.Op{
	Name:   "QLinearWhere",
	Domain: microsoft,
	Doc:    "Where of dequantized X and Y, quantized again",
	In:     "condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point",
	Out:    "Z",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := n.Inputs
		return quantizedAs(b, n, b.Op("Where", nil, in[0], realNumbers(b, in[1], in[2], in[3]), realNumbers(b, in[4], in[5], in[6])), 7)
	},
	Samples: []string{"bool[2,3], u8[2,3]>0, f32[]{0.1}, u8[]{3}, u8[3]>0, f32[]{0.2}, u8[]{1}, f32[]{0.2}, u8[]{0}"},
})

// QGemm's C is int32, in the scale of the products.
var _ = define(graph.Op{
	Name:   "QGemm",
	Domain: microsoft,
	Doc:    "alpha·(A·B + C) of dequantized A and B, quantized again where there is y_scale",
	In:     "A, a_scale, a_zero_point, B, b_scale, b_zero_point, C?, y_scale?, y_zero_point?",
	Out:    "Y",
	Attrs:  "alpha float=1, transA int=0, transB int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := n.Inputs
		transposed := func(v *graph.Value, attr string) *graph.Value {
			if n.Int(attr) == 0 {
				return v
			}
			return b.Op("Transpose", graph.A{"perm": []int64{1, 0}}, v)
		}
		wantOne(n, 1, "a_scale")
		sums := b.Op("MatMulInteger", nil, transposed(in[0], "transA"), transposed(in[3], "transB"), reshape(b, in[2], nil), in[5])
		if c := n.In(6); c != nil {
			sums = b.Op("Add", nil, sums, c)
		}
		x := scaled(b, reshape(b, in[1], nil), n.Float("alpha"))
		if n.In(7) == nil {
			return []*graph.Value{b.Op("Mul", nil, cast(b, sums, graph.Float32), b.Op("Mul", nil, x, in[4]))}
		}
		return []*graph.Value{requantized(b, n, sums, x, in[4], 7)}
	},
	Samples: []string{"u8[3,4]>0, f32[]{0.1}, u8[]{3}, i8[5,4], f32[]{0.1}, i8[]{0}, i32[5], f32[]{0.5}, u8[]{100}; transB=1"},
})
