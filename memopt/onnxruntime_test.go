package memopt

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/memopt/training"
)

// recorded is what testdata/record.py wrote of a model: onnxruntime's loss, and
// slopes of it along a direction in each parameter, to six digits where exact.
type recorded struct {
	Output string
	Loss   float64
	Exact  bool
	Slopes map[string]float64
}

func eachRecorded(t *testing.T, folder string, f func(t *testing.T, path string, r recorded)) {
	src, err := os.ReadFile(filepath.Join("testdata", folder, "onnxruntime.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Models map[string]recorded }
	if err := json.Unmarshal(src, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Models) == 0 {
		t.Fatal("nothing is recorded")
	}
	for _, name := range slices.Sorted(maps.Keys(file.Models)) {
		t.Run(name, func(t *testing.T) { f(t, filepath.Join("testdata", folder, name), file.Models[name]) })
	}
}

// TestLossEqualsONNXRuntime: the forward loss, to 1e-5 relative, as the file has
// the graph, cleaned up, and with fusions.
func TestLossEqualsONNXRuntime(t *testing.T) {
	for _, folder := range []string{"models", "architectures"} {
		t.Run(folder, func(t *testing.T) {
			eachRecorded(t, folder, func(t *testing.T, path string, r recorded) {
				for _, optimize := range []string{"off", "clean", "fuse"} {
					check, _ := recordedStep(t, path, r, optimize)
					if e := math.Abs(check.Loss-r.Loss) / math.Abs(r.Loss); !(e <= 1e-5) {
						t.Errorf("optimize %s: the loss is %v, not %v: off by %.2g", optimize, check.Loss, r.Loss, e)
					}
				}
			})
		})
	}
}

// TestSlopesOfArchitectures: along a direction in each parameter the loss
// changes as the gradient says. Slopes that are not exact are differences in
// float32, over a step on which Relus turn.
func TestSlopesOfArchitectures(t *testing.T) {
	eachRecorded(t, "architectures", func(t *testing.T, path string, r recorded) {
		_, grads := recordedStep(t, path, r, "fuse")
		for _, name := range slices.Sorted(maps.Keys(r.Slopes)) {
			g, want := grads[name], r.Slopes[name]
			if g == nil {
				t.Errorf("%s has no gradient", name)
				continue
			}
			along, length := 0.0, 0.0
			for i, x := range g {
				along += x * math.Cos(float64(i))
				length += math.Cos(float64(i)) * math.Cos(float64(i))
			}
			allowed := 0.03*math.Abs(want) + 0.002*math.Sqrt(length)*math.Max(1, math.Abs(r.Loss))
			if r.Exact {
				allowed = 1e-4*math.Abs(want) + 1e-6*math.Sqrt(length)*math.Max(1, math.Abs(r.Loss))
			}
			if e := math.Abs(along - want); !(e <= allowed) {
				t.Errorf("%s: the slope is %v, not %v", name, along, want)
			}
		}
	})
}

// recordedStep runs one step of a model on the inputs of the record.
func recordedStep(t *testing.T, path string, r recorded, optimize string) (*training.Check, map[string][]float64) {
	t.Helper()
	reference := strings.TrimSuffix(path, ".onnx") + ".npz"
	if _, err := os.Stat(reference); err != nil {
		reference = filepath.Join(filepath.Dir(path), "ref.npz")
	}
	c := configs.Default()
	c.Loss, c.Optimize = r.Output, optimize
	m, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	out, check, err := training.Gradients(m, reference)
	if err != nil {
		t.Fatal(err)
	}
	grads := map[string][]float64{}
	for name, x := range fetched(t, out) {
		param, is := strings.CutPrefix(name, "grad.")
		if !is {
			continue
		}
		g := make([]float64, x.Len())
		for i := range g {
			g[i] = x.Float(i)
		}
		grads[param] = g
	}
	return check, grads
}
