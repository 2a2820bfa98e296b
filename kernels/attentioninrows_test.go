package kernels_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// TestRowsKeepBits: attention some queries at a time changes no bit of the loss or of any
// gradient, with a mask or without, over several blocks of queries and of keys, whole and
// not, on any number of workers.
func TestRowsKeepBits(t *testing.T) {
	for _, c := range []struct{ batch, queries, keys, width, out int }{{5, 7, 9, 5, 3}, {2, 300, 300, 16, 20}, {1, 130, 700, 24, 8}, {3, 640, 200, 8, 8}} {
		for _, form := range []string{
			"s = com.microsoft.FusedMatMul(q, k) transB=1 alpha=0.3\np = Softmax(s)",
			"s = com.microsoft.FusedMatMul(q, turned) alpha=0.3\np = Softmax(s)",
			"s = MatMul(q, turned)\nseen = memopt.BandMask(s) right=0 fill=-1e30\np = Softmax(seen)",
			"s = com.microsoft.FusedMatMul(q, k) transB=1 alpha=0.7\nseen = memopt.BandMask(s) left=90 right=70 fill=-1e30\np = Softmax(seen)",
			"s = MatMul(q, turned)\nbiased = Add(s, bias)\np = Softmax(biased)",
			"s = MatMul(q, turned)\nbiased = Add(s, bias)\np = memopt.SafeSoftmax(biased)",
			"s = MatMul(q, turned)\nfill f32[1] = const{-1e30}\nmasked = Where(mask, s, fill)\np = Softmax(masked)",
			"s = MatMul(q, turned)\nfill f32[1] = const{-3}\nmasked = Where(mask, fill, s)\np = Softmax(masked)",
		} {
			text := fmt.Sprintf(`x f32[%[1]d,%[2]d,%[4]d] = input
y f32[%[1]d,%[3]d,%[4]d] = input
bias f32[%[3]d] = input
mask bool[%[2]d,%[3]d] = input
a f32[%[4]d] = param
b f32[%[4]d] = param
w f32[%[4]d,%[5]d] = param
q = Mul(x, a)
k = Mul(y, b)
turned = Transpose(k) perm=[0, 2, 1]
v = MatMul(y, w)
%[6]s
z = MatMul(p, v)
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
output mean`, c.batch, c.queries, c.keys, c.width, c.out, form)
			if !strings.Contains(form, "bias") {
				text = strings.Replace(text, "bias f32", "unread f32", 1)
			}
			if !strings.Contains(form, "mask") {
				text = strings.Replace(text, "mask bool", "nobody bool", 1)
			}
			if !strings.Contains(form, "turned") {
				text = strings.Replace(text, "turned = Transpose(k) perm=[0, 2, 1]\n", "", 1)
			}
			keepsBits(t, fmt.Sprintf("%v, %s", c, form), text, kernels.AttentionInRows, 1, 2, 3)
		}
	}
}

// rowsStep is a step with lines of attention in it, from q, k and v to z, and one that
// makes the loss of its mean.
func rowsStep(queries, keys int, attention, loss string) string {
	return fmt.Sprintf(`x f32[2,%[1]d,5] = input
y f32[2,%[2]d,5] = input
a f32[5] = param
b f32[5] = param
w f32[5,3] = param
c f32[3] = param
table f32[2,%[2]d,3] = param
third f32[1] = const{0.3}
one f32[1] = const{1}
big f32[1] = const{3e15}
tiny f32[1] = const{3e-39}
q = Mul(x, a)
k = Mul(y, b)
v = MatMul(y, w)
%[3]s
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
%[4]s
output total`, queries, keys, attention, loss)
}

const (
	scoresOfRows = "s = com.microsoft.FusedMatMul(q, k) transB=1 alpha=0.3\n"
	causalRows   = "seen = memopt.BandMask(s) right=0 fill=-1e30\np = Softmax(seen)\n"
	plainLoss    = "total = Identity(mean)"
)

