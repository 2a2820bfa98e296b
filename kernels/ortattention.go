package kernels

import (
	"math"

	"memopt/internal/graph"
)

// ONNX Runtime's transformer optimizer fuses attention into operators of its own. They are
// rewritten into products and a softmax, as ONNX's Attention is, so that the planner sees each
// part.

const ortAttentionAttrs = "do_rotary int=0, mask_filter_value float=-10000, num_heads int, past_present_share_buffer int=0, " +
	"rotary_embedding_dim int=0, scale float=0, unidirectional int=0"

var _ = define(graph.Op{
	Name:   "Attention",
	Domain: microsoft,
	Doc:    "softmax(scale·Q·Kᵀ, masked)·V for each head, with Q, K and V one product of the input",
	In:     "input, weights, bias?, mask_index?, past?, attention_bias?, past_sequence_length?",
	Out:    "output, present?",
	Attrs:  ortAttentionAttrs + ", qkv_hidden_sizes ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		packed := b.Op("MatMul", nil, n.Inputs[0], n.Inputs[1])
		if bias := n.In(2); bias != nil {
			packed = b.Op("Add", nil, packed, bias)
		}
		a := newOrtAttention(b, n)
		a.mask, a.added = n.In(3), n.In(5)
		if n.In(6) != nil {
			n.Fail("past_sequence_length goes with a buffer that past and present share, which is not supported")
		}
		return a.packed(packed, n.Ints("qkv_hidden_sizes"), n.In(4))
	},
	Samples: []string{
		"f32[2,3,4], f32[4,12], f32[12]; num_heads=2 -> y",
		"f32[2,3,4], f32[4,10], f32[10], i32[2]{3,2}; num_heads=2 qkv_hidden_sizes=[4, 4, 2] unidirectional=1 -> y",
		"f32[2,3,4], f32[4,12], f32[12], i32[2,5]<2, f32[2,2,2,2,2], f32[1,2,3,5]; num_heads=2",
	},
})

var _ = define(graph.Op{
	Name:   "QAttention",
	Domain: microsoft,
	Doc:    "Attention with a product of integers",
	In:     "input, weight, bias, input_scale, weight_scale, mask_index?, input_zero_point?, weight_zero_point?, past?",
	Out:    "output, present?",
	Attrs:  ortAttentionAttrs,
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		wantOne(n, 3, "input_scale")
		sums := b.Op("MatMulInteger", nil, n.Inputs[0], n.Inputs[1], n.In(6), n.In(7))
		scale := b.Op("Mul", nil, reshape(b, n.Inputs[3], nil), n.Inputs[4])
		packed := b.Op("Add", nil, b.Op("Mul", nil, cast(b, sums, scale.Type), scale), n.Inputs[2])
		a := newOrtAttention(b, n)
		a.mask = n.In(5)
		return a.packed(packed, nil, n.In(8))
	},
	Samples: []string{"u8[2,3,4]>0, i8[4,12], f32[12], f32[]{0.1}, f32[]{0.02}, i32[2,3]<2, u8[]{3}, i8[]{0}; num_heads=2 -> y"},
})

var _ = define(graph.Op{
	Name:   "MultiHeadAttention",
	Domain: microsoft,
	Doc:    "softmax(scale·Q·Kᵀ, masked)·V for each head",
	In: "query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?, past_sequence_length?, " +
		"cache_indirection?",
	Out:   "output, present_key?, present_value?, qk?",
	Attrs: "mask_filter_value float=-10000, num_heads int, scale float=0, unidirectional int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		a := newOrtAttention(b, n)
		a.mask, a.added = n.In(4), n.In(5)
		if n.In(8) != nil || n.In(9) != nil {
			n.Fail("past_sequence_length and cache_indirection, of decoders that share buffers, are not supported")
		}
		q, k, v := a.inputs()
		if (n.In(6) == nil) != (n.In(7) == nil) {
			n.Fail("past_key and past_value go together")
		}
		if n.In(6) != nil {
			if n.In(6).Rank() != 4 {
				n.Fail("past_key must be [batch, heads, keys, head size], but is %s", n.In(6).Shape)
			}
			a.past = n.In(6).Shape[2]
			k = b.Op("Concat", graph.A{"axis": 2}, n.In(6), k)
			v = b.Op("Concat", graph.A{"axis": 2}, n.In(7), v)
		}
		y, scores := a.attend(q, k, v)
		return []*graph.Value{y, k, v, scores}[:len(n.Outputs)]
	},
	Samples: []string{
		"f32[2,3,4], f32[2,5,4], f32[2,5,6], f32[14], i32[2,5]<2; num_heads=2 -> y",
		"f32[1,3,2,3,4]; num_heads=2 unidirectional=1 -> y",
	},
})

