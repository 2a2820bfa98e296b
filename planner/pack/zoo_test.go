package pack_test

import (
	"errors"
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestZoo: the arenas of training steps, with and without a budget, are at most half a percent above the peak.
func TestZoo(t *testing.T) {
	plans := 0
	for _, family := range []string{"gpt", "bert", "llama", "resnet", "mlp"} {
		step, err := zoo.Step(zoo.Spec{Family: family}, kernels.Library, autograd.Options{Optimizer: "adamw"})
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range []float64{0, 80, 50} {
			dims := map[string]int64{"batch": 3}
			for _, name := range step.Names() {
				if name != "batch" {
					dims[name] = 40
				}
			}
			r := planner.Request{Dims: dims, ActivationBudget: planner.Size{Percent: percent}}
			p, err := planner.Make(step, r)
			if err != nil {
				var refused *planner.BudgetError
				if errors.As(err, &refused) && refused.Want < refused.Floor.Peak { // no plan keeps that
					continue
				}
				t.Fatalf("%s at %v %%: %v", family, percent, err)
			}
			plans++
			if over := p.Arena - p.Result.Peak; over*200 > p.Result.Peak {
				t.Errorf("%s at %v %%: the arena of %d is %d above the peak", family, percent, p.Arena, over)
			}
		}
	}
	if plans < 13 {
		t.Errorf("%d plans of 15", plans)
	}
}
