package memopt

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/step"
	"memopt/planner"
)

// optimized are the forward nodes of the test models as exported, cleaned and
// fused, and how many of the fused ones there are.
var optimized = map[string]struct {
	off, clean, fuse int
	fused            string
}{
	"mlp/model.onnx":         {6, 6, 6, ""},
	"mlp/model_dyn.onnx":     {6, 6, 6, ""},
	"resnet8/model.onnx":     {31, 31, 31, ""},
	"gpt2-2L/model.onnx":     {97, 95, 66, "2 Gelu, 2 Transpose, 5 FusedMatMul, 2 SafeSoftmax"},
	"gpt2-2L/model_raw.onnx": {139, 96, 67, "2 Gelu, 2 Transpose, 5 FusedMatMul, 2 SafeSoftmax"},
	"gpt2-2L/model_dyn.onnx": {135, 131, 102, "2 Gelu, 2 Transpose, 5 FusedMatMul, 2 SafeSoftmax"},
	"bert-2L/model.onnx":     {101, 101, 70, "2 Transpose, 3 BiasGelu, 18 FusedMatMul, 2 SafeSoftmax"},
	"bert-2L/model_raw.onnx": {112, 103, 72, "2 Transpose, 3 BiasGelu, 18 FusedMatMul, 2 SafeSoftmax"},
	"bert-2L/model_dyn.onnx": {110, 109, 78, "2 Transpose, 3 BiasGelu, 18 FusedMatMul, 2 SafeSoftmax"},
}

// TestOptimize: at every level loss and gradients are PyTorch's, and each
// level keeps no more than the one before.
func TestOptimize(t *testing.T) {
	eachModel(t, func(t *testing.T, path, reference string, c configs.Config) {
		want := optimized[strings.TrimPrefix(path, "testdata/models/")]
		nodes := map[string]int{"off": want.off, "clean": want.clean, "fuse": want.fuse}
		var peak int64
		for _, level := range []string{"off", "clean", "fuse"} {
			c.Optimize, c.Strategy = level, "keep-all"
			m, err := Open(path, c)
			if err != nil {
				t.Fatal(err)
			}
			if level != "off" && (m.Passes.Before != want.off || m.Passes.After != nodes[level]) {
				t.Errorf("%s: %d nodes became %d, not %d and %d", level, m.Passes.Before, m.Passes.After, want.off, nodes[level])
			}
			var fused []string
			for _, p := range m.Passes.Passes {
				for _, made := range p.Made {
					if p.Name == "fuse" {
						_, name, ok := strings.Cut(made.Op, "com.microsoft.")
						if !ok {
							name = strings.TrimPrefix(made.Op, "memopt.")
						}
						fused = append(fused, fmt.Sprintf("%d %s", made.Count, name))
					}
				}
			}
			if got := strings.Join(fused, ", "); level == "fuse" && got != want.fused {
				t.Errorf("fused %q, not %q", got, want.fused)
			}
			check, err := checked(m, reference)
			if err != nil {
				t.Fatal(err)
			}
			if !(check.LossRelErr <= 1e-6) || !(check.Worst.RelErr <= 1e-4) || len(check.Missing) > 0 {
				t.Errorf("%s: loss differs by %.2e, worst gradient %q by %.2e, missing %v",
					level, check.LossRelErr, check.Worst.Name, check.Worst.RelErr, check.Missing)
			}
			if peak > 0 && check.Plan.Result.Peak > peak {
				t.Errorf("%s: the peak is %d, and was %d", level, check.Plan.Result.Peak, peak)
			}
			peak = check.Plan.Result.Peak
		}
	})
}

