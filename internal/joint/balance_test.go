package joint

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"memopt/planner"
)

// TestBalance: what runs again depends on how many flops the device does in the time of a byte
// that moves. A product of few bytes and a sum of many, of which one result has to go.
func TestBalance(t *testing.T) {
	const text = `{"format": "memopt-fx-joint/1", "model": "m", %s"num_fwd_outputs": 1, "outputs": ["loss", null],
"nodes": [
{"name": "x", "op": "input", "kind": "data", "inputs": [], "outputs": [{"shape": [1], "dtype": "float32", "bytes": 4}]},
{"name": "product", "op": "aten.mm.default", "inputs": ["x"], "outputs": [{"shape": [1024], "dtype": "float32", "bytes": 4096}], "flops": 20000},
{"name": "wide", "op": "aten.expand.default", "inputs": ["x"], "outputs": [{"shape": [8192], "dtype": "float32", "bytes": 32768}]},
{"name": "sum", "op": "aten.sum.default", "inputs": ["wide"], "outputs": [{"shape": [1024], "dtype": "float32", "bytes": 4096}]},
{"name": "loss", "op": "aten.mean.default", "inputs": ["x"], "outputs": [{"shape": [], "dtype": "float32", "bytes": 4}]},
{"name": "back0", "op": "aten.other.default", "inputs": ["loss"], "outputs": [{"shape": [8192], "dtype": "float32", "bytes": 32768}], "is_backward": true},
{"name": "small", "op": "aten.sum.default", "inputs": ["back0"], "outputs": [{"shape": [1], "dtype": "float32", "bytes": 4}], "is_backward": true},
{"name": "back1", "op": "aten.mul.default", "inputs": ["small", "product"], "outputs": [{"shape": [1], "dtype": "float32", "bytes": 4}], "is_backward": true},
{"name": "back2", "op": "aten.mul.default", "inputs": ["back1", "sum"], "outputs": [{"shape": [1], "dtype": "float32", "bytes": 4}], "is_backward": true}
]}`
	for _, c := range []struct{ field, want string }{
		{"", "sum"},
		{`"flops_per_byte": 160, `, "product"},
	} {
		g, err := parseGraph(context.Background(), []byte(fmt.Sprintf(text, c.field)))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := planner.Make(g, planner.Request{Strategy: "keep-all"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Bytes: kept.Arena - 1}})
		if err != nil {
			t.Fatal(err)
		}
		var again []string
		seen := map[string]bool{}
		for _, s := range p.Steps {
			name := g.Nodes[s.Node].Name
			if seen[name] {
				again = append(again, name)
			}
			seen[name] = true
		}
		if got := strings.Join(again, " "); !strings.Contains(got, c.want) || strings.Contains(got, map[string]string{"sum": "product", "product": "sum"}[c.want]) {
			t.Errorf("with %q, %q runs again, not %q", c.field, got, c.want)
		}
	}
}
