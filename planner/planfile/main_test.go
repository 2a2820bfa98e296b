package planfile_test

import (
	"os"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// step is the training step of a small model.
func step(t testing.TB, s zoo.Spec) *graph.Graph {
	t.Helper()
	g, err := zoo.Step(s, kernels.Library, autograd.Options{Optimizer: "adamw"})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// again is a plan of few launches, of which one runs again.
func again(t *testing.T) *planner.Plan {
	t.Helper()
	text, err := os.ReadFile("../testdata/checked.graph")
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.Parse(kernels.Library, string(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 4}, Again: []string{"h"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
