package kernels

import "memopt/internal/graph"

// EmbedLayerNormalization and its quantized form, ONNX Runtime's, are rewritten into lookups, a
// sum and a LayerNormalization.
var _ = define(graph.Op{
	Name:   "EmbedLayerNormalization",
	Domain: microsoft,
	Doc:    "LayerNormalization of the sum of word, position and segment embeddings, and the number of tokens that are not padding",
	In:     "input_ids, segment_ids?, word_embedding, position_embedding, segment_embedding?, gamma, beta, mask?, position_ids?",
	Out:    "output, mask_index?, embedding_sum?",
	Attrs:  "epsilon float=1e-12, mask_index_type int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		e := tokens{Builder: b, n: n}
		row := func(table int, ids *graph.Value) *graph.Value { return b.Op("Gather", nil, n.Inputs[table], ids) }
		positions := func() *graph.Value { return e.first(n.Inputs[3]) }
		if ids := n.In(8); ids != nil {
			positions = func() *graph.Value { return row(3, ids) }
		}
		return e.build(row, positions(), 4, n.Inputs[5], n.Inputs[6])
	},
	Samples: []string{
		"i32[2,3]<5, i32[2,3]<2, f32[5,4], f32[6,4], f32[2,4], f32[4], f32[4], i32[2,3]<2; epsilon=1e-5",
		"i32[2,3]<5, _, f32[5,4], f32[6,4], _, f32[4], f32[4], _, i64[1,3]<6; epsilon=1e-5 -> y, _, s",
	},
})

var _ = define(graph.Op{
	Name:   "QEmbedLayerNormalization",
	Domain: microsoft,
	Doc:    "EmbedLayerNormalization with tables of bytes",
	In: "input_ids, segment_ids?, word_embedding_quant, position_embedding_quant, segment_embedding?, gamma_quant, beta_quant, mask?, " +
		"word_embedding_scale, position_embedding_scale, segment_embedding_scale?, gamma_scale, beta_scale, " +
		"word_embedding_zero_point, position_embedding_zero_point, segment_embedding_zero_point?, gamma_zero_point, beta_zero_point",
	Out:   "layernorm_out, mask_index_out?",
	Attrs: "epsilon float=1e-12",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		e := tokens{Builder: b, n: n}
		const scales, zeros = 6, 11 // from an input's number to those of its scale and zero point
		real := func(i int, x *graph.Value) *graph.Value {
			wantOne(n, i+scales, "the scale")
			wantOne(n, i+zeros, "the zero point")
			return b.Op("DequantizeLinear", nil, x, reshape(b, n.Inputs[i+scales], nil), reshape(b, n.Inputs[i+zeros], nil))
		}
		row := func(table int, ids *graph.Value) *graph.Value {
			return real(table, b.Op("Gather", nil, n.Inputs[table], ids))
		}
		return e.build(row, real(3, e.first(n.Inputs[3])), 4, real(5, n.Inputs[5]), real(6, n.Inputs[6]))
	},
	Samples: []string{
		"i32[2,3]<5, _, u8[5,4], u8[6,4], _, u8[4], u8[4], i32[2,3]<2, f32[]{0.1}, f32[]{0.2}, _, f32[]{0.1}, f32[]{0.1}, " +
			"u8[]{3}, u8[]{7}, _, u8[]{0}, u8[]{128}; epsilon=1e-5",
	},
})

type tokens struct {
	*graph.Builder
	n *graph.Node
}

// first is the rows of a table for the positions of the tokens.
func (e tokens) first(table *graph.Value) *graph.Value {
	ids := e.n.Inputs[0]
	if ids.Rank() != 2 {
		e.n.Fail("input_ids must be [batch, tokens], but are %s", ids.Shape)
	}
	return e.Op("Slice", nil, table, e.Ints(graph.Num(0)), e.Ints(ids.Shape[1]), e.Ints(graph.Num(0)))
}

// build sums the embeddings, by a function that looks rows of a table up, and normalizes them.
func (e tokens) build(row func(table int, ids *graph.Value) *graph.Value, positions *graph.Value, segments int, gamma, beta *graph.Value) []*graph.Value {
	n := e.n
	if ids := n.Inputs[0]; ids.Rank() != 2 {
		n.Fail("input_ids must be [batch, tokens], but are %s", ids.Shape)
	}
	sum := e.Op("Add", nil, row(2, n.Inputs[0]), positions)
	if ids := n.In(1); ids != nil {
		if n.In(segments) == nil {
			n.Fail("segment_ids come without segment_embedding")
		}
		sum = e.Op("Add", nil, sum, row(segments, ids))
	}
	out := []*graph.Value{e.Op("LayerNormalization", graph.A{"axis": -1, "epsilon": n.Float("epsilon")}, sum, gamma, beta)}
	if len(n.Outputs) > 1 {
		batch := n.Inputs[0].Shape[0]
		count := e.Op("ConstantOfShape", graph.A{"value": graph.NewTensor(graph.Int32, 1)}, e.Ints(batch))
		if mask := n.In(7); mask != nil {
			is := cast(e.Builder, e.Op("Equal", nil, mask, num(e.Builder, mask, 1)), graph.Int32)
			count = e.Op("ReduceSum", graph.A{"keepdims": 0}, is, e.Ints(graph.Num(1)))
		}
		out = append(out, count)
	}
	return append(out, sum)[:len(n.Outputs)]
}