// TestFusedClusters: ONNX Runtime's names of clusters appear from a plain
// PyTorch export.
func TestFusedClusters(t *testing.T) {
	m, err := Open("testdata/models/bert-2L/model.onnx", configs.Default())
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(m.Graph, planner.Request{Strategy: "keep-all"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Tabulate(); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, r := range p.Clusters {
		found[r.ID] = r.Freq
	}
	for id, freq := range map[string]int{"BiasGelu+": 3, "LayerNormalization+": 6} {
		if found[id] != freq {
			t.Errorf("cluster %s is there %d times, not %d; there are %v", id, found[id], freq, found)
		}
	}
}

// TestUnfolds: norms that took their sums in for other runtimes are planned as if they had
// not.
func TestUnfolds(t *testing.T) {
	const plain = "testdata/models/bert-2L/model.onnx"
	fused := filepath.Join(t.TempDir(), "fused.onnx")
	if _, err := step.Optimize(plain, fused, configs.Default()); err != nil {
		t.Fatal(err)
	}
	c := configs.Default()
	c.ActivationBudget.Percent = 40
	var costs [2]float64
	for i, path := range []string{plain, fused} {
		m, err := Open(path, c)
		if err != nil {
			t.Fatal(err)
		}
		unfolded := strings.Contains(m.Passes.String(), "unfold")
		if unfolded != (path == fused) {
			t.Errorf("%s: %s", path, m.Passes)
		}
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		costs[i], _ = p.Cost()
	}
	if costs[0] != costs[1] {
		t.Errorf("a plan costs %v, and %v of what was fused", costs[0], costs[1])
	}
}

// TestOptimizeNamedLoss: a loss that is named need not be an output, and stays
// what it is called.
func TestOptimizeNamedLoss(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 4] = input
w f32[4, 4] = param
h = MatMul(x, w)
mean = ReduceMean(h) keepdims=0
inner = Identity(mean)
two f32[] = const {2}
y = Mul(inner, two)
output y
`)
	if err != nil {
		t.Fatal(err)
	}
	g.ByName("w").Data = graph.Bytes(make([]byte, 64))
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	for _, loss := range []string{"inner", "mean", "y"} {
		c := configs.Default()
		c.Loss = loss
		m, err := Open(path, c)
		if err != nil {
			t.Fatal(err)
		}
		if m.Graph.Loss.Name != loss {
			t.Errorf("the loss is %q, not %q", m.Graph.Loss.Name, loss)
		}
	}
}

// TestOptimizeTrained: a number that is to be trained is no constant.
func TestOptimizeTrained(t *testing.T) {
	const path = "testdata/models/bert-2L/model.onnx"
	plain, err := Open(path, configs.Default())
	if err != nil {
		t.Fatal(err)
	}
	c := configs.Default()
	c.Trainable = []string{"*", "val_66"} // a factor, under a name that the exporter made up
	all, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Graph.Updates) <= len(plain.Graph.Updates) {
		t.Errorf("%d parameters are trained if all are, %d otherwise", len(all.Graph.Updates), len(plain.Graph.Updates))
	}
	for _, u := range plain.Graph.Updates {
		if all.Graph.ByName(u.State.Name) == nil {
			t.Errorf("%q is gone", u.State.Name)
		}
	}
}

// TestOptimizeAsRead: a layer that is planned as products and a recurrence of our own is
// written as the layer that it was, and planned as before; what stays ours is told.
func TestOptimizeAsRead(t *testing.T) {
	dir := t.TempDir()
	optimize := func(lib *graph.Library, text string) (step.Optimized, string, string) {
		t.Helper()
		g, err := graph.Parse(lib, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Values {
			if v.Kind == graph.Param {
				n, _ := v.Bytes().Const()
				v.Data = graph.Bytes(bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, int(n)/8+1)[:n]) // zeros would be a mask
			}
		}
		from, to := filepath.Join(dir, "in.onnx"), filepath.Join(dir, "out.onnx")
		if err := onnx.Write(from, g); err != nil {
			t.Fatal(err)
		}
		o, err := step.Optimize(from, to, configs.Merge())
		if err != nil {
			t.Fatal(err)
		}
		return o, from, to
	}
	o, from, to := optimize(kernels.AsRead(), `
x f32[t, b, 4] = input
w f32[1, 12, 4] = param
r f32[1, 12, 3] = param
_, h = LSTM(x, w, r) hidden_size=3
s = ReduceMean(h) keepdims=0
output s
`)
	if o.InFile != 2 || o.Before != 2 || o.After != 2 || o.Warnings != nil {
		t.Errorf("a layer and its mean: %+v", o)
	}
	written, err := onnx.ReadOutline(to)
	if err != nil {
		t.Fatal(err)
	}
	if op := written.Nodes[0].Op; op != "LSTM" {
		t.Errorf("the layer is written as %s", op)
	}
	c := configs.Merge()
	c.Dims = map[string]int64{"t": 5, "b": 2}
	_, before := planned(t, from, c)
	_, after := planned(t, to, c)
	if before.Graph.Fingerprint() != after.Graph.Fingerprint() {
		t.Errorf("the layer is planned as another:\n%s\n%s", before.Graph, after.Graph)
	}

	o, _, _ = optimize(kernels.Library, `
x f32[t, b, 9] = input
r f32[9, 3] = param
h = memopt.Recurrence(x, r) cell="gru"
s = ReduceMean(h) keepdims=0
output s
`)
	if want := "out.onnx has operators that other runtimes do not know: memopt.Recurrence; for those, keep in.onnx as it is"; len(o.Warnings) != 1 || o.Warnings[0] != want {
		t.Errorf("warnings: %q", o.Warnings)
	}

	o, _, _ = optimize(kernels.Library, `
x f32[b, 4] = input
w f32[4, 4] = param
h = MatMul(x, w)
m f32[b, 4] = input
p = com.microsoft.BiasSoftmax(h, m) axis=1
s = ReduceMean(p) keepdims=0
output s
`)
	if o.Warnings != nil {
		t.Errorf("ONNX Runtime has BiasSoftmax: %q", o.Warnings)
	}
}
