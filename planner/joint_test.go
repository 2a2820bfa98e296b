package planner_test

import (
	"maps"
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/memopt/lab/corpus"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestBetterThanCheckpointing: within the bytes that PyTorch needs when it
// checkpoints 2, 4 and 6 blocks of 6, a plan repeats no more operations.
func TestBetterThanCheckpointing(t *testing.T) {
	g, err := corpus.Recorded("gpt2-6L")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ mib, flops float64 }{{198.2, 1.06}, {153.1, 1.12}, {108, 1.18}} {
		limit := int64(c.mib * (1 << 20))
		p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Bytes: limit}})
		if err != nil {
			t.Fatal(err)
		}
		flops := 1 + float64(p.Result.ExtraFlops)/float64(p.Result.Flops)
		t.Logf("%.1f MiB: %.4f × the operations, gap %.3f points", c.mib, flops, 100*p.Bound.Gap)
		if p.Arena > limit || flops > c.flops {
			t.Errorf("%d bytes for %d, %.4f × the operations, over %.2f", p.Arena, limit, flops, c.flops)
		}
	}
}

// TestFiftyBudgets: less memory never costs less nor needs more, on models as
// PyTorch runs them and on our own; and more compute never needs more memory.
func TestFiftyBudgets(t *testing.T) {
	graphs := map[string]*graph.Graph{}
	for _, name := range []string{"gpt2-6L", "resnet18"} {
		g, err := corpus.Recorded(name)
		if err != nil {
			t.Fatal(err)
		}
		graphs[name] = g
	}
	for _, spec := range []zoo.Spec{
		{Family: "gpt", Layers: 3, Width: 32, Heads: 2, Vocab: 50},
		{Family: "bert", Layers: 2, Width: 32, Heads: 2, Vocab: 50},
		{Family: "llama", Layers: 2, Width: 32, Heads: 4, Vocab: 50},
		{Family: "resnet", Layers: 1, Width: 8, Image: 16},
		{Family: "mlp", Layers: 12, Width: 16, Inputs: 8},
	} {
		graphs[spec.Family] = step(t, spec)
	}
	dims := map[string]int64{"batch": 16, "seq": 24}
	for _, name := range slices.Sorted(maps.Keys(graphs)) {
		var before *planner.Plan
		for i := range 50 {
			percent := 95 - float64(i)*1.1
			p, err := planner.Make(graphs[name], planner.Request{Dims: dims, ActivationBudget: planner.Size{Percent: percent}})
			if err != nil {
				break // below the lowest plan
			}
			if float64(p.Arena) > float64(p.Baseline.Arena)*percent/100 {
				t.Errorf("%s: %d bytes are over %.1f %%", name, p.Arena, percent)
			}
			if before != nil && (p.Result.Overhead < before.Result.Overhead-1e-12 || p.Result.Peak > before.Result.Peak || p.Arena > before.Arena) {
				t.Errorf("%s: %.1f %%: cost %v, peak %d, arena %d after cost %v, peak %d, arena %d for more", name, percent,
					p.Result.Overhead, p.Result.Peak, p.Arena, before.Result.Overhead, before.Result.Peak, before.Arena)
			}
			before = p
		}
		if before == nil || before.Result.Again == 0 {
			t.Errorf("%s: no budget made anything run again", name)
		}
		before = nil
		for _, most := range []float64{0.01, 0.1} {
			p, err := planner.Make(graphs[name], planner.Request{Dims: dims, MaxOverhead: most})
			if err != nil {
				t.Fatalf("%s within %v: %v", name, most, err)
			}
			if p.Result.Overhead > most || before != nil && p.Arena > before.Arena {
				t.Errorf("%s: %d bytes at %v within %v", name, p.Arena, p.Result.Overhead, most)
			}
			before = p
		}
	}
}
