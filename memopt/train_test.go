package memopt

import (
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"memopt/configs"
	"memopt/internal/onnx"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
)

// madeGPT writes a small GPT and the task it learns: the next token of a
// pattern.
func madeGPT(t *testing.T, spec zoo.Spec) (model, data string) {
	t.Helper()
	dir := t.TempDir()
	g, err := zoo.New(spec, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	model, data = filepath.Join(dir, "gpt.onnx"), filepath.Join(dir, "gpt.npz")
	if err := onnx.Write(model, g); err != nil {
		t.Fatal(err)
	}
	arrays, err := zoo.Data(spec, 128, 32, 1)
	if err != nil {
		t.Fatal(err)
	}
	set := &tensorfile.Set{Tensors: arrays}
	for name := range arrays {
		set.Names = append(set.Names, name)
	}
	slices.Sort(set.Names)
	if err := tensorfile.WriteNPZ(data, set); err != nil {
		t.Fatal(err)
	}
	return model, data
}

// gpt is small enough to learn in seconds, with dropout, so that random
// operators are part of every promise below.
var gpt = zoo.Spec{Family: "gpt", Layers: 2, Width: 64, Heads: 4, Vocab: 64, Dropout: 0.1}

func settingsFor(t *testing.T, fields map[string]string) configs.Config {
	t.Helper()
	c := configs.Config{}
	fields["dims"] = "batch=4,seq=32"
	for name, value := range fields {
		if err := c.Set(name, value, configs.Source{Origin: configs.OriginFlag, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return configs.Merge(c)
}

func trainGPT(t *testing.T, model string, fields map[string]string, tr training.Options) *training.Result {
	t.Helper()
	return trainAs(t, model, settingsFor(t, fields), tr)
}

// planned is a model under settings, and its plan.
func planned(t *testing.T, model string, c configs.Config) (*step.Model, *planner.Plan) {
	t.Helper()
	m, err := Open(model, c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return m, p
}

// trainAs trains a model under settings; its memory is as promised.
func trainAs(t *testing.T, model string, c configs.Config, tr training.Options) *training.Result {
	t.Helper()
	m, p := planned(t, model, c)
	r, err := Run(m, p, tr)
	if err != nil {
		t.Fatal(err)
	}
	if r.Trace.Arena != p.Arena {
		t.Errorf("%s: arena: promised %d, measured %d", c.Device, p.Arena, r.Trace.Arena)
	}
	if total := r.Trace.Arena + r.Trace.State + r.Trace.Staging; total != p.Memory.Total {
		t.Errorf("%s: total: promised %d, measured %d", c.Device, p.Memory.Total, total)
	}
	return r
}

// TestLearns: 200 AdamW steps lower the loss by more than half.
func TestLearns(t *testing.T) {
	model, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 64, Heads: 4, Vocab: 64})
	r := trainGPT(t, model, map[string]string{"activation_budget": "60%"}, training.Options{Steps: 200, LR: 3e-3, Data: data})
	first, last := r.Losses[0], r.Losses[len(r.Losses)-1]
	t.Logf("loss %.4f → %.4f", first, last)
	if !(last < first/2) {
		t.Errorf("the loss went from %.4f to %.4f", first, last)
	}
}

// TestWarmup: the first training that new suggests goes down from the start. Made-up
// texts use few of the vocabulary's tokens, so that Adam's first updates, all of the
// length of the rate, move every other token's score the same way, and at full rate once
// too far.
func TestWarmup(t *testing.T) {
	model, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 4, Width: 128, Heads: 4, Vocab: 1024})
	worst := func(losses []float64) (rise float64) {
		for i := range losses[1:] {
			rise = max(rise, losses[i+1]-losses[i])
		}
		return rise
	}
	fields := func() map[string]string { return map[string]string{"optimizer": "adamw"} }
	with := trainGPT(t, model, fields(), training.Options{Steps: 25, LR: 2e-3, Warmup: 20, Data: data})
	without := trainGPT(t, model, fields(), training.Options{Steps: 25, LR: 2e-3, Data: data})
	t.Logf("with %.3f, without %.3f", with.Losses, without.Losses)
	if rise := worst(with.Losses); rise > 0.3 {
		t.Errorf("with a warm-up the loss rises by %.2f", rise)
	}
	if worst(without.Losses) < 1 {
		t.Error("without one it does not rise either: this test shows nothing")
	}
	// A resumed run goes on where the rate was.
	part := filepath.Join(t.TempDir(), "part.safetensors")
	trainGPT(t, model, fields(), training.Options{Steps: 3, LR: 2e-3, Warmup: 20, Data: data, Save: part})
	rest := trainGPT(t, model, fields(), training.Options{Steps: 3, LR: 2e-3, Warmup: 20, Data: data, Resume: part})
	if !slices.Equal(rest.Losses, with.Losses[3:6]) {
		t.Errorf("resumed: %v, not %v", rest.Losses, with.Losses[3:6])
	}
}

// TestSameCurve: the losses do not depend on the plan or on the cores.
func TestSameCurve(t *testing.T) {
	model, data := madeGPT(t, gpt)
	tr := training.Options{Steps: 12, LR: 3e-3, Seed: 3, Data: data}
	var want []float64
	for _, c := range []struct {
		strategy, budget, clip string
		cores                  int
	}{
		{"keep-all", "", "", 1},
		{"keep-all", "", "", 2},
		{"recompute-cheap", "", "", 2},
		{"recompute-all", "", "", 2},
		{"optimize", "70%", "", 1},
	} {
		cores := runtime.GOMAXPROCS(c.cores)
		fields := map[string]string{"strategy": c.strategy}
		if c.budget != "" {
			fields["activation_budget"] = c.budget
		}
		r := trainGPT(t, model, fields, tr)
		runtime.GOMAXPROCS(cores)
		if want == nil {
			want = r.Losses
		} else if !slices.Equal(r.Losses, want) {
			t.Errorf("%+v: losses %v, not %v", c, r.Losses, want)
		}
	}
}

// TestResume: a saved run goes on as if it had not stopped.
func TestResume(t *testing.T) {
	model, data := madeGPT(t, gpt)
	for name, fields := range map[string]map[string]string{
		"adamw":                 {},
		"momentum and clipping": {"optimizer": "momentum", "clip_norm": "1"},
		"micro-batches":         {"accumulate": "2"},
		"lamb":                  {"optimizer": "lamb"},
		"adagrad":               {"optimizer": "adagrad"},
	} {
		t.Run(name, func(t *testing.T) {
			whole := trainGPT(t, model, fields, training.Options{Steps: 8, LR: 1e-3, Seed: 3, Data: data})
			file := filepath.Join(t.TempDir(), "half.safetensors")
			first := trainGPT(t, model, fields, training.Options{Steps: 4, LR: 1e-3, Seed: 3, Data: data, Save: file})
			second := trainGPT(t, model, fields, training.Options{Steps: 4, LR: 1e-3, Seed: 3, Data: data, Resume: file})
			if got := append(first.Losses, second.Losses...); !slices.Equal(got, whole.Losses) {
				t.Errorf("losses %v, not %v", got, whole.Losses)
			}
		})
	}
}

// TestMicroBatches: two halves of a batch make the step of the whole.
func TestMicroBatches(t *testing.T) {
	model, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 32, Heads: 2, Vocab: 64})
	whole := trainGPT(t, model, map[string]string{"clip_norm": "0.5"}, training.Options{Steps: 3, LR: 1e-3, Data: data})
	// settingsFor says batch=4; the halves say batch=2 themselves.
	m, err := Open(model, settingsFor(t, map[string]string{"clip_norm": "0.5", "accumulate": "2"}))
	if err != nil {
		t.Fatal(err)
	}
	m.Config.Dims = map[string]int64{"batch": 2, "seq": 32}
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	halves, err := Run(m, p, training.Options{Steps: 3, LR: 1e-3, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range whole.Losses {
		if math.Abs(l-halves.Losses[i]) > 1e-4*math.Abs(l) {
			t.Errorf("step %d: loss %v of the whole batch, %v of two halves", i, l, halves.Losses[i])
		}
	}
}
