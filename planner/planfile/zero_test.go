package planfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/planfile"
)

// TestFileZero: no figure in a plan file is -0, which other tools write back as 0; and
// an older file that has it is the same plan under either sign.
func TestFileZero(t *testing.T) {
	g, err := zoo.New(zoo.Spec{Family: "bert", Layers: 2, Width: 32, Heads: 2, Vocab: 30}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	g.Clean(graph.CleanOptions{Fuse: kernels.Fusions, Unfold: true})
	if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "adamw"}); err != nil {
		t.Fatal(err)
	}
	dims := map[string]int64{"batch": 4, "seq": 16}
	p, err := planner.Make(g, planner.Request{Dims: dims, Boundary: true, ActivationBudget: planner.Size{Percent: 40}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := planfile.Of(p, "bert.onnx").Save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if strings.Contains(text, `": -0,`) {
		t.Error("the file has a figure of -0")
	}
	old := strings.ReplaceAll(text, `"cost": 0,`, `"cost": -0,`)
	if old == text {
		t.Fatal("no cluster of the plan is free, so that nothing is tried")
	}
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := planfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Bind(g); err != nil {
		t.Error(err)
	}
}
