package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"memopt/internal/onnx"
	"memopt/kernels"
)

// evil is what every name holds: what steers a terminal, turns text around, is
// not seen, ends a line, and begins one that looks like ours. Without NUL and /
// it may be a file's name.
const evil = "\x1b[2J\r\n\t\b\x7f\u0085\u009b31m\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\ufe0f\U000e0041\nEVIL"

// evilDim is as long as the name that it takes the place of.
const evilDim = "\u202eba"

// hostileModel writes a model all of whose names are evil, data for it, and a
// file that maps what they were to what they are.
func hostileModel(t *testing.T, path string) {
	t.Helper()
	g, source, err := onnx.Open("m.onnx", kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	g.Name += evil
	for _, v := range g.Values {
		v.Name += evil
	}
	for _, n := range g.Nodes {
		n.Name += evil
	}
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	source.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte("batch")) || len(evilDim) != len("batch") {
		t.Fatal("the model has no dim batch")
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte("batch"), []byte(evilDim)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shows reports what a text has that must not be shown.
func shows(text []byte) error {
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("EVIL")) {
			return fmt.Errorf("a name that begins the line %q", line)
		}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n' || r == '\t':
		case r < ' ', 0x7f <= r && r < 0xa0, r == utf8.RuneError && size == 1, strings.ContainsRune(evil, r) && r > '~':
			return fmt.Errorf("%U in %q", r, text[max(0, i-40):min(len(text), i+40)])
		}
		i += size
	}
	return nil
}

