package kernels_test

import (
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// TestAttentionInPieces: why each kind of attention stays as it is; nothing is said of
// what is no attention.
func TestAttentionInPieces(t *testing.T) {
	const head = `q f32[2,4,6,8] = input
k f32[2,4,8,6] = input
v f32[2,4,6,8] = input
one f32[2,1,6,8] = input
bias f32[6,6] = input
half f32[] = const{0.5}
`
	for _, c := range []struct{ text, why string }{
		{"s = MatMul(q, k)\np = Softmax(s)\nr, m = Dropout(p, half)\ny = MatMul(r, v)\noutput y", "there is dropout on the probabilities"},
		{"s = MatMul(q, k)\np = Softmax(s)\ny = MatMul(p, v)\noutput y\noutput p", "the probabilities are an output of the graph"},
		{"s = MatMul(q, k)\np = Softmax(s)\ny = MatMul(p, v)\nz = Relu(p)\noutput y\noutput z", "other nodes read the probabilities"},
		{"s = MatMul(q, k)\nc = Tanh(s)\np = Softmax(c)\ny = MatMul(p, v)\noutput y", "Tanh stands between the product and the softmax"},
		{"s = MatMul(q, k)\na = Add(s, bias)\nb = Add(a, bias)\np = Softmax(b)\ny = MatMul(p, v)\noutput y", "2 biases are added to the scores; at most one is supported"},
		{"s = MatMul(q, k)\np = Softmax(s)\ny = MatMul(p, one)\noutput y", "values [2, 1, 6, 8] are broadcast to queries [2, 4, 6, 8]"},
		{"s = MatMul(q, k)\ny = MatMul(s, v)\noutput y", ""},
	} {
		g, err := graph.Parse(kernels.Library, head+c.text)
		if err != nil {
			t.Fatal(err)
		}
		why := ""
		for _, left := range kernels.AttentionInPieces(g) {
			why = left.Why
		}
		if why != c.why {
			t.Errorf("%s:\n%q, not %q", c.text, why, c.why)
		}
	}
}
