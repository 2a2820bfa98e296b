package memopt

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/tensorfile"
	"memopt/memopt/training"
)

// trainedDefault trains one of the default exports, and returns the checkpoint and the model with trained weights.
func trainedDefault(t *testing.T, name string, steps int, rate float64) (saved *tensorfile.Set, output string, r *training.Result) {
	t.Helper()
	m := opened(t, filepath.Join("testdata", "defaults", name+".onnx"), map[string]string{"loss": "mse", "optimizer": "sgd"})
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	checkpoint, output := filepath.Join(dir, "trained.st"), filepath.Join(dir, "trained.onnx")
	r, err = Run(m, p, training.Options{Steps: steps, LR: rate, Data: filepath.Join("testdata", "defaults", name+".npz"), Save: checkpoint, Output: output})
	if err != nil {
		t.Fatal(err)
	}
	if saved, _, err = tensorfile.ReadSafetensors(checkpoint); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(saved.Close)
	return saved, output, r
}

// TestDefaultExportsTrainAsPyTorch: in exports with the exporter's default options every parameter is trained under its own name, as in PyTorch:
// a step of SGD shows the gradients, ten show the rest. A buffer that training does not change is not in a checkpoint.
func TestDefaultExportsTrainAsPyTorch(t *testing.T) {
	for _, name := range []string{"transformer", "tied", "layers", "resized", "numbers-plain"} {
		t.Run(name, func(t *testing.T) {
			want, err := tensorfile.ReadNPZ(filepath.Join("testdata", "defaults", name+".npz"))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			for _, c := range []struct {
				prefix, loss string
				steps        int
				rate         float64
			}{{"step1:", "loss1", 1, 1}, {"step10:", "loss10", 10, 0.05}} {
				saved, output, r := trainedDefault(t, name, c.steps, c.rate)
				if got, is := r.Losses[c.steps-1], want.Tensors[c.loss].Float(0); math.Abs(got-is) > 1e-5*is {
					t.Errorf("loss %v at step %d, not %v", got, c.steps, is)
				}
				_, numbers := numbersOf(t, output)
				for key, x := range want.Tensors {
					of, ok := strings.CutPrefix(key, c.prefix)
					if !ok || strings.HasPrefix(of, "never.") {
						continue
					}
					got := saved.Tensors[of]
					if got == nil || got.Type != x.Type || got.Len() != x.Len() {
						t.Errorf("%s is not in the checkpoint as it is in the model", of)
						continue
					}
					for i := range x.Len() {
						if math.Abs(got.Float(i)-x.Float(i)) > 1e-5+1e-4*math.Abs(x.Float(i)) {
							t.Errorf("after %d steps %s has %v at %d, not %v", c.steps, of, got.Float(i), i, x.Float(i))
							break
						}
					}
					if b, ok := numbers[of]; ok && !bytes.Equal(b, got.Bytes) {
						t.Errorf("%s has other numbers in the model that is written", of)
					}
				}
				// What was given back stays: the written model trains the same parameters.
				again := opened(t, output, map[string]string{"loss": "mse", "optimizer": "sgd"})
				for key := range want.Tensors {
					if of, ok := strings.CutPrefix(key, "step1:"); ok && saved.Tensors[of] != nil && again.Graph.ByName(of) == nil && again.Source.Tied[of] == "" {
						t.Errorf("the written model has no %s", of)
					}
				}
			}
		})
	}
}

// TestLostParameters: where parameters of the exporter's list cannot be told apart, training is refused, unless a setting accepts it.
func TestLostParameters(t *testing.T) {
	const path = "testdata/defaults/lost.onnx"
	settings := map[string]string{"loss": "mse"}
	run := func() error {
		m := opened(t, path, settings)
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if w := strings.Join(p.Warnings, "\n"); !strings.Contains(w, "norm2.weight") {
			t.Errorf("the plan does not say it: %s", w)
		}
		_, err = Run(m, p, training.Options{Steps: 1, LR: 0.1, Data: "testdata/defaults/lost.npz"})
		return err
	}
	err := run()
	for _, want := range []string{"norm2.weight", "norm2.bias", "scale", "neutral", "optimize=False", "--tied"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	settings["tied"] = "on"
	if err := run(); err != nil {
		t.Error(err)
	}
}

// TestFusedNorms: a convolution that the exporter fused with its batch norm is named, once, and trained as it is.
func TestFusedNorms(t *testing.T) {
	warnings := opened(t, "testdata/defaults/fused.onnx", map[string]string{"loss": "mse"}).UnclearRoles()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "conv and norm") {
		t.Errorf("%q", warnings)
	}
	trainedDefault(t, "fused", 1, 0.1)
}

// TestScalesThatAreFed: an operator that needs an input known before the step runs says on which input of the model it depends.
func TestScalesThatAreFed(t *testing.T) {
	_, err := Open("testdata/defaults/fed.onnx", configs.Default())
	if err == nil || !strings.Contains(err.Error(), `it depends on the model's input "by"`) {
		t.Error(err)
	}
}
