package planner_test

import (
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestLowestWithinCost: a limit of extra cost has a plan as low as the lowest of those that
// budgets have for no more, whichever way the plans of a convolution net lie.
func TestLowestWithinCost(t *testing.T) {
	for _, c := range []struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		{zoo.Spec{Family: "resnet"}, map[string]int64{"batch": 8}},
		{zoo.Spec{Family: "resnet", Layers: 3, Image: 16}, map[string]int64{"batch": 3}},
		{zoo.Spec{Family: "gpt", Layers: 4}, map[string]int64{"batch": 8, "seq": 64}},
		{zoo.Spec{Family: "llama", Layers: 3}, map[string]int64{"batch": 2, "seq": 48}},
		{zoo.Spec{Family: "mlp", Layers: 8}, map[string]int64{"batch": 64}},
	} {
		t.Run(c.spec.Family, func(t *testing.T) {
			g := step(t, c.spec)
			for percent := 90.0; percent >= 30; percent -= 7 {
				within, err := planner.Make(g, planner.Request{Dims: c.dims, ActivationBudget: planner.Size{Percent: percent}})
				if err != nil {
					break
				}
				if within.Result.Overhead <= 0 {
					continue
				}
				lowest, err := planner.Make(g, planner.Request{Dims: c.dims, MaxOverhead: within.Result.Overhead * 1.02})
				if err != nil {
					t.Fatal(err)
				}
				if lowest.Arena > within.Arena {
					t.Errorf("%v %%: for +%.3f %% the arena is %d, and %d within a budget", percent, 100*within.Result.Overhead, lowest.Arena, within.Arena)
				}
			}
		})
	}
}

// TestLargestWithinCost: the next size after the largest within a budget and a limit of extra
// cost has no plan that keeps both.
func TestLargestWithinCost(t *testing.T) {
	g := step(t, zoo.Spec{Family: "resnet"})
	for _, mib := range []int64{20, 21, 25} {
		r := planner.Request{Budget: planner.Size{Bytes: mib << 20}, MaxOverhead: 0.05}
		p, err := planner.Largest(g, r, "batch", 0)
		if err != nil {
			t.Fatal(err)
		}
		size := p.Request.Dims["batch"]
		if p.Memory.Total > mib<<20 || p.Result.Overhead > 0.05 {
			t.Errorf("%d MiB: %d takes %d bytes for +%.2f %%", mib, size, p.Memory.Total, 100*p.Result.Overhead)
		}
		r.Dims = map[string]int64{"batch": size + 1}
		if p, err := planner.Make(g, r); err == nil {
			t.Errorf("%d MiB: %d is the largest, and the next one takes %d bytes for +%.2f %%", mib, size, p.Memory.Total, 100*p.Result.Overhead)
		}
	}
}
