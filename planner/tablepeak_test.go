package planner_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"memopt/memopt/zoo"
	"memopt/planner"
)

// TestTrials: a trial of any set of nodes of a step takes the steps and has the peak
// that simulating every life finds.
func TestTrials(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		{zoo.Spec{Family: "gpt", Layers: 4}, map[string]int64{"batch": 4, "seq": 64}},
		{zoo.Spec{Family: "llama", Layers: 3}, map[string]int64{"batch": 2, "seq": 32}},
		{zoo.Spec{Family: "bert", Layers: 3}, map[string]int64{"batch": 3, "seq": 32}},
		{zoo.Spec{Family: "resnet", Layers: 2}, map[string]int64{"batch": 4}},
	} {
		g := step(t, c.spec)
		lab, err := planner.NewLab(g, c.dims)
		if err != nil {
			t.Fatal(err)
		}
		nodes, most := lab.Repeatable(), 0
		for n := range 200 {
			again := make([]bool, len(g.Nodes))
			for range 1 + r.IntN(len(nodes)) {
				again[nodes[r.IntN(len(nodes))].ID] = true
			}
			peak, _, steps, _ := lab.Simulate(again)
			tried, trial := lab.Trial(again)
			if trial != peak || !slices.Equal(tried, steps) {
				t.Fatalf("%s, set %d: a trial has a peak of %d in %d steps, every life one of %d in %d", c.spec.Family, n, trial, len(tried), peak, len(steps))
			}
			ran := 0
			for _, s := range steps {
				if s.Again {
					ran++
				}
			}
			most = max(most, ran)
		}
		if most < len(nodes)/4 {
			t.Errorf("%s: at most %d of %d nodes run again", c.spec.Family, most, len(nodes))
		}
	}
}
