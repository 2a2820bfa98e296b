package zoo

import (
	"math"

	"memopt/internal/graph"
)

// gpt is GPT-2: layers normalised before each part, learned positions, weights of the blocks as [from, to].
var gpt = Family{
	Name:     "gpt",
	Doc:      "GPT-2: tells the next token; learned positions, causal attention, GELU",
	Defaults: Spec{Layers: 4, Width: 256, Heads: 4, Hidden: 1024, Vocab: 1024, Positions: 1024, Gelu: "tanh"},
	Options:  []string{"dropout", "gelu", "untied"},
	Batch:    8, Seq: 128, LR: 1e-3,
	build: buildGPT,
	data:  nextToken,
}

func buildGPT(m *model) {
	ids, labels := m.ids()
	wte := m.param("transformer.wte.weight", smallStd, m.Vocab, m.Width)
	wpe := m.param("transformer.wpe.weight", smallStd, m.Positions, m.Width)
	positions := m.positions()
	mask := m.causal(positions)
	x := m.b.Add("transformer.embeddings",
		m.b.Gather("transformer.wte", wte, ids),
		m.b.Gather("transformer.wpe", wpe, positions))
	x = m.dropout("transformer.drop", x)
	for i := range m.Layers {
		x = m.gptBlock(module("transformer.h", i), x, mask)
	}
	x = m.layerNorm("transformer.ln_f", x, 1e-5)
	m.tokenLoss(m.head("lm_head", m.rows(x), wte, nil), labels)
}

func (m *model) gptBlock(p string, x, mask *graph.Value) *graph.Value {
	// Scale down what each layer adds to x, so that the sum does not grow with the number of layers.
	residualStd := smallStd / math.Sqrt(2*float64(m.Layers))

	a := p + ".attn"
	qkv := m.conv1D(a+".c_attn", m.rows(m.layerNorm(p+".ln_1", x, 1e-5)), 3*m.Width, smallStd)
	parts := m.b.Split([]string{a + ".q", a + ".k", a + ".v"}, qkv, -1)
	q, k, v := m.split(parts[0], m.Heads, false), m.split(parts[1], m.Heads, true), m.split(parts[2], m.Heads, false)
	y := m.tokens(m.conv1D(a+".c_proj", m.attention(a, q, k, v, mask), m.Width, residualStd))
	x = m.b.Add(a+".sum", x, m.dropout(a+".resid_dropout", y))

	f := p + ".mlp"
	h := m.conv1D(f+".c_fc", m.rows(m.layerNorm(p+".ln_2", x, 1e-5)), m.Hidden, smallStd)
	h = m.gelu(f+".act", h)
	y = m.tokens(m.conv1D(f+".c_proj", h, m.Width, residualStd))
	return m.b.Add(f+".sum", x, m.dropout(f+".dropout", y))
}

// conv1D is GPT-2's name for a linear layer whose weight is [from, to].
func (m *model) conv1D(name string, x *graph.Value, to int, std float64) *graph.Value {
	from, _ := x.Shape[1].Const()
	return m.b.Gemm(name, x, m.param(name+".weight", std, int(from), to), m.filled(graph.Param, name+".bias", 0, to))
}