// TestHostileNames: no command shows what names hold, on standard output, on
// standard error or in a file that is for a screen; JSON has the names as they are.
func TestHostileNames(t *testing.T) {
	alone(t, smallMLP+" --data d.npz --samples 8")
	folder := "f" + evil
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(folder, "m"+evil+".onnx")
	hostileModel(t, model)
	at := func(name string) string { return filepath.Join(folder, name) }
	dims := evilDim + "=2"
	csv := at("p.csv")
	if err := os.WriteFile(csv, []byte("id,lower,upper,size\n\"a"+evil+"\",0,2,8\n\"b"+evil+"\",1,3,8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	badCSV := at("bad.csv")
	if err := os.WriteFile(badCSV, []byte("id,lower,upper,size\n\"a"+evil+"\",0,2,\"8"+evil+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := at("c.json")
	name, _ := json.Marshal("x" + evil)
	if err := os.WriteFile(config, []byte(`{"loss": `+string(name)+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MEMOPT_"+evil[strings.LastIndex(evil, "\n")+1:]+"\u202e", "x"+evil)
	for _, args := range [][]string{
		{"plan", model},
		{"plan", model, "--dims", dims, "-o", at("p.json"), "--html", at("p.html"), "--emit", at("e.onnx"), "--show", strings.Join(stageNames(), ",")},
		{"plan", model, "--dims", dims, "--budget", "1KiB"},
		{"plan", model, "--dims", dims, "--budget", "1KiB", "--format", "json"},
		{"plan", model, "--dims", dims, "--level", "2", "--log-level", "debug", "-o", at("q.json")},
		{"plan", model, "--dims", dims, "--format", "json"},
		{"plan", model, "--dims", dims, "--loss", "x" + evil},
		{"plan", model, "--dims", dims, "--trainable", "x" + evil},
		{"plan", model, "--dims", dims, "--config", config},
		{"plan", model, "--dims", dims, "--config", "none" + evil},
		{"plan", model, "--dims", "x" + evil + "=2"},
		{"plan", model + "none"},
		{"plan", folder},
		{"plan", model, "--dims", dims, "-o", at("none" + evil + "/p")},
		{"plan", model, "--dims", dims, "-o", model},
		{"plan", model, evil},
		{"plan", model, "--flag" + evil},
		{evil},
		{"frontier", model, "--dims", dims, "--svg", at("f.svg")},
		{"frontier", model, "--dims", dims, "--format", "json"},
		{"maxbatch", model, "--dim", evilDim, "--budget", "2MiB"},
		{"maxbatch", model, "--dim", "x" + evil, "--budget", "2MiB"},
		{"train", model, "--dims", dims, "--steps", "2", "--save", at("s.safetensors"), "--html", at("t.html"), "--log-level", "debug"},
		{"train", model, "--dims", dims, "--steps", "1", "--resume", at("s.safetensors"), "--format", "json"},
		{"train", model, "--dims", dims, "--dump", at("g.npz")},
		{"train", model, "--dims", dims, "--check", at("g.npz")},
		{"train", model, "--dims", dims, "--check", at("g.npz"), "--format", "json"},
		{"train", model, "--dims", dims, "--check", "d.npz"},
		{"train", model, "--dims", dims, "--data", "d.npz"},
		{"train", model, "--dims", dims, "--data", csv},
		{"train", model, "--dims", dims, "--resume", model},
		{"train", "m.onnx", "--dims", "batch=2", "--resume", at("s.safetensors")},
		{"train", model, "--dims", dims, "--lossy", "bf16", "--steps", "2"},
		{"train", model, "--dims", dims, "--record", at("r.json"), "--steps", "2"},
		{"plan", model, "--dims", dims, "--profile", at("r.json")},
		{"plan", model, "--dims", dims, "--profile", csv},
		{"check", at("p.json"), model},
		{"check", at("p.json"), "m.onnx"},
		{"check", csv, model},
		{"explain", at("p.json"), "--html", at("x.html")},
		{"explain", at("p.json"), "--format", "json"},
		{"explain", at("p.json"), "--node", "fc1" + evil},
		{"explain", at("p.json"), "--node", "fc2" + evil},
		{"diff", at("p.json"), at("q.json")},
		{"export", at("p.json"), "--to", "ort"},
		{"export", at("p.json"), "--to", "ort", "-o", at("o" + evil + ".json")},
		{"export", at("p.json"), "--to", "pytorch"},
		{"export", at("p.json"), "--to", "jax"},
		{"export", at("p.json"), "--to", "jax", "-o", at("j.py")},
		{"export", at("p.json"), "--to", evil},
		{"optimize", model, "-o", at("o.onnx")},
		{"pack", csv, "--svg", at("p.svg")},
		{"pack", csv, "--format", "json", "-o", at("packed.csv")},
		{"pack", badCSV},
		{"config", "--config", config},
		{"config"},
		{"doctor"},
		{"ops", "--verify", folder},
		{"bench", "planner", "--with", csv, "--quick", "--only", "x" + evil},
		{"completion", "x" + evil},
		{"new", "x" + evil, "-o", at("n.onnx")},
	} {
		var out, text bytes.Buffer
		code := run(append([]string{"memopt"}, args...), &out, &text)
		call := strings.ReplaceAll(strings.Join(args, " "), evil, "~")
		for which, b := range map[string]*bytes.Buffer{"output": &out, "error": &text} {
			if err := shows(b.Bytes()); err != nil {
				t.Errorf("%s: exit code %d: standard %s has %v", call, code, which, err)
			}
		}
		if last := args[len(args)-1]; last == "json" && code == 0 && args[0] != "pack" && !json.Valid(out.Bytes()) {
			t.Errorf("%s: standard output is no JSON", call)
		}
	}
	for _, name := range []string{"p.json", "q.json", "p.html", "t.html", "x.html", "f.svg", "p.svg", "r.json", "o" + evil + ".json", "j.py"} {
		data, err := os.ReadFile(at(name))
		if err != nil {
			t.Error(err)
		} else if err := shows(data); err != nil {
			t.Errorf("%q has %v", name, err)
		}
	}
	data, err := os.ReadFile(at("p.json"))
	var file struct{ Saved []string }
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil || len(file.Saved) == 0 || !strings.HasSuffix(file.Saved[0], evil) {
		t.Errorf("the plan's JSON does not name values as the model does: %q (%v)", file.Saved, err)
	}
}
