package kernels

import (
	"math"

	"memopt/internal/graph"
)

// Attention (ONNX, opset 23) is rewritten into two matrix products and a softmax, so
// that the planner sees each part. Causal and windowed masks become BandMask, which
// needs no mask tensor; grouped-query heads broadcast K and V; the scale is the alpha
// of the product. Masked scores are a large finite negative number, not −∞: a query
// with no visible key would otherwise have NaN gradients. Its output is 0.
var _ = define(graph.Op{
	Name:  "Attention",
	Since: 23,
	Doc:   "softmax(scale·Q·Kᵀ, masked)·V for each head",
	In:    "Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?",
	Out:   "Y, present_key?, present_value?, qk_matmul_output?",
	Attrs: "is_causal int=0, kv_num_heads int, left_window_size int=-1, q_num_heads int, qk_matmul_output_mode int=0, " +
		"right_window_size int=-1, scale float, softcap float=0, softmax_precision int",
	Samples: []string{"f32[1,2,3,4], f32[1,2,5,4], f32[1,2,5,4] -> y", "f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4]; is_causal=1 -> y"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		a := attention{Builder: b, n: n}
		return a.build()
	},
})

type attention struct {
	*graph.Builder
	n      *graph.Node
	mask   *graph.Value // float or bool, last dim T
	seen   *graph.Value // bool [B, 1, 1, T]: true for keys that are not padding
	left   int
	right  int
	offset *graph.Value // position of query 0 among the keys; nil is 0
}

func (a *attention) build() []*graph.Value {
	n := a.n
	q, k, v := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	flat := q.Rank() == 3
	if q.Rank() != k.Rank() || q.Rank() != v.Rank() || q.Rank() != 3 && q.Rank() != 4 {
		n.Fail("Q, K and V must all have three dims or all four, but are %s, %s and %s", q.Shape, k.Shape, v.Shape)
	}
	if flat {
		q, k, v = a.heads(q, "q_num_heads"), a.heads(k, "kv_num_heads"), a.heads(v, "kv_num_heads")
	}
	past := graph.Num(0)
	if (n.In(4) == nil) != (n.In(5) == nil) || n.In(4) != nil && n.In(6) != nil {
		n.Fail("past_key and past_value go together, and not with nonpad_kv_seqlen")
	}
	if n.In(4) != nil {
		past = n.In(4).Shape[2]
		k = a.Op("Concat", graph.A{"axis": 2}, n.In(4), k)
		v = a.Op("Concat", graph.A{"axis": 2}, n.In(5), v)
	}
	keys, values := k, v

	batch, heads, queries, length := q.Shape[0], q.Shape[1], q.Shape[2], k.Shape[2]
	full := graph.Shape{batch, heads, queries, length}
	shared := !heads.Equal(k.Shape[1])
	if shared {
		// Groups of heads see one key: [B, Hkv, group, S, D] · [B, Hkv, 1, D, T].
		group := heads.FloorDiv(k.Shape[1])
		if !group.Mul(k.Shape[1]).Equal(heads) {
			n.Fail("%s query heads are not a multiple of %s key heads", heads, k.Shape[1])
		}
		one := func(x *graph.Value) *graph.Value {
			return reshape(a.Builder, x, graph.Shape{batch, x.Shape[1], graph.Num(1), x.Shape[2], x.Shape[3]})
		}
		q = reshape(a.Builder, q, graph.Shape{batch, k.Shape[1], group, queries, q.Shape[3]})
		k, v = one(k), one(v)
	}
	scale, given := n.Attr("scale").(float64)
	if !given {
		d, ok := q.Shape[q.Rank()-1].Const()
		if !ok {
			n.Fail("scale is not given and the head size is %s, not a number", q.Shape[q.Rank()-1])
		}
		scale = 1 / math.Sqrt(float64(d))
	}
	scores := product{TransB: true, Alpha: scale}.node(a.Builder, q, k)
	scores = reshape(a.Builder, scores, full)
	out := scores
	if softcap := n.Float("softcap"); softcap > 0 {
		scores = scaled(a.Builder, a.Op("Tanh", nil, scaled(a.Builder, scores, 1/softcap)), softcap)
	}
	mode := n.Int("qk_matmul_output_mode")
	if mode == 1 {
		out = scores
	}
	a.findMasks(past, batch, queries, length)
	wantsOut := len(n.Outputs) > 3
	var hidden *graph.Value
	if a.mask != nil || a.seen != nil {
		bias := a.bias(q.Type, full)
		if mode == 2 && wantsOut {
			out = a.Op("Add", nil, scores, bias)
		}
		top := a.Op("ReduceMax", graph.A{"keepdims": 1}, bias, a.Ints(graph.Num(int64(bias.Rank()-1))))
		hidden = a.Op("Less", nil, top, num(a.Builder, top, masked(q.Type)))
	} else if mode == 2 && wantsOut {
		out = a.band(scores, math.Inf(-1))
	}
	p := a.softmax(a.hide(scores))
	if mode == 3 && wantsOut {
		if out = p; hidden != nil {
			out = a.Op("Where", nil, hidden, num(a.Builder, p, 0), p)
		}
	}
	if shared {
		p = reshape(a.Builder, p, graph.Shape{batch, k.Shape[1], heads.FloorDiv(k.Shape[1]), queries, length})
	}
	y := a.Op("MatMul", nil, p, v)
	y = reshape(a.Builder, y, graph.Shape{batch, heads, queries, v.Shape[v.Rank()-1]})
	if hidden != nil {
		y = a.Op("Where", nil, hidden, num(a.Builder, y, 0), y)
	}
	if flat {
		y = a.Op("Transpose", graph.A{"perm": []int64{0, 2, 1, 3}}, y)
		y = reshape(a.Builder, y, graph.Shape{batch, queries, heads.Mul(y.Shape[3])})
	}
	return []*graph.Value{y, keys, values, out}[:len(n.Outputs)]
}

