package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/memopt/exit"
	"memopt/plugin"
)

// alone is a test in a folder of its own, without the settings of whoever runs it,
// behind some commands.
func alone(t testing.TB, commands ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "MEMOPT_") || strings.HasPrefix(name, "ORTMODULE_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	for _, line := range commands {
		var out, err bytes.Buffer
		if run(append([]string{"memopt"}, strings.Fields(line)...), &out, &err) != 0 {
			t.Fatalf("%s: %s", line, err.String())
		}
	}
}

// smallMLP makes a model that is planned at once.
const smallMLP = "new mlp -o m.onnx --width 128 --inputs 4 --classes 3 --layers 1"

// with is settings of a request: dims, and others by name.
func with(dims string, more ...string) map[string]string {
	all := map[string]string{"dims": dims}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// withExternalData writes a model anew with its weights in a file beside it.
func withExternalData(t *testing.T, from, to string) {
	t.Helper()
	g, _, err := onnx.Open(from, kernels.Library)
	if err == nil {
		err = onnx.Write(to, g, onnx.External)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestServiceUnmapsModels: however a request ends, the service maps no more than
// before it.
func TestServiceUnmapsModels(t *testing.T) {
	trainers := absolute(t, "../../memopt/testdata/ort/mlp.onnx")
	alone(t, smallMLP)
	withExternalData(t, "m.onnx", "beside.onnx")
	batch := func(more ...string) map[string]string { return with("batch=2", more...) }
	for name, r := range map[string]plugin.Question{
		"a plan":        {Model: "m.onnx", Settings: batch()},
		"external data": {Model: "beside.onnx", Settings: batch()},
		"everything":    {Model: "m.onnx", Settings: batch(), SaveTo: "p.json", Emit: "e.onnx", HTML: "p.html", Show: stageNames()},
		"other forms":   {Model: "m.onnx", Settings: batch("activation_budget", "95%")},
		"a trainer's":   {Model: trainers, Settings: with("ids_dim0=2,x_dim1=8"), Emit: "t.onnx", Caller: plugin.Caller{Environment: map[string]string{"ORTMODULE_MEMORY_OPT_LEVEL": "1"}}},
		"too little":    {Model: "m.onnx", Settings: batch("budget", "1KiB")},
		"no dims":       {Model: "m.onnx"},
		"no such loss":  {Model: "m.onnx", Settings: batch("config", `{"loss": "none"}`)},
		"no such name":  {Model: "m.onnx", Settings: batch("config", `{"trainable": ["none"]}`)},
		"no folder":     {Model: "m.onnx", Settings: batch(), HTML: "none/p.html"},
	} {
		before := weights.Snapshot()
		_, err := front{}.Plan(t.Context(), r)
		if after := weights.Snapshot(); after.Mapped != before.Mapped || after.Blocks != before.Blocks {
			t.Errorf("%s (error %v): %d bytes and %d blocks are still mapped", name, err, after.Mapped-before.Mapped, after.Blocks-before.Blocks)
		}
	}
}

// TestServiceSparesWhatItReads: a request that would write over its model, the
// model's weights or its settings, or write two files to one place, is refused in
// the command line's words, and nothing is written.
func TestServiceSparesWhatItReads(t *testing.T) {
	alone(t, smallMLP)
	withExternalData(t, "m.onnx", "beside.onnx")
	if err := os.WriteFile("c.json", []byte(`{"level": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("m.onnx", "link.onnx"); err != nil {
		t.Fatal(err)
	}
	beside, err := os.ReadFile("beside.onnx") // another model that has its weights in the same file
	if err == nil {
		err = os.WriteFile("other.onnx", beside, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string][]byte{}
	for _, path := range []string{"m.onnx", "beside.onnx", "beside.onnx.data", "c.json"} {
		kept[path], _ = os.ReadFile(path)
	}
	spared := func() {
		t.Helper()
		for path, was := range kept {
			if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, was) {
				t.Errorf("%s is not what it was (%v)", path, err)
			}
		}
	}
	for _, c := range []struct {
		request plugin.Question
		want    string
	}{
		{plugin.Question{Model: "m.onnx", SaveTo: "m.onnx"}, "save_to: m.onnx is read, and would be overwritten; choose another name"},
		{plugin.Question{Model: "m.onnx", Emit: "./m.onnx"}, "emit: ./m.onnx is read, and would be overwritten"},
		{plugin.Question{Model: "m.onnx", HTML: "link.onnx"}, "html: link.onnx is read, and would be overwritten"},
		{plugin.Question{Model: "m.onnx", HTML: "c.json", Settings: map[string]string{"config": "c.json"}}, "html: c.json is read, and would be overwritten"},
		{plugin.Question{Model: "m.onnx", HTML: "c.json", Settings: map[string]string{"config": " c.json "}}, "html: c.json is read, and would be overwritten"},
		{plugin.Question{Model: "m.onnx", SaveTo: "c.json", Caller: plugin.Caller{Environment: map[string]string{"ORTMODULE_MEMORY_OPT_CONFIG": "c.json"}}}, "save_to: c.json is read, and would be overwritten"},
		{plugin.Question{Model: "beside.onnx", Emit: "beside.onnx.data"}, "emit: beside.onnx.data is read, and would be overwritten"},
		{plugin.Question{Model: "other.onnx", Emit: "beside.onnx"}, "emit: beside.onnx.data is read, and would be overwritten"},
		{plugin.Question{Model: "m.onnx", SaveTo: "out", HTML: "./out"}, "save_to and html both write ./out"},
		{plugin.Question{Model: "m.onnx", SaveTo: "none/out"}, "there is no folder none"},
		{plugin.Question{Model: "m.onnx", Emit: "."}, "emit: . is not a file that can be replaced"},
	} {
		if c.request.Settings == nil {
			c.request.Settings = map[string]string{}
		}
		c.request.Settings["dims"] = "batch=2"
		_, err := front{}.Plan(t.Context(), c.request)
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.CodeInput {
			t.Errorf("%+v: error %v, want %q", c.request, err, c.want)
		}
	}
	spared()
	if _, err := os.Stat("out"); err == nil {
		t.Error("a refused request has written a file")
	}
	t.Setenv("ORTMODULE_MEMORY_OPT_CONFIG", "c.json")
	for line, want := range map[string]string{
		"plan beside.onnx --dims batch=2 --html beside.onnx.data": "--html: beside.onnx.data is read, and would be overwritten",
		"plan m.onnx --dims batch=2 -o c.json":                    "--output: c.json is read, and would be overwritten",
		"optimize beside.onnx -o beside.onnx.data":                "beside.onnx.data is read, and would be overwritten",
		"optimize other.onnx -o beside.onnx":                      "beside.onnx.data is read, and would be overwritten",
	} {
		var out, text bytes.Buffer
		if code := run(append([]string{"memopt"}, strings.Fields(line)...), &out, &text); code != exit.CodeInput || !strings.Contains(text.String(), want) {
			t.Errorf("%s: exit code %d, %s", line, code, text.String())
		}
	}
	spared()
}

// TestServiceEnvironment: the trainer's variables stand for the service's own, also
// where there are none.
func TestServiceEnvironment(t *testing.T) {
	alone(t, smallMLP)
	t.Setenv("MEMOPT_BUDGET", "1GiB")
	r := plugin.Question{Model: "m.onnx", Settings: with("batch=2")}
	for want, env := range map[int64]map[string]string{0: {}, 1 << 30: nil, 2 << 30: {"MEMOPT_BUDGET": "2GiB"}} {
		r.Environment = env
		reply, err := front{}.Plan(t.Context(), r)
		if got := gjson.Get(reply.JSON, "request.budget").Int(); err != nil || got != want {
			t.Errorf("%v: budget %d (%v), want %d", env, got, err, want)
		}
	}
}

// TestServiceQuestions: an answer leaves its files only if it is given, in the host's
// folder, and what cannot be met says so as a plan does.
func TestServiceQuestions(t *testing.T) {
	alone(t, smallMLP)
	there, _ := os.Getwd()
	t.Chdir(t.TempDir())
	q := plugin.Question{Model: "m.onnx", Settings: map[string]string{"budget": "1KiB"}, SaveTo: "p.json", Caller: plugin.Caller{Folder: there, Environment: map[string]string{}}}
	_, err := front{}.MaxBatch(t.Context(), q)
	var refusal interface{ Refusal() string }
	if !errors.As(err, &refusal) {
		t.Errorf("a budget that nothing fits: %v, which says no more", err)
	}
	if _, err := os.Stat(filepath.Join(there, "p.json")); err == nil {
		t.Error("a plan that there is not was written")
	}
	q.Settings["budget"] = "1MiB"
	answer, err := front{}.MaxBatch(t.Context(), q)
	if err != nil || gjson.Get(answer.JSON, "size").Int() < 1 {
		t.Errorf("max batch: %s, %v", answer.JSON, err)
	}
	answer, err = front{}.Explain(t.Context(), plugin.Question{Model: "p.json", Caller: plugin.Caller{Folder: there}})
	if err != nil || gjson.Get(answer.JSON, "format").Str != "memopt.plan/1" {
		t.Errorf("explain: %s, %v", answer.JSON, err)
	}
	if _, err = (front{}).Explain(t.Context(), plugin.Question{Model: "p.json", Settings: with("batch=2"), Caller: plugin.Caller{Folder: there}}); err == nil {
		t.Error("explain uses dims")
	}
	answer, err = front{}.Frontier(t.Context(), plugin.Question{Model: "m.onnx", Settings: with("batch=2"), Caller: plugin.Caller{Folder: there, Environment: map[string]string{"MEMOPT_BUDGET": "1GiB"}}})
	if err != nil || gjson.Get(answer.JSON, "points.#").Int() < 1 || len(answer.Warnings) != 1 {
		t.Errorf("frontier: %s, %v, %v", answer.JSON, answer.Warnings, err)
	}
}

// TestServiceFolder: relative paths in settings begin where the trainer is, not where
// the service was started.
func TestServiceFolder(t *testing.T) {
	alone(t, smallMLP)
	there, colons := t.TempDir(), filepath.Join(t.TempDir(), "a:b")
	if err := os.Mkdir(colons, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, level := range map[string]string{"c.json": "1", filepath.Join(there, "c.json"): "2", "only.json": "1"} {
		if err := os.WriteFile(path, []byte(`{"level": `+level+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ config, variable, folder, want string }{
		"variable":             {variable: "c.json", folder: there, want: "2"},
		"config":               {config: "c.json", folder: there, want: "2"},
		"the service's own":    {variable: "c.json", want: "1"},
		"text":                 {config: `{"level": 1}`, folder: there, want: "1"},
		"clusters":             {variable: "Relu+:1:-1", folder: there, want: "0"},
		"file that is missing": {variable: "only.json", folder: there, want: "no such file"},
		"config of no file":    {config: "only.json", folder: there, want: "no such file"},
		"no file, and colons":  {config: "only.json", folder: colons, want: "no such file"},
		"clusters, and colons": {config: "Relu+:1:-1", folder: colons, want: "0"},
	} {
		settings := with("batch=2")
		if c.config != "" {
			settings["config"] = c.config
		}
		reply, err := front{}.Plan(t.Context(), plugin.Question{Model: absolute(t, "m.onnx"), Settings: settings,
			Caller: plugin.Caller{Folder: c.folder, Environment: map[string]string{"ORTMODULE_MEMORY_OPT_CONFIG": c.variable}}})
		got := gjson.Get(reply.JSON, "request.level").String()
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != (c.want == "no such file") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestServicePaths: the paths of a request begin in the trainer's folder too.
func TestServicePaths(t *testing.T) {
	alone(t, smallMLP)
	there := absolute(t, ".")
	t.Chdir(t.TempDir())
	if _, err := (front{}).Plan(t.Context(), plugin.Question{Model: "m.onnx", Settings: with("batch=2"), Caller: plugin.Caller{Folder: there},
		SaveTo: "p.json", Emit: "e.onnx", HTML: "p.html"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p.json", "e.onnx", "p.html"} {
		if _, err := os.Stat(filepath.Join(there, name)); err != nil {
			t.Error(err)
		}
	}
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServiceSavesGraphs: the folder that ONNX Runtime's variable names has the graph
// before and after a plan, as on the command line.
func TestServiceSavesGraphs(t *testing.T) {
	alone(t, smallMLP)
	there := t.TempDir()
	for _, folder := range []string{"ours", filepath.Join(there, "graphs")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ORTMODULE_SAVE_ONNX_PATH", "ours")
	if code := run(strings.Fields("memopt plan m.onnx --dims batch=2"), io.Discard, io.Discard); code != 0 {
		t.Fatal("exit code", code)
	}
	r := plugin.Question{Model: absolute(t, "m.onnx"), Settings: with("batch=2"), Caller: plugin.Caller{Folder: there, Environment: map[string]string{"ORTMODULE_SAVE_ONNX_PATH": "graphs"}}}
	if _, err := (front{}).Plan(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m.before.onnx", "m.after.onnx"} {
		want, err := os.ReadFile(filepath.Join("ours", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(there, "graphs", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not as the command line writes it (%v)", name, err)
		}
	}
	r.Environment["ORTMODULE_SAVE_ONNX_PATH"] = "none"
	if _, err := (front{}).Plan(t.Context(), r); err == nil || exit.Code(err) != exit.CodeInput {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestServiceRefusal: a budget that cannot be met is told in the JSON of the command
// line, with settings spelled for Python.
func TestServiceRefusal(t *testing.T) {
	alone(t, smallMLP)
	_, err := front{}.Plan(t.Context(), plugin.Question{Model: "m.onnx", Settings: with("batch=2", "budget", "1KiB")})
	var told interface{ Refusal() string }
	if !errors.As(err, &told) || exit.Code(err) != exit.CodeCannot {
		t.Fatalf("error %v, exit code %d", err, exit.Code(err))
	}
	var out, want bytes.Buffer
	run(strings.Fields("memopt plan m.onnx --dims batch=2 --budget 1KiB --format json"), &out, io.Discard)
	if err := json.Compact(&want, out.Bytes()); err != nil {
		t.Fatal(err)
	}
	// The service spells settings for Python.
	if command := strings.ReplaceAll(want.String(), "--budget ", "budget="); told.Refusal() != command || command == want.String() {
		t.Errorf("the service says\n%s\nthe command line\n%s", told.Refusal(), &want)
	}
}

// TestServiceTellsOfStrayVariables: a mistyped variable of the trainer's is told with the plan, and
// the service's own are nothing to it.
func TestServiceTellsOfStrayVariables(t *testing.T) {
	alone(t, smallMLP)
	t.Setenv("MEMOPT_BUGDET", "8GB")
	request := plugin.Question{Model: "m.onnx", Settings: with("batch=2"), Caller: plugin.Caller{Environment: map[string]string{}}}
	for _, mistyped := range []bool{false, true} {
		if mistyped {
			request.Environment["MEMOPT_BUDGE"] = "8GB"
		}
		reply, err := front{}.Plan(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		told := strings.Contains(strings.Join(reply.Warnings, "\n"), "MEMOPT_BUDGE is ignored, did you mean MEMOPT_BUDGET?")
		if told != mistyped || strings.Contains(strings.Join(reply.Warnings, "\n"), "BUGDET") {
			t.Errorf("%v: %q", request.Environment, reply.Warnings)
		}
	}
}
