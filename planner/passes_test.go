package planner_test

import (
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestSigned: every plan says who chose what runs again and who placed it, by names that there are.
func TestSigned(t *testing.T) {
	known := map[string]bool{"planner/given": true}
	for _, p := range planner.Passes() {
		known[p.Name] = true
		if room, _, _ := strings.Cut(p.Name, "/"); !strings.HasPrefix(p.At, "planner/"+room+"/") {
			t.Errorf("%s begins at %s", p.Name, p.At)
		}
	}
	names, _ := planner.Strategies()
	for _, name := range names {
		known["strategy/"+name] = true
	}
	g := step(t, zoo.Spec{Family: "gpt", Layers: 4, Width: 32, Heads: 2, Vocab: 50})
	for _, percent := range []float64{100, 80, 60, 45} {
		p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2, "seq": 32}, ActivationBudget: planner.Size{Percent: percent}})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Search
		if !known[s.Choice] || !strings.HasPrefix(s.Placement, "pack/") || len(s.Passes) == 0 {
			t.Errorf("%v %%: chosen by %q, placed by %q, %d rows", percent, s.Choice, s.Placement, len(s.Passes))
		}
		if kept := s.Choice == "strategy/keep-all"; kept != (p.Result.Again == 0) {
			t.Errorf("%v %%: %s chose %d nodes that run again", percent, s.Choice, p.Result.Again)
		}
		t.Logf("%v %%: %s, %s, %+v", percent, s.Choice, s.Placement, s.Passes)
	}
	for _, name := range []string{"recompute/luck", planner.Passes()[0].Name} { // there is none, or all others need it
		_, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2, "seq": 32}, Without: []string{name}})
		if err == nil || !strings.Contains(err.Error(), planner.Passes()[1].Name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
