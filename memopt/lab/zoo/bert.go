package zoo

import "memopt/internal/graph"

// bert is BERT as a masked language model, for texts of one segment without padding, with layers normalised after
// each sum.
var bert = Family{
	Name:     "bert",
	Doc:      "BERT: tells masked tokens; learned positions, GELU, normalised after each sum",
	Defaults: Spec{Layers: 4, Width: 256, Heads: 4, Hidden: 1024, Vocab: 1024, Positions: 512, Gelu: "none"},
	Options:  []string{"dropout", "gelu", "untied"},
	Batch:    8, Seq: 128, LR: 1e-3,
	build: buildBERT,
	data:  maskedToken,
}

const bertEpsilon = 1e-12

func buildBERT(m *model) {
	ids, labels := m.ids()
	e := "bert.embeddings"
	words := m.param(e+".word_embeddings.weight", smallStd, m.Vocab, m.Width)
	places := m.param(e+".position_embeddings.weight", smallStd, m.Positions, m.Width)
	x := m.b.Add(e+".sum",
		m.b.Gather(e+".word_embeddings", words, ids),
		m.b.Gather(e+".position_embeddings", places, m.positions()))
	x = m.dropout(e+".dropout", m.layerNorm(e+".LayerNorm", x, bertEpsilon))
	for i := range m.Layers {
		x = m.bertLayer(module("bert.encoder.layer", i), x)
	}
	c := "cls.predictions"
	h := m.linear(c+".transform.dense", m.rows(x), m.Width, smallStd, true)
	h = m.layerNorm(c+".transform.LayerNorm", m.gelu(c+".transform.act", h), bertEpsilon)
	bias := m.filled(graph.Param, c+".bias", 0, m.Vocab)
	m.tokenLoss(m.head(c+".decoder", h, words, bias), labels)
}

func (m *model) bertLayer(p string, x *graph.Value) *graph.Value {
	a := p + ".attention"
	rows := m.rows(x)
	q := m.split(m.linear(a+".self.query", rows, m.Width, smallStd, true), m.Heads, false)
	k := m.split(m.linear(a+".self.key", rows, m.Width, smallStd, true), m.Heads, true)
	v := m.split(m.linear(a+".self.value", rows, m.Width, smallStd, true), m.Heads, false)
	y := m.tokens(m.linear(a+".output.dense", m.attention(a+".self", q, k, v, nil), m.Width, smallStd, true))
	x = m.b.Add(a+".output.sum", m.dropout(a+".output.dropout", y), x)
	x = m.layerNorm(a+".output.LayerNorm", x, bertEpsilon)

	h := m.gelu(p+".intermediate.act", m.linear(p+".intermediate.dense", m.rows(x), m.Hidden, smallStd, true))
	y = m.tokens(m.linear(p+".output.dense", h, m.Width, smallStd, true))
	x = m.b.Add(p+".output.sum", m.dropout(p+".output.dropout", y), x)
	return m.layerNorm(p+".output.LayerNorm", x, bertEpsilon)
}
