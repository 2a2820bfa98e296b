package kernels

import (
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestAsRead: an operator that stands as it was read has the types and shapes of what
// it is rewritten into, and what the sizes must be is known of it too.
func TestAsRead(t *testing.T) {
	for _, inputs := range []string{
		"x f32[t, b, 4] = input\nw f32[1, 12, 4] = param\nr f32[1, 12, 3] = param\ny, h, c = LSTM(x, w, r) hidden_size=3",
		"x f32[t, b, 4] = input\nw f32[1, 12, 4] = param\nr f32[1, 12, 3] = param\nh0 f32[1, batch, 3] = input\n_, h = LSTM(x, w, r, _, _, h0)",
		"x f32[b, t, 4] = input\nw f32[2, 9, 4] = param\nr f32[2, 9, 3] = param\ny, h = GRU(x, w, r) direction=\"bidirectional\" layout=1",
		"x f32[t, b, 4] = input\nw f32[1, 3, 4] = param\nr f32[1, 3, 3] = param\ny, _ = RNN(x, w, r)",
		"q f16[b, 2, t, 4] = input\nk f16[b, 2, t, 4] = input\ny = Attention(q, k, k) is_causal=1",
	} {
		rewritten, err := graph.Parse(Library, inputs)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := graph.Parse(AsRead(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if len(whole.Nodes) != 1 {
			t.Errorf("%d nodes of\n%s", len(whole.Nodes), inputs)
		}
		if err := whole.CheckTypes(); err != nil {
			t.Error(err)
		}
		for _, v := range whole.Nodes[0].Outputs {
			if v == nil {
				continue
			}
			if want := rewritten.ByName(v.Name); v.Type != want.Type || !v.Shape.Equal(want.Shape) {
				t.Errorf("%s is %s%s, not %s%s, of\n%s", v.Name, v.Type, v.Shape, want.Type, want.Shape, inputs)
			}
		}
		if len(whole.Assumed) < len(rewritten.Assumed) {
			t.Errorf("assumes %v, not %v, of\n%s", whole.Assumed, rewritten.Assumed, inputs)
		}
	}
}

// TestIntoOurs: the operators of ONNX that are rewritten into some of our own are those
// that are listed.
func TestIntoOurs(t *testing.T) {
	var into []string
	for _, op := range Library.All() {
		if op.Domain != "" || op.Rewrite == nil || strings.HasSuffix(op.Name, "Grad") {
			continue // gradients are ONNX Runtime's, and a graph with some is not read so
		}
		cases, err := Cases(op)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(cases, func(c Case) bool {
			return slices.ContainsFunc(c.Graph.Nodes, func(n *graph.Node) bool { return Ours(n.Op) })
		}) {
			into = append(into, op.Name)
		}
	}
	if into = slices.Compact(into); !slices.Equal(into, intoOurs) {
		t.Errorf("%v are rewritten into operators of our own, and listed are %v", into, intoOurs)
	}
}
