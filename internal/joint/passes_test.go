package joint

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/planner"
)

// adversaries is a step that runs forward and backward by turns: one pass stays alive to the end, as a generator's, while
// others, as a discriminator's, begin and end.
func adversaries(layers, turns int) string {
	var b strings.Builder
	node := func(name, inputs string, bytes int, backward bool) {
		if inputs != "" {
			inputs = `"` + strings.ReplaceAll(inputs, " ", `", "`) + `"`
		}
		fmt.Fprintf(&b, ",\n"+`{"name": %q, "op": "aten.step.default", "inputs": [%s], "outputs": [{"shape": [%d], "dtype": "float32", "bytes": %d}], "flops": %d, "is_backward": %v}`,
			name, inputs, bytes/4, bytes, bytes, backward)
	}
	forward := func(pass, from string) {
		for i := range layers {
			name := fmt.Sprintf("%s%d", pass, i)
			node(name, from, 4096, false)
			from = name
		}
		node(pass+"loss", from, 4, false)
	}
	backward := func(pass, grad string) string {
		for i := layers - 1; i >= 0; i-- {
			name := fmt.Sprintf("%sback%d", pass, i)
			node(name, fmt.Sprintf("%s %s%d", grad, pass, i), 256, true)
			grad = name
		}
		return grad
	}
	forward("g", "x")
	for t := range turns {
		pass := fmt.Sprintf("d%d.", t)
		forward(pass, "x")
		backward(pass, pass+"loss")
	}
	forward("e", fmt.Sprintf("g%d", layers-1))
	last := backward("g", backward("e", "eloss"))
	return `{"format": "memopt-fx-joint/1", "model": "m", "allocator": "PyTorch", "num_fwd_outputs": 1, "outputs": ["` + last + `"], "nodes": [
{"name": "x", "op": "input", "kind": "data", "inputs": [], "outputs": [{"shape": [64], "dtype": "float32", "bytes": 256}]}` + b.String() + `]}`
}

// TestPasses: in a step that runs forward again behind a backward pass, each node has its own phase, all forward passes may be
// recomputed, and the plans are checked.
func TestPasses(t *testing.T) {
	g, err := parseGraph(context.Background(), []byte(adversaries(8, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Nodes {
		if want := strings.Contains(n.Name, "back"); want != (n.Phase == graph.Backward) {
			t.Errorf("%s is %s", n.Name, n.Phase)
		}
	}
	kept, err := planner.Make(g, planner.Request{Strategy: "keep-all"})
	if err != nil {
		t.Fatal(err)
	}
	cost := 0.0
	for share := int64(90); share >= 40; share -= 10 {
		p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Bytes: kept.Arena * share / 100}})
		if err != nil {
			t.Fatalf("at %d %%: %v", share, err)
		}
		if err := planner.Check(p); err != nil {
			t.Errorf("at %d %%: %v", share, err)
		}
		if p.Arena > kept.Arena*share/100 {
			t.Errorf("at %d %% the arena is %d of %d", share, p.Arena, kept.Arena)
		}
		if p.Result.Overhead < cost {
			t.Errorf("at %d %% less memory costs %v, after %v", share, p.Result.Overhead, cost)
		}
		cost = p.Result.Overhead
		again := ""
		for _, s := range p.Steps {
			if s.Again {
				again += " " + g.Nodes[s.Node].Name
			}
		}
		if share <= 50 && (!strings.Contains(again, " g") || !strings.Contains(again, " d1.") && !strings.Contains(again, " e")) {
			t.Errorf("at %d %% of the bytes%s run again, not of the first pass and of later ones", share, again)
		}
	}
}
