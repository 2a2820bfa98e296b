package memopt

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/memopt/training"
)

// halfModel is a model of float16 whose gradients are out of its range under
// the scale that is tried first, and in it under a smaller one.
func halfModel(t *testing.T, dir string) string {
	t.Helper()
	g, err := graph.Parse(kernels.Library, `
x f16[batch, 4] = input
target f16[batch, 3] = input
w f16[4, 3] = param
b f16[3] = param
h = MatMul(x, w)
y = Add(h, b)
d = Sub(y, target)
s = Mul(d, d)
l = ReduceMean(s) keepdims=0
output l
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w", "b"} {
		v := g.ByName(name)
		shape, err := (&graph.Binding{}).Shape(v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		x := graph.NewTensor(graph.Float16, shape...)
		for i := range x.Len() {
			x.SetFloat(i, float64(i%5)/4-0.5)
		}
		v.Data = graph.Bytes(x.Bytes)
	}
	path := filepath.Join(dir, "half.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := onnx.Encode(f, g); err != nil {
		t.Fatal(err)
	}
	return path
}

// halfData is n batches of two; those named are so large that their gradients
// overflow whatever the scale.
func halfData(t *testing.T, dir string, n int, wild ...int) string {
	t.Helper()
	x, y := graph.NewTensor(graph.Float16, 2*n, 4), graph.NewTensor(graph.Float16, 2*n, 3)
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i)))
		if slices.Contains(wild, i/8) {
			x.SetFloat(i, 60)
		}
	}
	for i := range y.Len() {
		y.SetFloat(i, math.Cos(float64(i)))
	}
	path := filepath.Join(dir, "half.npz")
	set := &tensorfile.Set{Names: []string{"x", "target"}, Tensors: map[string]*graph.Tensor{"x": x, "target": y}}
	if err := tensorfile.WriteNPZ(path, set); err != nil {
		t.Fatal(err)
	}
	return path
}

func runHalf(t *testing.T, model string, settings map[string]string, tr training.Options) *training.Result {
	t.Helper()
	all := map[string]string{"dims": "batch=2", "optimizer": "adamw", "loss_scale": "auto"}
	for k, v := range settings {
		all[k] = v
	}
	m, err := Open(model, lossScaleSettings(t, all))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	tr.LR = 0.01
	r, err := Run(m, p, tr)
	if err != nil {
		t.Fatal(err)
	}
	if r.Stopped != nil {
		t.Fatal(r.Stopped)
	}
	return r
}

func lossScaleSettings(t *testing.T, fields map[string]string) configs.Config {
	t.Helper()
	c := configs.Config{}
	for name, value := range fields {
		if err := c.Set(name, value, configs.Source{Origin: configs.OriginFlag, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return configs.Merge(c)
}

func checkpoint(t *testing.T, path string) *tensorfile.Set {
	t.Helper()
	set, _, err := tensorfile.ReadSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestLossScaleSkips: an update whose gradients overflow changes nothing but
// the scale, and the others go on as if it had not been.
func TestLossScaleSkips(t *testing.T) {
	for _, optimizer := range []string{"sgd", "momentum", "adam", "adamw", "lamb", "adagrad"} {
		t.Run(optimizer, func(t *testing.T) {
			dir := t.TempDir()
			model, data := halfModel(t, dir), halfData(t, dir, 6)
			settings := map[string]string{"optimizer": optimizer}
			r := runHalf(t, model, settings, training.Options{Steps: 6, Data: data, Save: filepath.Join(dir, "after")})
			// The seed 65536 is infinite in float16, so the first is left out.
			if len(r.Skipped) == 0 || r.Skipped[0] != 1 || len(r.Skipped) == 6 {
				t.Fatalf("steps %v of 6 were left out", r.Skipped)
			}
			if want := 65536 / math.Pow(2, float64(len(r.Skipped))); r.LossScale != want {
				t.Errorf("after %d halvings the scale is %v", len(r.Skipped), r.LossScale)
			}
			after := checkpoint(t, filepath.Join(dir, "after"))
			if got := after.Tensors[autograd.Step].Int(0); got != int64(6-len(r.Skipped)) {
				t.Errorf("%d updates are counted, %d were left out", got, len(r.Skipped))
			}
			// Up to the first good step nothing moves.
			runHalf(t, model, settings, training.Options{Steps: len(r.Skipped), Data: data, Save: filepath.Join(dir, "still")})
			m, _, err := onnx.Open(model, kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			still := checkpoint(t, filepath.Join(dir, "still"))
			for _, name := range still.Names {
				x := still.Tensors[name]
				if v := m.ByName(name); v != nil {
					was, err := v.Data.Bytes()
					if err != nil || !bytes.Equal(was, x.Bytes) {
						t.Errorf("parameter %s moved", name)
					}
				} else if name != autograd.Scale && !bytes.Equal(x.Bytes, make([]byte, len(x.Bytes))) {
					t.Errorf("state %s moved", name)
				}
			}
			// A scale that fits from the start does the same updates.
			fixed := map[string]string{"optimizer": optimizer, "loss_scale": fmt.Sprint(r.LossScale)}
			rest := runHalf(t, model, fixed, training.Options{Steps: 6, Data: data})
			if len(rest.Skipped) != 0 || rest.LossScale != r.LossScale {
				t.Errorf("under a fixed scale of %v: %v were left out, and it is %v", r.LossScale, rest.Skipped, rest.LossScale)
			}
		})
	}
}

// TestLossScaleMiddle: a wild batch in the middle leaves parameters, states and
// count where the step before left them.
func TestLossScaleMiddle(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"plain":              {},
		"clipped":            {"clip_norm": "0.5"},
		"micro-batches":      {"accumulate": "2"},
		"both, and a number": {"clip_norm": "0.5", "accumulate": "2", "loss_scale": "1024"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			micro := 1
			if settings["accumulate"] != "" {
				micro = 2
			}
			model := halfModel(t, dir)
			data := halfData(t, dir, 16*micro, 14*micro)
			run := func(steps int) (*training.Result, *tensorfile.Set) {
				save := filepath.Join(dir, fmt.Sprint(steps))
				return runHalf(t, model, settings, training.Options{Steps: steps, Data: data, Save: save}), checkpoint(t, save)
			}
			before, was := run(14)
			after, is := run(15)
			if len(after.Skipped) != len(before.Skipped)+1 || after.Skipped[len(after.Skipped)-1] != 15 {
				t.Fatalf("left out: %v, then %v", before.Skipped, after.Skipped)
			}
			for _, name := range is.Names {
				changes := name == autograd.Scale || name == autograd.GoodUpdates || len(name) > 12 && name[:12] == "accumulated."
				if same := bytes.Equal(is.Tensors[name].Bytes, was.Tensors[name].Bytes); !same && !changes {
					t.Errorf("%s moved", name)
				}
			}
			if auto := settings["loss_scale"] == ""; auto && after.LossScale != before.LossScale/2 || !auto && after.LossScale != 1024 {
				t.Errorf("the scale went from %v to %v", before.LossScale, after.LossScale)
			}
			if next, _ := run(16); len(next.Skipped) != len(after.Skipped) {
				t.Errorf("left out: %v, then %v", after.Skipped, next.Skipped)
			}
		})
	}
}

// TestLossScaleGrows: after a window of good updates the scale doubles; a run
// that is resumed ends where one in a single go does.
func TestLossScaleGrows(t *testing.T) {
	dir := t.TempDir()
	model, data := halfModel(t, dir), halfData(t, dir, 12)
	settings := map[string]string{"loss_scale_window": "2"}
	file := func(name string) string { return filepath.Join(dir, name) }
	whole := runHalf(t, model, settings, training.Options{Steps: 12, Data: data, Save: file("whole")})
	first := runHalf(t, model, settings, training.Options{Steps: 5, Data: data, Save: file("first")})
	second := runHalf(t, model, settings, training.Options{Steps: 7, Data: data, Resume: file("first"), Save: file("second")})
	if got := append(first.Skipped, second.Skipped...); !slices.Equal(got, whole.Skipped) || second.LossScale != whole.LossScale {
		t.Errorf("in two runs %v were left out and the scale is %v; in one %v and %v", got, second.LossScale, whole.Skipped, whole.LossScale)
	}
	if gaps := len(whole.Skipped); gaps < 2 || whole.Skipped[gaps-1]-whole.Skipped[0] == gaps-1 {
		t.Errorf("left out: %v; the scale did not grow back to where it overflows", whole.Skipped)
	}
	a, b := checkpoint(t, file("whole")), checkpoint(t, file("second"))
	for _, name := range a.Names {
		if !bytes.Equal(a.Tensors[name].Bytes, b.Tensors[name].Bytes) {
			t.Errorf("%s has other bits after a resumed run", name)
		}
	}
}

// TestLossScaleRoundsNothing: of float32 within its range, a power of two gives
// the same bits as no scale.
func TestLossScaleRoundsNothing(t *testing.T) {
	plain := map[string]string{"dims": "batch=16", "optimizer": "adamw"}
	scaled := map[string]string{"dims": "batch=16", "optimizer": "adamw", "loss_scale": "auto"}
	var saved []*tensorfile.Set
	for _, s := range []map[string]string{plain, scaled} {
		m, err := Open("testdata/models/mlp/model_dyn.onnx", lossScaleSettings(t, s))
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "saved")
		r, err := Run(m, p, training.Options{Steps: 3, LR: 0.01, Save: path})
		if err != nil || len(r.Skipped) > 0 {
			t.Fatal(err, r.Skipped)
		}
		saved = append(saved, checkpoint(t, path))
	}
	for _, name := range saved[0].Names {
		if !bytes.Equal(saved[0].Tensors[name].Bytes, saved[1].Tensors[name].Bytes) {
			t.Errorf("%s has other bits under a scale", name)
		}
	}
}
