package memopt

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/step"
	"memopt/memopt/training"
)

// numbersOf are a file's float initializers and running statistics, by name.
func numbersOf(t *testing.T, path string) (*graph.Graph, map[string][]byte) {
	t.Helper()
	g, source, err := onnx.From{Path: path, Apart: true}.Read(t.Context(), kernels.AsRead())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	all := map[string][]byte{}
	for _, v := range g.Values {
		if v.Data != nil && v.Type.IsFloat() {
			b, err := v.Data.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			all[v.Name] = bytes.Clone(b)
		}
	}
	return g, all
}

// trainedTo trains a model and writes it with its weights.
func trainedTo(t *testing.T, m *step.Model, to string, run training.Options) *training.Result {
	t.Helper()
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	run.Output = to
	if run.LR == 0 {
		run.LR = 0.01
	}
	r, err := Run(m, p, run)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTrainingChangesParametersAlone: of real exports, after some steps every
// parameter has moved, and every other initializer but a running statistic has the bits of
// the file.
func TestTrainingChangesParametersAlone(t *testing.T) {
	eachExport(t, func(t *testing.T, path string, kinds map[string]string) {
		m := opened(t, path, map[string]string{"tied": "on"})
		trains := m.Trains()
		to := filepath.Join(t.TempDir(), "trained.onnx")
		trainedTo(t, m, to, training.Options{Steps: 3})
		before, was := numbersOf(t, path)
		after, now := numbersOf(t, to)
		if got, want := after.String(), before.String(); got != want {
			t.Errorf("another program is written")
		}
		if !maps.EqualFunc(was, now, func(a, b []byte) bool { return len(a) == len(b) }) {
			t.Fatalf("other initializers are written")
		}
		for name, b := range was {
			moved := !bytes.Equal(b, now[name])
			may := kinds[name] == "parameter" || slices.Contains(trains.Statistics, name)
			if moved && !may {
				t.Errorf("%s is no parameter and has moved", name)
			}
			if !moved && may {
				t.Errorf("%s has not moved", name)
			}
		}
	})
}

// TestTrainedGoesOn: the written model is where training was: its next step has the loss
// that one more step of the same run has, bit for bit, and all else of the file is as it was.
func TestTrainedGoesOn(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"testdata/exports/text-inputs.onnx", "testdata/exports/image-older.onnx", "testdata/models/mlp/model.onnx"} {
		settings := map[string]string{"optimizer": "sgd", "tied": "on"} // which has no states that the model does not hold
		to := filepath.Join(dir, "trained.onnx")
		trainedTo(t, opened(t, path, settings), to, training.Options{Steps: 2})
		whole := trainedTo(t, opened(t, path, settings), filepath.Join(dir, "more.onnx"), training.Options{Steps: 4})
		rest := trainedTo(t, opened(t, to, settings), filepath.Join(dir, "rest.onnx"), training.Options{Steps: 2})
		if !slices.Equal(whole.Losses[2:], rest.Losses) {
			t.Errorf("%s: the losses go on with %v, not %v", path, rest.Losses, whole.Losses[2:])
		}
		_, a := numbersOf(t, filepath.Join(dir, "more.onnx"))
		_, b := numbersOf(t, filepath.Join(dir, "rest.onnx"))
		if !maps.EqualFunc(a, b, bytes.Equal) {
			t.Errorf("%s: the weights of two runs of two steps are not those of one of four", path)
		}
		was, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := os.Stat(to); err != nil || was.Size() != now.Size() && !exists(path+".data") {
			t.Errorf("%s: %v", path, err)
		}
		if exists(path+".data") != exists(to+".data") {
			t.Errorf("%s: external data %v, written %v", path, exists(path+".data"), exists(to+".data"))
		}
		os.Remove(to + ".data")
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestTrainedSparesTheModel: neither the model nor the weights beside it are written over, and
// without weights that change nothing is written.
func TestTrainedSparesTheModel(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"text-inputs.onnx", "text-inputs.onnx.data"} {
		src, err := os.ReadFile(filepath.Join("testdata", "exports", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), src, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "text-inputs.onnx")
	link := filepath.Join(dir, "other.onnx")
	if err := os.Symlink("text-inputs.onnx.data", link+".data"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{path, filepath.Join(dir, "text-inputs.onnx.data"), link} {
		m := opened(t, path, nil)
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(m, p, training.Options{Steps: 1, LR: 0.1, Output: to}); err == nil {
			t.Errorf("%s is written over", to)
		}
	}
	want, _ := os.ReadFile("testdata/exports/text-inputs.onnx.data")
	if got, err := os.ReadFile(path + ".data"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the weights of the model are others: %v", err)
	}
	m := opened(t, "testdata/ort/mlp.onnx", map[string]string{"dims": "ids_dim0=2,x_dim1=2"})
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if err := training.Allowed(m, p, training.Options{Output: filepath.Join(dir, "new.onnx")}); err == nil || !strings.Contains(err.Error(), "update") {
		t.Error("a step without updates has trained weights")
	}
}

// TestRunningStatisticsEqualPyTorch: what one step of an older export, whose new statistics
// are no outputs of the graph, leaves in them is what PyTorch has, with the variance of the
// sample and a layer that is called twice. A file that says itself what replaces them may
// have ONNX's variance.
func TestRunningStatisticsEqualPyTorch(t *testing.T) {
	for path, reference := range map[string]string{
		"testdata/exports/image-older.onnx":        "testdata/exports/image-older.npz",
		"testdata/exports/image-older-inputs.onnx": "testdata/exports/image-older.npz",
		"testdata/models/resnet8/model.onnx":       "testdata/models/resnet8/ref.npz",
	} {
		got, check, err := training.Gradients(&step.Model{Path: path, Config: configs.Default()}, reference)
		if err != nil {
			t.Fatal(err)
		}
		got.Close()
		if len(check.After) < 4 || !(check.WorstAfter.RelErr <= 1e-5) || len(check.Missing) > 0 {
			t.Errorf("%s: of %d statistics %v is the worst; missing %v", path, len(check.After), check.WorstAfter, check.Missing)
		}
		if !(check.LossRelErr <= 1e-5) || !(check.Worst.RelErr <= 1e-4) || len(check.Params) == 0 {
			t.Errorf("%s: the loss differs by %.2e, the worst gradient %v", path, check.LossRelErr, check.Worst)
		}
	}
}
