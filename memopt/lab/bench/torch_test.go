package bench

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fakeTorch is a Python that prints the script's answers.
func fakeTorch(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat <<'END'\n"+lines+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTorchModels: the command and the script have the same models.
func TestTorchModels(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^    "([^"]+)": \w+,$|"([^"]+)": \w+[,}]`)
	table := regexp.MustCompile(`(?ms)^(?:SMALL|LARGE|MODELS): [^\n]* = \{.*?\}$`)
	var have []string
	for _, name := range []string{"families", "speed"} {
		text, err := torchFiles.ReadFile("torch/" + name + ".py")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range table.FindAllString(string(text), -1) {
			for _, m := range entry.FindAllStringSubmatch(block, -1) {
				have = append(have, m[1]+m[2])
			}
		}
	}
	want := TorchModels()
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the script has %q, the command knows %q", have, want)
	}
}

const torchLines = `{"version": "2.15.0"}
{"says": "vit: times"}
{"result": {"model": "vit", "blocks": 4, "rows": [
 {"kind": "eager", "name": "eager", "measured": 1000000, "flops": 100, "cpu_ms": 10, "ratio": 1},
 {"kind": "checkpoint", "name": "each block", "measured": 500000, "extra": 0.25, "cpu_ms": 14, "ratio": 1.4, "bits": true},
 {"kind": "checkpoint", "name": "first 1 of 4 blocks", "measured": 600000, "extra": 0.1, "cpu_ms": 12, "ratio": 1.2, "bits": true},
 {"kind": "knob", "name": "0.5", "asked": 500000, "measured": 550000, "extra": 0.01, "cpu_ms": 11, "ratio": 1.1, "bits": false, "wrong": ["the loss"], "error_of_values": 1.5},
 {"kind": "memopt", "name": "60 %", "asked": 600000, "promised": 600000, "measured": 600000, "extra_promised": 0.1, "extra": 0.1, "overhead": 0.1, "cpu_ms": 12, "ratio": 1.23, "bits": true},
 {"kind": "memopt", "name": "50 %", "asked": 500000, "promised": 499000, "measured": 500001, "extra_promised": 0.2, "extra": 0.3, "overhead": 0.05, "cpu_ms": 15, "ratio": 1.5, "bits": false, "wrong": ["the loss"]},
 {"kind": "memopt", "name": "40 %", "asked": 400000, "error": "RuntimeError: no"},
 {"kind": "memopt compiled", "name": "50 %", "asked": 500000, "promised": 400000, "measured": 400000, "extra": 0.1, "ratio": 1.1, "bits": false, "error_of_values": 1e-7}]}}`

// TestTorchBars: each promise has its own bar, and rivals are those that fit and compute the right
// gradients.
func TestTorchBars(t *testing.T) {
	var said []string
	lines := strings.Split(torchLines, "\n")
	one := strings.Join([]string{lines[0], lines[1], strings.Join(lines[2:], " ")}, "\n")
	r, err := Torch(TorchOptions{Only: []string{"vit"}, Python: fakeTorch(t, one), Progress: func(what string) { said = append(said, what) }})
	if err != nil {
		t.Fatal(err)
	}
	if r.PyTorch != "2.15.0" || len(r.Models) != 1 || !slices.Contains(said, "vit: times") {
		t.Fatalf("%+v, said %q", r, said)
	}
	rows := r.Models[0].Rows
	short := func(r TorchRow) (names []string) {
		for _, b := range r.Bars {
			if !b.Met {
				names = append(names, b.Name)
			}
		}
		return names
	}
	for i, want := range map[int][]string{
		4: nil,
		5: {"within the budget", "bits", "FLOPs promised", "monotone", "FLOPs", "time of checkpoint"},
		6: {"runs"},
		7: nil,
	} {
		if got := short(rows[i]); !slices.Equal(got, want) {
			t.Errorf("%s %s: short of %q, not of %q", rows[i].Kind, rows[i].Name, got, want)
		}
	}
	if rows[4].Checkpoint != "first 1 of 4 blocks" || rows[5].Checkpoint != "each block" || rows[4].Knob != "" {
		t.Errorf("rivals %q %q %q", rows[4].Checkpoint, rows[5].Checkpoint, rows[4].Knob)
	}
	var text strings.Builder
	r.Text(&text)
	for _, want := range []string{"vit: 976.56 KiB and 10 ms in eager mode", "wrong gradients", "short, memopt 50 %: within the budget: 1 B above; bits: [the loss]; FLOPs promised: +10.00 points", "10 of 17 bars are met", "RuntimeError: no"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}

// TestTorchRefuses: errors say how to install what is missing, and a model whose process fails is a
// row with the reason.
func TestTorchRefuses(t *testing.T) {
	var none *NoTorchError
	_, err := Torch(TorchOptions{Only: []string{"vit"}, Python: fakeTorch(t, `{"absent": "torch"}`)})
	if !errors.As(err, &none) || none.ExitCode() != 1 || !strings.Contains(err.Error(), "-m pip install torch") {
		t.Error(err)
	}
	if _, err = Torch(TorchOptions{Only: []string{"vit"}, Python: fakeTorch(t, `{"absent": "memopt"}`)}); err == nil || !strings.Contains(err.Error(), "pip install plugin/python") {
		t.Error(err)
	}
	if _, err = Torch(TorchOptions{Only: []string{"gtp2"}}); err == nil || !strings.Contains(err.Error(), "gpt2") {
		t.Error(err)
	}
	r, err := Torch(TorchOptions{Only: []string{"vit"}, Python: fakeTorch(t, `{"version": "2"}`)})
	if err != nil || r.Models[0].Error == "" {
		t.Errorf("%v: %+v", err, r)
	}
	if met, all := r.bars(); met != 0 || all != 1 {
		t.Errorf("%d of %d bars", met, all)
	}
}

// TestTorch runs a small model: promises are kept, and the file can be read.
func TestTorch(t *testing.T) {
	python := os.Getenv("MEMOPT_TORCH_PYTHON")
	if python == "" {
		t.Skip("MEMOPT_TORCH_PYTHON names no Python; .ci/peers makes one")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", filepath.Join(root, "plugin/python"))
	binary := filepath.Join(t.TempDir(), "memopt")
	if out, err := exec.Command("go", "build", "-o", binary, "memopt/cmd/memopt").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("MEMOPT_PLUGIN_PATH", binary)
	r, err := Torch(TorchOptions{Only: []string{"clip"}, Quick: true, Python: python})
	if err != nil {
		t.Fatal(err)
	}
	m := r.Models[0]
	kinds := map[string]int{}
	for _, row := range m.Rows {
		kinds[row.Kind]++
		if row.Error != "" || row.Measured == 0 || row.CPUMS <= 0 {
			t.Errorf("%+v", row)
		}
		if row.Kind == "memopt" && (row.Measured > row.Asked+1024 || row.Measured < row.Promised-1024) {
			t.Errorf("%s: asked for %d, promised %d, measured %d", row.Name, row.Asked, row.Promised, row.Measured)
		}
		for _, b := range row.Bars {
			if !b.Met && (b.Name == "bits" || strings.HasPrefix(b.Name, "FLOPs") || b.Name == "monotone") {
				t.Errorf("%s: %s: %s", row.Name, b.Name, b.Says)
			}
		}
	}
	if m.Error != "" || kinds["eager"] != 1 || kinds["checkpoint"] != 2 || kinds["knob"] != 1 || kinds["memopt"] < 2 {
		t.Errorf("%s, %v", m.Error, kinds)
	}
	data, err := json.Marshal(r.File(NewHead("torch", "memopt bench torch", "0")))
	var f AnyFile
	if err != nil || json.Unmarshal(data, &f) != nil || f.Torch == nil || len(f.Torch.Models[0].Rows) != len(m.Rows) {
		t.Errorf("%v: %s", err, data)
	}
}
