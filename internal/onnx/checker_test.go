package onnx_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
)

// checker is the ONNX project's own check, with shape inference where the file
// holds only its operators.
const checker = `
import sys, onnx
for path in sys.argv[1:]:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=all(o.domain == "" for o in model.opset_import))
    print("ok", path)
`

// TestChecker: every file that is written passes onnx.checker: what new makes,
// models that were read, and whole training steps. make test brings the Python
// that it needs and names it in MEMOPT_PYTHON.
func TestChecker(t *testing.T) {
	python := os.Getenv("MEMOPT_PYTHON")
	if python == "" {
		t.Skip("MEMOPT_PYTHON names no Python with onnx; make test does")
	}
	dir := t.TempDir()
	var files []string
	write := func(name string, g *graph.Graph) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := onnx.Write(path, g); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	for _, f := range zoo.Families() {
		g, err := zoo.New(zoo.Spec{Family: f.Name}, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		write(f.Name+".onnx", g)
		step, err := autograd.TrainStep(g, autograd.Options{Optimizer: "adamw", ClipNorm: 1})
		if err != nil {
			t.Fatal(err)
		}
		write(f.Name+".step.onnx", step)
	}
	models, err := filepath.Glob("../../memopt/testdata/models/*/*.onnx")
	if err != nil || len(models) == 0 {
		t.Fatalf("no models: %v", err)
	}
	for _, path := range models {
		g, _, err := onnx.Open(path, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		write(strings.ReplaceAll(strings.TrimPrefix(path, "../../memopt/testdata/models/"), "/", "."), g)
	}
	out, err := exec.Command(python, append([]string{"-c", checker}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "ok "); n != len(files) {
		t.Errorf("%d of %d files were checked\n%s", n, len(files), out)
	}
}