// ortAttention builds attention by the rules of ONNX Runtime.
type ortAttention struct {
	*graph.Builder
	n     *graph.Node
	heads graph.Dim
	past  graph.Dim    // keys before the first query
	mask  *graph.Value // of keys; see hidden
	added *graph.Value // to the scores
}

func newOrtAttention(b *graph.Builder, n *graph.Node) *ortAttention {
	heads := n.Int("num_heads")
	if heads < 1 {
		n.Fail("num_heads is %d", heads)
	}
	return &ortAttention{Builder: b, n: n, heads: graph.Num(int64(heads)), past: graph.Num(0)}
}

// split views [B, S, N·H] as [B, N, S, H].
func (a *ortAttention) split(x *graph.Value) *graph.Value {
	if x.Rank() != 3 || !x.Shape[2].Mod(a.heads).Is(0) {
		a.n.Fail("%s heads do not fit into %s", a.heads, x.Shape)
	}
	x = reshape(a.Builder, x, graph.Shape{x.Shape[0], x.Shape[1], a.heads, x.Shape[2].FloorDiv(a.heads)})
	return a.Op("Transpose", graph.A{"perm": []int64{0, 2, 1, 3}}, x)
}

// packed computes Attention of Q, K and V side by side in x. past is [2, B, N, P, H].
func (a *ortAttention) packed(x *graph.Value, sizes []int64, past *graph.Value) []*graph.Value {
	for _, name := range []string{"do_rotary", "past_present_share_buffer"} {
		if a.n.Int(name) != 0 {
			a.n.Fail("%s is not supported", name)
		}
	}
	if x.Rank() != 3 {
		a.n.Fail("the input must be [batch, length, hidden size], but its product is %s", x.Shape)
	}
	var parts []graph.Dim
	if sizes == nil {
		third := x.Shape[2].FloorDiv(graph.Num(3))
		parts = []graph.Dim{third, third, third}
	}
	for _, s := range sizes {
		parts = append(parts, graph.Num(s))
	}
	if len(parts) != 3 || !parts[0].Add(parts[1]).Add(parts[2]).Equal(x.Shape[2]) {
		a.n.Fail("Q, K and V of sizes %v are not side by side in %s", parts, x.Shape)
	}
	side := a.Ops("Split", graph.A{"axis": 2}, 3, x, a.Ints(parts...))
	q, k, v := a.split(side[0]), a.split(side[1]), a.split(side[2])
	if past != nil {
		if past.Rank() != 5 {
			a.n.Fail("past must be [2, batch, heads, keys, head size], but is %s", past.Shape)
		}
		a.past = past.Shape[3]
		k = a.Op("Concat", graph.A{"axis": 2}, a.Op("Gather", nil, past, a.Int(graph.Num(0))), k)
		v = a.Op("Concat", graph.A{"axis": 2}, a.Op("Gather", nil, past, a.Int(graph.Num(1))), v)
	}
	y, _ := a.attend(q, k, v)
	out := []*graph.Value{y}
	if len(a.n.Outputs) > 1 {
		zero := a.Ints(graph.Num(0))
		out = append(out, a.Op("Concat", graph.A{"axis": 0}, a.Op("Unsqueeze", nil, k, zero), a.Op("Unsqueeze", nil, v, zero)))
	}
	return out
}

// inputs are query, key and value of MultiHeadAttention as [B, N, S, H], in the forms in which
// they may come, with the bias added.
func (a *ortAttention) inputs() (q, k, v *graph.Value) {
	n := a.n
	q, k, v = n.Inputs[0], n.In(1), n.In(2)
	part := func(x *graph.Value, axis, i int) *graph.Value {
		return a.Op("Gather", graph.A{"axis": axis}, x, a.Int(graph.Num(int64(i))))
	}
	// flat is [B, S, N, H] as [B, S, N·H].
	flat := func(x *graph.Value) *graph.Value {
		return reshape(a.Builder, x, graph.Shape{x.Shape[0], x.Shape[1], x.Shape[2].Mul(x.Shape[3])})
	}
	switch {
	case k == nil && q.Rank() == 5: // [B, S, N, 3, H]
		q, k, v = flat(part(q, 3, 0)), flat(part(q, 3, 1)), flat(part(q, 3, 2))
	case k == nil:
		n.Fail("without a key, the query must be [batch, length, heads, 3, head size], but is %s", q.Shape)
	case v == nil && k.Rank() == 5: // [B, L, N, 2, H]
		k, v = flat(part(k, 3, 0)), flat(part(k, 3, 1))
	case v == nil:
		n.Fail("without a value, the key must be [batch, length, heads, 2, head size], but is %s", k.Shape)
	}
	of := [3]*graph.Value{q, k, v}
	for i, x := range of {
		if x.Rank() != 3 && x.Rank() != 4 {
			n.Fail("input %d must be [batch, length, hidden size] or [batch, heads, length, head size], but is %s", i, x.Shape)
		}
	}
	if bias := n.In(3); bias != nil {
		width := func(x *graph.Value) graph.Dim {
			if x.Rank() == 4 {
				return x.Shape[1].Mul(x.Shape[3])
			}
			return x.Shape[x.Rank()-1]
		}
		biases := a.Ops("Split", graph.A{"axis": 0}, 3, bias, a.Ints(width(q), width(k), width(v)))
		for i, x := range of {
			if x.Rank() == 3 {
				of[i] = a.Op("Add", nil, x, biases[i])
			}
		}
	}
	for i, x := range of {
		if x.Rank() != 4 {
			of[i] = a.split(x)
		}
	}
	return of[0], of[1], of[2]
}

