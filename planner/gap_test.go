package planner_test

import (
	"fmt"
	"testing"

	"memopt/memopt/lab/corpus"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestNearBounds: plans of transformers are within a tenth of a point of what no plan
// can undercut.
func TestNearBounds(t *testing.T) {
	for _, c := range []struct {
		spec    zoo.Spec
		seq     int64
		budgets []float64
	}{
		{zoo.Spec{Family: "llama", Layers: 8}, 256, []float64{70, 60, 50, 40, 30}},
		{zoo.Spec{Family: "llama", Layers: 4}, 1024, []float64{60, 50, 40}},
		{zoo.Spec{Family: "llama", Layers: 8}, 1024, []float64{70, 60, 50, 40}},
		{zoo.Spec{Family: "llama", Layers: 12}, 1024, []float64{70, 60, 50}},
		{zoo.Spec{Family: "bert", Layers: 12}, 256, []float64{70, 60, 50, 40}},
		{zoo.Spec{Family: "bert", Layers: 6}, 64, []float64{60, 50}},
		{zoo.Spec{Family: "bert", Layers: 24}, 256, []float64{60, 50, 40}},
		{zoo.Spec{Family: "bert", Layers: 2}, 64, []float64{45}},
		{zoo.Spec{Family: "gpt", Layers: 2}, 64, []float64{45}},
		{zoo.Spec{Family: "gpt"}, 256, []float64{70}},
		{zoo.Spec{Family: "gpt", Layers: 12}, 256, []float64{70, 50, 40, 30}},
	} {
		g := step(t, c.spec)
		for _, percent := range c.budgets {
			t.Run(fmt.Sprintf("%s, %d layers, %d tokens, %v%%", c.spec.Family, c.spec.Layers, c.seq, percent), func(t *testing.T) {
				p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 4, "seq": c.seq}, ActivationBudget: planner.Size{Percent: percent}})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%.3f %%, %.3f points above the bound", 100*p.Result.Overhead, 100*p.Bound.Gap)
				if 100*p.Bound.Gap > 0.1 {
					t.Errorf("%.3f points above the bound", 100*p.Bound.Gap)
				}
			})
		}
	}
}

// TestNearBoundsAsRecorded: so are those of a GPT of 2 layers and 89 operators, as PyTorch
// runs it; and those of a U-Net are within a point.
func TestNearBoundsAsRecorded(t *testing.T) {
	for _, c := range []struct {
		model        string
		lowest, most float64 // percent
	}{{"gpt-2L", 50, 0.1}, {"unet-128", 40, 1}} {
		g, err := corpus.Recorded(c.model)
		if err != nil {
			t.Fatal(err)
		}
		for percent := 95.0; percent >= c.lowest; percent -= 5 {
			p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Percent: percent}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %v %%: %.3f %%, %.3f points above the bound", c.model, percent, 100*p.Result.Overhead, 100*p.Bound.Gap)
			if 100*p.Bound.Gap > c.most {
				t.Errorf("%s, %v %%: %.3f points above the bound", c.model, percent, 100*p.Bound.Gap)
			}
		}
	}
}

// TestDeep: programs of thousands of operators have plans far below what one layer after
// another would leave, down to where little of what goes on between layers fits.
func TestDeep(t *testing.T) {
	for _, model := range []struct {
		spec zoo.Spec
		most map[float64]float64 // by percent of the arena
	}{
		{zoo.Spec{Family: "gpt", Layers: 96}, map[float64]float64{6: 27, 5: 30, 4: 32, 3: 40, 2: 60}},
		{zoo.Spec{Family: "llama", Layers: 48}, map[float64]float64{6: 28, 5: 30, 4: 33, 3: 50, 2: 110}},
	} {
		g := step(t, model.spec)
		for percent, most := range model.most {
			p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 8, "seq": 128}, ActivationBudget: planner.Size{Percent: percent}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %v %%: %.1f %% more, at least %.1f", model.spec.Family, percent, 100*p.Result.Overhead, 100*p.Bound.Overhead)
			if 100*p.Result.Overhead > most {
				t.Errorf("%s, %v %%: %.1f %% more, not %v", model.spec.Family, percent, 100*p.Result.Overhead, most)
			}
		}
	}
}