// TestRowsKeepBitsAtEdges: what is written around attention is what it is without rows,
// gradients add up in the same order, and a band leaves nothing out that counts for
// something.
func TestRowsKeepBitsAtEdges(t *testing.T) {
	for _, c := range []struct {
		what            string
		queries, keys   int
		attention, loss string
	}{
		{"scales before and behind scores", 7, 300, `q1 = Mul(q, third)
turned = Transpose(k) perm=[0, 2, 1]
s1 = MatMul(q1, turned)
s = Mul(s1, third)
` + causalRows + "z = MatMul(p, v)", plainLoss},
		{"keys that are values", 7, 300, scoresOfRows + causalRows + "z = MatMul(p, k)", plainLoss},
		{"queries that are read behind it", 7, 300, scoresOfRows + causalRows + "z = MatMul(p, v)", "q2 = Mul(q, q)\nm2 = ReduceMean(q2) keepdims=0\ntotal = Add(mean, m2)"},
		{"scores as low as what is filled in", 7, 300, `q1 = Mul(x, big)
k1 = Mul(y, big)
s = com.microsoft.FusedMatMul(q1, k1) transB=1
` + causalRows + "z1 = MatMul(p, v)\nz = Mul(z1, c)", plainLoss},
		{"infinite values of hidden keys", 7, 300, scoresOfRows + causalRows + "v1 = memopt.BandMask(v) left=100 fill=1e39\nz = MatMul(p, v1)", plainLoss},
		{"infinite hidden keys", 7, 300, "k1 = memopt.BandMask(k) left=100 fill=1e39\ns = com.microsoft.FusedMatMul(q, k1) transB=1\n" + causalRows + "z = MatMul(p, v)", plainLoss},
		{"products too small for a number", 600, 600, scoresOfRows + causalRows + "z = MatMul(p, table)", "total = Mul(mean, tiny)"},
		{"few keys for the last queries", 150, 150, scoresOfRows + "seen = memopt.BandMask(s) left=0 right=20 fill=-1e30\np = Softmax(seen)\nz = MatMul(p, v)", plainLoss},
		{"no key for a query", 9, 3, scoresOfRows + "seen = memopt.BandMask(s) left=2 fill=-1e39\np = Softmax(seen)\nz = MatMul(p, v)", plainLoss},
		{"no key for a query, and safe", 9, 3, scoresOfRows + "seen = memopt.BandMask(s) left=2 fill=-1e39\np = memopt.SafeSoftmax(seen)\nz = MatMul(p, v)", plainLoss},
	} {
		keepsBits(t, c.what, rowsStep(c.queries, c.keys, c.attention, c.loss), kernels.AttentionInRows, 2)
	}
}

// TestRowsLeavePieces: attention stays in pieces where one operator would round
// otherwise: a scale is part of its last product, or a gradient of several terms would
// add up in another order.
func TestRowsLeavePieces(t *testing.T) {
	const between = "q2 = Mul(q, q)\nm2 = ReduceMean(q2) keepdims=0\n"
	for what, text := range map[string]string{
		"a scale behind it":                rowsStep(7, 9, scoresOfRows+causalRows+"z1 = MatMul(p, v)\nz = Mul(z1, third)", plainLoss),
		"a scale of the values":            rowsStep(7, 9, scoresOfRows+causalRows+"v1 = Div(y, third)\nz = MatMul(p, v1)", plainLoss),
		"queries that are read in between": rowsStep(7, 9, scoresOfRows+between+causalRows+"z = MatMul(p, v)", "total = Add(mean, m2)"),
		"keys that are values and read by others": rowsStep(7, 9, scoresOfRows+causalRows+"z = MatMul(p, k)",
			"k2 = Mul(k, k)\nm2 = ReduceMean(k2) keepdims=0\ntotal = Add(mean, m2)"),
	} {
		g, err := graph.Parse(kernels.Library, text)
		if err != nil {
			t.Fatal(err)
		}
		g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
		g.Clean(graph.CleanOptions{Fuse: func(op *graph.Op) bool { return op == kernels.AttentionInRows }})
		if slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op == kernels.AttentionInRows }) {
			t.Errorf("%s: fused in\n%s", what, g)
		}
	}
}
