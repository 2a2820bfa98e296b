package zoo

import (
	"math"

	"memopt/internal/graph"
)

// Parts shared by language models. Activations are [batch, seq, width] between layers and [batch·seq, width]
// within.

// ids defines the inputs of a language model: the tokens, and the labels of each.
func (m *model) ids() (tokens, labels *graph.Value) {
	return m.define(graph.Input, "input_ids", graph.Int64, m.batch, m.seq), m.define(graph.Input, "labels", graph.Int64, m.batch, m.seq)
}

// rows reshapes [batch, seq, n] to [batch·seq, n] for matrix products.
func (m *model) rows(x *graph.Value) *graph.Value {
	return m.view(x.Name+".rows", x, m.batch.Mul(m.seq), x.Shape[2])
}

// tokens reshapes rows back to [batch, seq, n].
func (m *model) tokens(x *graph.Value) *graph.Value {
	return m.view(x.Name+".tokens", x, m.batch, m.seq, x.Shape[1])
}

// positions is 0, 1, …, seq − 1.
func (m *model) positions() *graph.Value {
	return m.b.Range("positions", m.size(dim(0)), m.size(m.seq), m.size(dim(1)))
}

// causal is the mask to add to scores [seq, seq]: −∞ where the key is later than the query.
func (m *model) causal(positions *graph.Value) *graph.Value {
	query := m.b.Unsqueeze("causal.query", positions, m.sizes(dim(1)))
	seen := m.b.LessOrEqual("causal.seen", positions, query)
	return m.b.Where("causal", seen, m.scalar("causal.open", graph.Float32, 0),
		m.scalar("causal.shut", graph.Float32, math.Inf(-1)))
}

// split reshapes rows [batch·seq, heads·size] to [batch, heads, seq, size], or with the last two dims swapped.
func (m *model) split(x *graph.Value, heads int, swapped bool) *graph.Value {
	h := m.view(x.Name+".heads", x, m.batch, m.seq, dim(heads), dim(m.Width/m.Heads))
	if swapped {
		return m.transpose(x.Name+".t", h, 0, 2, 3, 1)
	}
	return m.transpose(x.Name+".h", h, 0, 2, 1, 3)
}

// attention is softmax(q·kᵀ/√size + mask)·v as rows [batch·seq, width], from q, v [batch, heads, seq, size] and k
// [batch, heads, size, seq]; mask may be nil. It scales q, which is smaller than the scores.
func (m *model) attention(p string, q, k, v, mask *graph.Value) *graph.Value {
	scale := m.scalar("attention.scale", graph.Float32, 1/math.Sqrt(float64(m.Width/m.Heads)))
	scores := m.b.MatMul(p+".scores", m.b.Mul(p+".scaled", q, scale), k)
	if mask != nil {
		scores = m.b.Add(p+".masked", scores, mask)
	}
	probs := m.dropout(p+".dropped", m.b.Softmax(p+".probs", scores, -1))
	context := m.transpose(p+".context.t", m.b.MatMul(p+".context", probs, v), 0, 2, 1, 3)
	return m.view(p+".context.rows", context, m.batch.Mul(m.seq), dim(m.Width))
}

// ignored is the label of tokens without a loss, as in PyTorch.
const ignored = -100

// tokenLoss is the mean cross entropy of logits [batch·seq, vocab].
func (m *model) tokenLoss(logits, labels *graph.Value) {
	m.finish(m.b.CrossEntropy("loss", logits, m.view("labels.rows", labels, m.batch.Mul(m.seq)), ignored))
}

// head computes the logits of rows with the embedding's matrix [vocab, width], or with its own if the spec says
// untied.
func (m *model) head(name string, x, embedding, bias *graph.Value) *graph.Value {
	if m.Untied {
		embedding = m.param(name+".weight", smallStd, m.Vocab, m.Width)
	}
	return m.b.Linear(name, x, embedding, bias)
}
