package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestOneRow: a setting is one row and its field. One that is made up, put into the
// sources so and in no other way, is found as a flag with its help and completion, in the
// environment, in files and their schema, in what other commands answer, in the
// service's map, and as a keyword of Python with a type and a docstring.
func TestOneRow(t *testing.T) {
	root := absolute(t, "../..")
	python := os.Getenv("MEMOPT_PYTHON")
	if python == "" {
		out, err := exec.Command(filepath.Join(root, ".ci", "python"), "--where").Output()
		if python = strings.TrimSpace(string(out)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	replaced := map[string]string{}
	insert := func(file, before, text string) {
		t.Helper()
		path := filepath.Join(root, "configs", file)
		src, err := os.ReadFile(path)
		if err != nil || strings.Count(string(src), before) != 1 {
			t.Fatalf("%s has no place before %q (%v)", file, before, err)
		}
		replaced[path] = filepath.Join(dir, file)
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(src), before, text+before, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	insert("config.go", "\tServiceBudget", "\tMadeUp string\n")
	insert("table.go", "\t\trow(\"seed\"", "\t\trow(\"made_up\", func(c *Config) *string { return &c.MadeUp }, choice([]string{\"little\", \"much\"}, nil), \"little\", drawing, \"How much is made up.\"),\n")
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary, pkg := filepath.Join(dir, "memopt"), filepath.Join(dir, "python", "memopt")
	must := func(c *exec.Cmd) string {
		t.Helper()
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", c, err, &errs)
		}
		return out.String() + errs.String()
	}
	in := func(folder, name string, args ...string) *exec.Cmd {
		c := exec.Command(name, args...)
		c.Dir = folder
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "MEMOPT_") && !strings.HasPrefix(v, "ORTMODULE_") {
				c.Env = append(c.Env, v)
			}
		}
		return c
	}
	must(in(root, "go", "build", "-overlay", overlay, "-o", binary, "./cmd/memopt"))
	if err := os.CopyFS(pkg, os.DirFS(filepath.Join(root, "plugin", "python", "memopt"))); err != nil {
		t.Fatal(err)
	}
	must(in(filepath.Join(root, "plugin"), "go", "run", "-overlay", overlay, "./internal/gen", "settings", filepath.Join(pkg, "_settings.py")))

	memopt := func(args ...string) *exec.Cmd { return in(dir, binary, args...) }
	must(memopt(strings.Fields(smallMLP)[0:]...))
	if err := os.WriteFile(filepath.Join(dir, "c.json"), []byte(`{"made_up": "much"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	has := func(where, text, want string) {
		t.Helper()
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%s: no %q in\n%s", where, want, text)
		}
	}
	has("help", must(memopt("plan", "--help")), "--made-up little|much How much is made up. (default little)")
	has("completion", must(memopt("completion", "fish")), "-l made-up -r -f -a 'little much' -d 'How much is made up. (default little)'")
	has("flag", must(memopt("plan", "m.onnx", "--dims", "batch=2", "--made-up", "much")), "setting made_up = much (--made-up)")
	has("file", must(memopt("plan", "m.onnx", "--dims", "batch=2", "--config", "c.json")), "setting made_up = much (c.json:1:13)")
	env := memopt("plan", "m.onnx", "--dims", "batch=2")
	env.Env = append(env.Env, "MEMOPT_MADE_UP=much")
	has("environment", must(env), "setting made_up = much (MEMOPT_MADE_UP)")
	schema := gjson.Get(must(memopt("config", "--schema")), "anyOf.1.properties.made_up")
	if schema.Get("enum.1").String() != "much" || schema.Get("description").String() != "How much is made up. (default little)" {
		t.Errorf("schema: %s", schema)
	}
	wrong, _ := memopt("plan", "m.onnx", "--made-up", "mch").CombinedOutput()
	has("mistake", string(wrong), `--made-up: "mch" is not known, did you mean much?`)
	other, _ := memopt("check", "p.json", "m.onnx", "--made-up", "much").CombinedOutput()
	has("another command", string(other), "--made-up: memopt check does not use it, plan and train do")

	code := in(dir, python, "-c", `
import inspect, memopt
from memopt._settings import PlanSettings
print(inspect.signature(memopt.plan).parameters["made_up"].annotation)
print(PlanSettings.__annotations__["made_up"].__forward_arg__)
print(inspect.getdoc(memopt.plan))
print(memopt.plan("m.onnx", dims={"batch": 2}, made_up="much").text)
try:
    memopt.plan("m.onnx", dims={"batch": 2}, made_up="mch")
except memopt.MemoptError as e:
    print(e)
`)
	code.Env = append(code.Env, "PYTHONPATH="+filepath.Join(dir, "python"), "MEMOPT_PLUGIN_PATH="+binary, "PYTHONDONTWRITEBYTECODE=1")
	out := must(code)
	for where, want := range map[string]string{
		"Python's keyword":  `Literal['little', 'much'] | None Literal['little', 'much'] | None`,
		"docstring":         "made_up How much is made up. (default little)",
		"the service's map": "setting made_up = much (made_up)",
		"Python's mistake":  `made_up: "mch" is not known, did you mean much? Use little or much`,
	} {
		has(where, out, want)
	}
}