// attend computes the result [B, S, N·H] and the scores before the softmax.
func (a *ortAttention) attend(q, k, v *graph.Value) (y, scores *graph.Value) {
	n := a.n
	scale := n.Float("scale")
	if scale == 0 {
		d, known := q.Shape[3].Const()
		if !known {
			n.Fail("the head size is %s, not a number", q.Shape[3])
		}
		scale = 1 / math.Sqrt(float64(d))
	}
	batch, queries, keys := q.Shape[0], q.Shape[2], k.Shape[2]
	scores = product{TransB: true, Alpha: scale}.node(a.Builder, q, k)
	if hidden := a.hidden(batch, queries, keys, q.Type); hidden != nil {
		scores = a.Op("Add", nil, scores, hidden)
	}
	if a.added != nil {
		scores = a.Op("Add", nil, scores, a.added)
	}
	if n.Int("unidirectional") != 0 {
		var offset *graph.Value
		if !a.past.Is(0) {
			offset = a.Int(a.past)
		}
		scores = a.Op(own+".BandMask", graph.A{"right": 0, "fill": masked(q.Type)}, scores, offset)
	}
	y = a.Op("MatMul", nil, a.Op("Softmax", graph.A{"axis": -1}, scores), v)
	y = a.Op("Transpose", graph.A{"perm": []int64{0, 2, 1, 3}}, y)
	return reshape(a.Builder, y, graph.Shape{batch, queries, y.Shape[2].Mul(y.Shape[3])}), scores
}

// hidden is what the mask adds to scores: mask_filter_value for keys that it hides. A mask is ends of the
// keys, [B]; ends, then beginnings, [2·B]; or a number above 0 for each key that is seen, [B, T]
// or [B, S, T]. One column for all keys is no mask.
func (a *ortAttention) hidden(batch, queries, keys graph.Dim, t graph.DType) *graph.Value {
	m := a.mask
	if m == nil || m.Rank() == 2 && m.Shape[1].Is(1) && !keys.Is(1) {
		return nil
	}
	if !isIndex(m.Type) {
		a.n.Fail("the mask is %s; int32 expected", m.Type)
	}
	one := graph.Num(1)
	var seen *graph.Value
	switch m.Rank() {
	case 1:
		ends := m
		double := !m.Shape[0].Equal(batch) && m.Shape[0].Equal(batch.Mul(graph.Num(2)))
		places := cast(a.Builder, a.Op("Range", nil, a.Int(graph.Num(0)), a.Int(keys), a.Int(one)), m.Type)
		column := graph.Shape{batch, one, one, one}
		if double {
			half := a.Ops("Split", graph.A{"axis": 0}, 2, m, a.Ints(batch, batch))
			ends = half[0]
			begins := a.Op("LessOrEqual", nil, reshape(a.Builder, half[1], column), places)
			seen = a.Op("And", nil, begins, a.Op("Less", nil, places, reshape(a.Builder, ends, column)))
			break
		}
		a.n.Same(m.Shape[0], batch, "ends of the keys and the batch")
		seen = a.Op("Less", nil, places, reshape(a.Builder, ends, column))
	case 2, 3:
		shape := graph.Shape{batch, one, one, keys}
		if m.Rank() == 3 {
			shape[2] = queries
			a.n.Same(m.Shape[1], queries, "rows of the mask and queries")
		}
		a.n.Same(m.Shape[0], batch, "the mask's batch")
		a.n.Same(m.Shape[m.Rank()-1], keys, "columns of the mask and keys")
		seen = a.Op("Greater", nil, reshape(a.Builder, m, shape), num(a.Builder, m, 0))
	default:
		a.n.Fail("the mask must have one to three dims, but is %s", m.Shape)
	}
	return a.Op("Where", nil, seen, a.Num(t, 0), a.Num(t, a.n.Float("mask_filter_value")))
}
