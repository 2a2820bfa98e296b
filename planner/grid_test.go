package planner_test

import (
	"math"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestRungs: of two budgets the lower one does not cost less, on a convolution net whose
// plans are far from their bounds.
func TestRungs(t *testing.T) {
	g := step(t, zoo.Spec{Family: "resnet", Layers: 2, Width: 7, Image: 29})
	least, worst := math.Inf(1), 0.0
	for _, percent := range []float64{44.6, 45, 45.4, 45.43, 46.2, 46.6, 49.4, 49.8, 50.2, 50.21, 56.2, 56.6} {
		p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 5}, ActivationBudget: planner.Size{Percent: percent}})
		if err != nil {
			t.Fatal(err)
		}
		cost := p.Result.Overhead
		t.Logf("%v %%: %.3f %%, %.3f points above the bound", percent, 100*cost, 100*p.Bound.Gap)
		if cost > least {
			t.Errorf("%v %% costs %.3f %%, less cost %.3f %%", percent, 100*cost, 100*least)
		}
		if cost-p.Bound.Gap > least {
			t.Errorf("%v %%: the bound is %.3f %%, a lower budget's plan costs %.3f %%", percent, 100*(cost-p.Bound.Gap), 100*least)
		}
		least, worst = min(least, cost), max(worst, p.Bound.Gap)
	}
	if worst < 0.01 {
		t.Errorf("all plans are within %.3f points of their bounds: this asks nothing", 100*worst)
	}
}
