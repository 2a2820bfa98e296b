package memopt

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/planfile"
)

// fused is parameters into which an exporter has multiplied the batch norm behind
// them, under their own names: the signature says that they are parameters.
var fused = map[string]string{"image.onnx": "conv1.weight"}

// givenBack is folded values of the exports, and the parameters that are trained in their place.
var givenBack = map[string]map[string]string{"text.onnx": textFolds, "text-inputs.onnx": textFolds}

var textFolds = map[string]string{
	"alias": "pos", "val_2": "attn.qkv.weight", "val_43": "proj.weight", "val_45": "mix.weight", "val_46": "frozen.weight", "val_48": "head.weight",
}

// eachExport gives every real export, and what its float initializers depend on.
func eachExport(t *testing.T, f func(t *testing.T, path string, kinds map[string]string)) {
	src, err := os.ReadFile("testdata/exports/exports.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Models map[string]map[string]string }
	if err := json.Unmarshal(src, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Models) == 0 {
		t.Fatal("there are no exports")
	}
	for _, name := range slices.Sorted(maps.Keys(all.Models)) {
		kinds := all.Models[name]
		if v := fused[name]; v != "" {
			kinds[v] = "parameter"
		}
		for folded, of := range givenBack[name] {
			kinds[of] = kinds[folded]
			delete(kinds, folded)
		}
		t.Run(name, func(t *testing.T) { f(t, filepath.Join("testdata", "exports", name), kinds) })
	}
}

func opened(t *testing.T, path string, settings map[string]string) *step.Model {
	t.Helper()
	c := configs.Default()
	for name, value := range settings {
		if err := c.Set(name, value, configs.Source{Origin: configs.OriginFlag, Name: "--" + name}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestTrainsWhatTheFileSays: of real exports, what depends on parameters alone is
// trained, what depends on a buffer is not, and neither by its numbers.
func TestTrainsWhatTheFileSays(t *testing.T) {
	eachExport(t, func(t *testing.T, path string, kinds map[string]string) {
		got := opened(t, path, nil).Trains()
		for name, kind := range kinds {
			_, in := slices.BinarySearch(slices.Sorted(slices.Values(got.Names)), name)
			if want := kind == "parameter"; in != want {
				t.Errorf("%s depends on a %s, but is trained: %v", name, kind, in)
			}
			if kind == "buffer" && !slices.Contains(got.Buffers, name) && !slices.Contains(got.Statistics, name) &&
				!slices.Contains(got.Unused, name) {
				t.Errorf("%s is not listed as a buffer: %s", name, got)
			}
		}
		if len(got.Frozen)+len(got.Others)+len(got.Added) > 0 || got.Parameters != len(got.Names) {
			t.Errorf("%+v", got)
		}
	})
}

// TestTrainsAsNamed: settings, and a file of names, correct what the file says.
func TestTrainsAsNamed(t *testing.T) {
	const path = "testdata/exports/text-plain.onnx"
	dir := t.TempDir()
	lines, array := filepath.Join(dir, "names.txt"), filepath.Join(dir, "names.json")
	for file, text := range map[string]string{lines: "\ufeff# the author froze these\nfrozen.weight\n\n  frozen.bias  \n", array: `["head.weight", "pos"]`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ trainable, frozen, want string }{
		{"", "frozen.*", "trains 11 parameters (2,052 B); not trained: 3 buffers (feature_mean, attn.bias, rotary.inv_freq), 2 named frozen (frozen.weight, frozen.bias)"},
		{"", "@" + lines, "trains 11 parameters (2,052 B); not trained: 3 buffers (feature_mean, attn.bias, rotary.inv_freq), 2 named frozen (frozen.weight, frozen.bias)"},
		{"!@" + lines, "", "trains 11 parameters (2,052 B); not trained: 3 buffers (feature_mean, attn.bias, rotary.inv_freq), 2 named frozen (frozen.weight, frozen.bias)"},
		{"@" + array, "", "trains 2 parameters (544 B); not trained: 3 buffers (feature_mean, attn.bias, rotary.inv_freq), 11 not named trainable (cls, logit_scale, ln.weight, …)"},
		{"!frozen.*,rotary.inv_freq", "", "trains 12 parameters (2,060 B), 1 named buffer among them (rotary.inv_freq); not trained: 2 buffers (feature_mean, attn.bias), 2 named frozen (frozen.weight, frozen.bias)"},
		{"", "frozen.*,!frozen.bias", "trains 12 parameters (2,084 B); not trained: 3 buffers (feature_mean, attn.bias, rotary.inv_freq), 1 named frozen (frozen.weight)"},
	} {
		settings := map[string]string{}
		if c.trainable != "" {
			settings["trainable"] = c.trainable
		}
		if c.frozen != "" {
			settings["frozen"] = c.frozen
		}
		m := opened(t, path, settings)
		if got := m.Trains().String(); got != c.want {
			t.Errorf("trainable %q, frozen %q:\n%s\nnot\n%s", c.trainable, c.frozen, got, c.want)
		}
		// A plan file has the names, not the name of the file that held them.
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		plan := filepath.Join(dir, "plan.json")
		if err := planfile.Of(p, m.Path).Save(plan); err != nil {
			t.Fatal(err)
		}
		src, err := os.ReadFile(plan)
		if err != nil || strings.Contains(string(src), dir) {
			t.Errorf("the plan names a file of names: %v", err)
		}
		back, err := LoadPlan(t.Context(), plan, path, configs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if !back.Trains.Equal(p.Trains) {
			t.Errorf("read back, the plan %s", back.Trains)
		}
		wrong := strings.Replace(string(src), `"parameters": `, `"parameters": 1`, 1)
		if err := os.WriteFile(plan, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadPlan(t.Context(), plan, path, configs.Config{}); err == nil {
			t.Error("a plan that says it trains more than it does is taken")
		}
	}
	for setting, want := range map[string]string{
		"frozen.wight":  `did you mean "frozen.weight"?`,
		"rotary.*":      `it matches the buffer "rotary.inv_freq", which is trained only under its full name`,
		"@" + dir:       "is not a regular file",
		"@nowhere.txt":  "no such file",
		"pos,nothing.*": `trainable "nothing.*" matches no parameter; there are`,
	} {
		c := configs.Default()
		if err := c.Set("trainable", setting, configs.Source{Origin: configs.OriginFlag, Name: "--trainable"}); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trainable %q: %v, not %q", setting, err, want)
		}
	}
}

// TestDoubts: what a file does not say of its initializers is told.
func TestDoubts(t *testing.T) {
	for file, want := range map[string][]string{
		"text.onnx":       {"the file does not say where: logit_scale;"},
		"text-older.onnx": {"the file does not say what onnx::Add_201 was folded from; trained as parameters, unless --frozen names them"},
		"image.onnx":      {"the exporter made one of conv1 and bn1", "original0, normed.parametrizations.weight.original1;"},
	} {
		warnings := strings.Join(opened(t, filepath.Join("testdata", "exports", file), nil).UnclearRoles(), "\n")
		for _, w := range want {
			if !strings.Contains(warnings, w) {
				t.Errorf("%s: no %q in\n%s", file, w, warnings)
			}
		}
	}
	shared := opened(t, "testdata/exports/shared-older.onnx", map[string]string{"loss": "mse"}).UnclearRoles()
	if len(shared) != 1 || !strings.Contains(shared[0], "several modules read norm1.weight, norm1.bias, which") {
		t.Errorf("%q", shared)
	}
	if w := opened(t, "testdata/exports/text-older.onnx", map[string]string{"frozen": "onnx::Add_201"}).UnclearRoles(); len(w) > 0 {
		t.Errorf("what is named is no doubt: %s", w)
	}
}

// TestTrainsInAPlan: the plan says it, as every other form of the step does.
func TestTrainsInAPlan(t *testing.T) {
	var first *planner.Trains
	for _, budget := range []string{"100%", "90%", "70%"} {
		m := opened(t, "testdata/exports/text.onnx", map[string]string{"activation_budget": budget})
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = p.Trains
		}
		if !p.Trains.Equal(first) || p.Trains.Parameters != 13 || len(p.Trains.Folded) != 1 {
			t.Errorf("at %s it %s, not %s", budget, p.Trains, first)
		}
	}
}
