package planner_test

import (
	"math"
	"testing"

	"memopt/memopt/zoo"
	"memopt/planner"
)

// TestCosts: rates scale costs and leave shares alone if all are one; what was
// not measured has the rate of the rest; a node that is dear on the device is
// not run again if others can be.
func TestCosts(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50})
	r := planner.Request{Dims: map[string]int64{"batch": 4, "seq": 24}, ActivationBudget: planner.Size{Percent: 80}}
	plain, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	units := plain.PlainCosts()
	same := map[string]float64{}
	for i, n := range g.Nodes {
		if units[n.Name] > 0 && i%3 > 0 {
			same[n.Name] = 1e-9
		}
	}
	r.Costs = same
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.Result.Overhead-plain.Result.Overhead) > 1e-9 || p.Arena != plain.Arena {
		t.Errorf("at one rate for all the plan has %d at %v, not %d at %v", p.Arena, p.Result.Overhead, plain.Arena, plain.Result.Overhead)
	}
	f, err := p.Formulas()
	if err != nil {
		t.Fatal(err)
	}
	if share, ok := f.OverheadAt(r.Dims); !ok || math.Abs(share-p.Result.Overhead) > 1e-9 {
		t.Errorf("the formula of the overhead says %v, the plan %v", share, p.Result.Overhead)
	}
	dear := map[string]float64{}
	for name := range units {
		dear[name] = 1e-9
	}
	again := map[string]bool{}
	for _, s := range plain.Steps {
		if name := g.Nodes[s.Node].Name; s.Again {
			again[name], dear[name] = true, 1
			break
		}
	}
	r.Costs = dear
	if p, err = planner.Make(g, r); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps {
		if name := g.Nodes[s.Node].Name; s.Again && again[name] {
			t.Errorf("%q runs again, at a price of a thousand million", name)
		}
	}
}
