package zoo

import (
	"errors"
	"math"

	"memopt/internal/graph"
)

// llama is Llama: RMS normalisation before each part, rotary positions, fewer heads for keys and values than for
// queries, a gated feed-forward part.
var llama = Family{
	Name:     "llama",
	Doc:      "Llama: tells the next token; rotary positions, grouped attention, gated SiLU",
	Defaults: Spec{Layers: 4, Width: 256, Heads: 4, KVHeads: 2, Hidden: 704, Vocab: 1024},
	Options:  []string{"untied"},
	Batch:    8, Seq: 128, LR: 1e-3,
	check: func(s Spec) error {
		if s.Width/s.Heads%2 != 0 {
			return errors.New("rotary positions turn pairs: width/heads should be even")
		}
		return nil
	},
	build: buildLlama,
	data:  nextToken,
}

func buildLlama(m *model) {
	ids, labels := m.ids()
	table := m.param("model.embed_tokens.weight", smallStd, m.Vocab, m.Width)
	positions := m.positions()
	mask, turn := m.causal(positions), m.rotary(positions)
	x := m.b.Gather("model.embed_tokens", table, ids)
	for i := range m.Layers {
		x = m.llamaLayer(module("model.layers", i), x, mask, turn)
	}
	m.tokenLoss(m.head("lm_head", m.rows(m.rmsNorm("model.norm", x)), table, nil), labels)
}

func (m *model) llamaLayer(p string, x, mask *graph.Value, turn rotation) *graph.Value {
	a, size := p+".self_attn", m.Width/m.Heads
	rows := m.rows(m.rmsNorm(p+".input_layernorm", x))
	q := m.split(m.linear(a+".q_proj", rows, m.Width, smallStd, false), m.Heads, false)
	k := m.split(m.linear(a+".k_proj", rows, m.KVHeads*size, smallStd, false), m.KVHeads, false)
	v := m.split(m.linear(a+".v_proj", rows, m.KVHeads*size, smallStd, false), m.KVHeads, false)
	q, k = m.rotate(a+".q", q, turn), m.rotate(a+".k", k, turn)
	k = m.repeat(a+".k", m.transpose(a+".k.t", k, 0, 1, 3, 2))
	y := m.tokens(m.linear(a+".o_proj", m.attention(a, q, k, m.repeat(a+".v", v), mask), m.Width, smallStd, false))
	x = m.b.Add(a+".sum", x, y)

	f := p + ".mlp"
	rows = m.rows(m.rmsNorm(p+".post_attention_layernorm", x))
	gate := m.linear(f+".gate_proj", rows, m.Hidden, smallStd, false)
	up := m.linear(f+".up_proj", rows, m.Hidden, smallStd, false)
	silu := m.b.Mul(f+".act", gate, m.b.Sigmoid(f+".sigmoid", gate))
	y = m.tokens(m.linear(f+".down_proj", m.b.Mul(f+".gated", silu, up), m.Width, smallStd, false))
	return m.b.Add(f+".sum", x, y)
}

// rmsNorm normalises over the last dim.
func (m *model) rmsNorm(name string, x *graph.Value) *graph.Value {
	return m.b.RMSNorm(name, x, m.filled(graph.Param, name+".weight", 1, m.Width), 1e-5)
}

// rotation has the cosines and sines [seq, size] of every position's angles.
type rotation struct{ cos, sin *graph.Value }

// rotary adds the tables to the graph, once for all layers.
func (m *model) rotary(positions *graph.Value) rotation {
	p, size := "model.rotary_emb", m.Width/m.Heads
	turns := graph.NewTensor(graph.Float32, size/2)
	for i, f := 0, turns.F32(); i < len(f); i++ {
		f[i] = float32(math.Pow(10000, -2*float64(i)/float64(size)))
	}
	speed, err := m.b.Const(p+".inv_freq", turns)
	if err != nil {
		panic(err)
	}
	place := m.b.Cast(p+".positions", positions, graph.Float32)
	half := m.b.Mul(p+".angles", m.b.Unsqueeze(p+".column", place, m.sizes(dim(1))), speed)
	angles := m.b.Concat(p+".twice", -1, half, half)
	return rotation{m.b.Cos(p+".cos", angles), m.b.Sin(p+".sin", angles)}
}

// rotate rotates each pair (x[i], x[i + size/2]) of x [batch, heads, seq, size]: x·cos + (−second half, first
// half)·sin.
func (m *model) rotate(name string, x *graph.Value, turn rotation) *graph.Value {
	halves := m.b.Split([]string{name + ".first", name + ".second"}, x, -1)
	quarter := m.b.Concat(name+".quarter", -1, m.b.Neg(name+".negative", halves[1]), halves[0])
	return m.b.Add(name+".turned",
		m.b.Mul(name+".cos", x, turn.cos), m.b.Mul(name+".sin", quarter, turn.sin))
}

// repeat repeats the heads of x [batch, kv-heads, a, b] for every query head of their group.
func (m *model) repeat(name string, x *graph.Value) *graph.Value {
	if m.Heads == m.KVHeads {
		return x
	}
	a, b, group := x.Shape[2], x.Shape[3], dim(m.Heads/m.KVHeads)
	one := m.b.Unsqueeze(name+".group", x, m.sizes(dim(2)))
	all := m.b.Expand(name+".groups", one, m.sizes(m.batch, dim(m.KVHeads), group, a, b))
	return m.view(name+".repeated", all, m.batch, dim(m.Heads), a, b)
}
