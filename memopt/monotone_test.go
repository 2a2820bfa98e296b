package memopt

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestLessBudgetCostsNoLess: over all forms that a step may have, a plan for less memory costs no
// less, also from budgets on that everything kept is within, where a form may be cheaper than the
// plain step. Once no plan is found, none is for less.
func TestLessBudgetCostsNoLess(t *testing.T) {
	narrow := 0 // plans of a cheaper form than the plain step
	for _, model := range []struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		{zoo.Spec{Family: "gpt", Layers: 1, Width: 4, Heads: 2, Vocab: 100}, map[string]int64{"batch": 8, "seq": 16}},
		{zoo.Spec{Family: "llama", Layers: 1, Width: 8, Heads: 2, Vocab: 500}, map[string]int64{"batch": 4, "seq": 16}},
		{zoo.Spec{Family: "bert", Layers: 1, Width: 16, Heads: 2, Vocab: 300}, map[string]int64{"batch": 4, "seq": 32}},
		{zoo.Spec{Family: "resnet", Layers: 2, Width: 8, Image: 16}, map[string]int64{"batch": 4}},
	} {
		path, _ := madeGPT(t, model.spec)
		for _, settings := range []map[string]string{{}, {"shrink": "off"}, {"level": "1"}, {"cost": "flops"}} {
			t.Run(fmt.Sprintf("%s, %v", model.spec.Family, settings), func(t *testing.T) {
				least, none := -1.0, false
				for _, budget := range []string{"300%", "100%", "99.7%", "95%", "80%", "63.2%", "50%", "35.5%", "22%"} {
					fields := map[string]string{"activation_budget": budget}
					maps.Copy(fields, settings)
					c := settingsFor(t, fields)
					c.Dims = model.dims
					m, err := Open(path, c)
					if err != nil {
						t.Fatal(err)
					}
					p, err := m.Plan()
					m.Close()
					var short *planner.BudgetError
					switch {
					case errors.As(err, &short):
						none = true
						continue
					case err != nil:
						t.Fatal(err)
					case none:
						t.Errorf("%s has a plan, and more has none", budget)
					}
					cost, plain := p.Cost()
					if cost < least*(1-1e-9) {
						t.Errorf("%s costs %+.4f %%, less than more does: %+.4f %%", budget, 100*(cost/plain-1), 100*(least/plain-1))
					}
					if least = max(least, cost); cost < plain*(1-1e-9) {
						narrow++
					}
				}
			})
		}
	}
	if narrow == 0 {
		t.Error("no form was cheaper than the plain step: the test shows less than it should")
	}
}