// masked is the score of a hidden key: below any real score, and finite even after a
// real score is added to it.
func masked(t graph.DType) float64 {
	if t == graph.Float16 {
		return -3e4
	}
	return -1.5e38
}

// heads views [B, S, H·D] as [B, H, S, D].
func (a *attention) heads(x *graph.Value, attr string) *graph.Value {
	h := graph.Num(int64(a.n.Int(attr)))
	if a.n.Int(attr) < 1 || !x.Shape[2].Mod(h).Is(0) {
		a.n.Fail("%s is %s, but the hidden size is %s", attr, h, x.Shape[2])
	}
	x = reshape(a.Builder, x, graph.Shape{x.Shape[0], x.Shape[1], h, x.Shape[2].FloorDiv(h)})
	return a.Op("Transpose", graph.A{"perm": []int64{0, 2, 1, 3}}, x)
}

func (a *attention) findMasks(past, batch, queries, length graph.Dim) {
	n := a.n
	a.left, a.right = n.Int("left_window_size"), n.Int("right_window_size")
	if n.Int("is_causal") != 0 {
		a.right = 0
	}
	if a.left < -1 || a.right < -1 {
		n.Fail("window sizes must be −1 or more, but are %d and %d", a.left, a.right)
	}
	if !past.Is(0) {
		a.offset = a.Int(past)
	}
	if valid := n.In(6); valid != nil {
		a.offset = a.Op("Sub", nil, valid, a.Int(queries))
		zero, one := a.Int(graph.Num(0)), a.Int(graph.Num(1))
		places := a.Op("Range", nil, zero, a.Int(length), one)
		limits := reshape(a.Builder, valid, graph.Shape{batch, graph.Num(1), graph.Num(1), graph.Num(1)})
		a.seen = a.Op("Less", nil, places, limits)
	}
	m := n.In(3)
	if m == nil {
		return
	}
	fill := 0.0
	if m.Type != graph.Bool {
		m, fill = cast(a.Builder, m, n.Inputs[0].Type), math.Inf(-1)
	}
	if r := m.Rank(); r > 0 && !m.Shape[r-1].Equal(length) {
		// Keys beyond the mask are hidden.
		shape := append(append(graph.Shape{}, m.Shape[:r-1]...), length.Sub(m.Shape[r-1]))
		v := graph.NewTensor(m.Type, 1)
		v.SetFloat(0, fill)
		rest := a.Op("ConstantOfShape", graph.A{"value": v}, a.Ints(shape...))
		m = a.Op("Concat", graph.A{"axis": r - 1}, m, rest)
	}
	a.mask = m
}

// bias combines all masks into one additive mask, with −∞ for hidden keys.
func (a *attention) bias(t graph.DType, full graph.Shape) *graph.Value {
	bias := a.Num(t, 0)
	inf := a.Num(t, math.Inf(-1))
	if a.mask != nil {
		if a.mask.Type == graph.Bool {
			bias = a.Op("Where", nil, a.mask, bias, inf)
		} else {
			bias = a.mask
		}
	}
	if a.seen != nil {
		bias = a.Op("Where", nil, a.seen, bias, inf)
	}
	if a.left < 0 && a.right < 0 {
		return bias
	}
	// Batch and head dims stay 1 where all masks agree: [B or 1, H or 1, S, T].
	shape := graph.Shape{graph.Num(1), graph.Num(1), full[2], full[3]}
	for i := range 2 {
		if at := bias.Rank() - 4 + i; at >= 0 {
			shape[i] = bias.Shape[at]
		}
	}
	if a.offset != nil && a.offset.Rank() == 1 {
		shape[0] = full[0]
	}
	return a.band(expandTo(a.Builder, bias, shape), math.Inf(-1))
}

func (a *attention) band(x *graph.Value, fill float64) *graph.Value {
	if a.left < 0 && a.right < 0 {
		return x
	}
	return a.Op(own+".BandMask", graph.A{"left": a.left, "right": a.right, "fill": fill}, x, a.offset)
}

// hide sets the scores of hidden keys to masked, which makes their probability 0.
func (a *attention) hide(x *graph.Value) *graph.Value {
	low := a.Num(x.Type, masked(x.Type))
	if a.mask != nil {
		if a.mask.Type == graph.Bool {
			x = a.Op("Where", nil, a.mask, x, low)
		} else {
			x = a.Op("Add", nil, x, a.Op("Max", nil, a.mask, low))
		}
	}
	if a.seen != nil {
		x = a.Op("Where", nil, a.seen, x, low)
	}
	return a.band(x, masked(x.Type))
}

func (a *attention) softmax(x *graph.Value) *graph.Value {
	t := x.Type
	if p := graph.DType(a.n.Int("softmax_precision")); p != graph.Invalid {
		if !p.IsFloat() {
			a.n.Fail("softmax_precision is %d; 1, 10, 11 and 16 are floats", p)
		}
		x = cast(a.Builder, x, p)
	}
	return cast(a.Builder, a.Op("Softmax", graph.A{"axis": -1}, x), t)
}
