package planfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/planner"
	"memopt/planner/planfile"
)

// TestReadFileRefuses spoils the JSON of a plan file in one way each.
func TestReadFileRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(f map[string]any)
		want  string
	}{
		{"nothing but the format", func(f map[string]any) {
			for field := range f {
				if field != "format" {
					delete(f, field)
				}
			}
		}, "is not a whole plan file: it has no model.fingerprint, model.nodes, dims, request.budget, strategy,"},
		{"no steps", func(f map[string]any) { delete(f, "steps") }, "is not a whole plan file: it has no steps"},
		{"steps and places", func(f map[string]any) { delete(f, "steps"); delete(f, "offsets") }, "it has no steps, offsets"},
		{"a result without a peak", func(f map[string]any) { delete(f["result"].(map[string]any), "peak") }, "it has no result.peak"},
		{"no result at all", func(f map[string]any) { f["result"] = nil }, "it has no result.peak, result.arena, result.overhead"},
		{"an empty fingerprint", func(f map[string]any) { f["model"].(map[string]any)["fingerprint"] = "" }, "its model.fingerprint is empty"},
		{"a program that is left out", func(f map[string]any) { f["program"] = []any{} }, "its program has 0 lines, its model 9 nodes"},
		{"a list for a number", func(f map[string]any) { f["result"].(map[string]any)["peak"] = []any{map[string]any{"x": 1}} }, "is not a plan file: json: cannot unmarshal"},
		{"a number for a list, and another format", func(f map[string]any) { f["format"], f["steps"] = "memopt.plan/2", 3 }, `has format "memopt.plan/2"; this version reads`},
		{"another format", func(f map[string]any) { f["format"] = "memopt.frontier/1"; delete(f, "steps") }, `has format "memopt.frontier/1"; this version reads`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := planJSON(t)
			c.spoil(f)
			if _, err := readJSON(t, f); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

// TestReadFileFields: a field that no plan has is named with its path; names of dims
// and settings are the user's.
func TestReadFileFields(t *testing.T) {
	in := func(x any, path ...string) map[string]any {
		for _, p := range path {
			x = x.(map[string]any)[p]
		}
		if list, is := x.([]any); is {
			x = list[0]
		}
		return x.(map[string]any)
	}
	for _, c := range []struct {
		want  string // "" for a file that is read
		spoil func(f map[string]any)
	}{
		{"", func(f map[string]any) { in(f, "dims")["heads"], in(f, "settings")["lr"] = 2, "0.1" }},
		{"bugdet", func(f map[string]any) { f["bugdet"] = 1 }},
		{"request.bugdet", func(f map[string]any) { in(f, "request")["bugdet"] = nil }},
		{"clusters[0].cots", func(f map[string]any) { in(f, "clusters")["cots"] = 1 }},
		{"steps[0].twice", func(f map[string]any) { in(f, "steps")["twice"] = true }},
		{"formulas.ranges[0].pieces[0].x", func(f map[string]any) {
			in(in(f, "formulas", "ranges"), "pieces")["x"] = map[string]any{}
		}},
		{"dominant[0].a.b", func(f map[string]any) { in(f, "dominant")["a.b"] = 1 }},
	} {
		t.Run(c.want, func(t *testing.T) {
			f := planJSON(t)
			c.spoil(f)
			_, err := readJSON(t, f)
			var unknown *planfile.FieldError
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.As(err, &unknown) || unknown.Path != c.want):
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

// planJSON is the JSON of a plan file.
func planJSON(t *testing.T) (f map[string]any) {
	t.Helper()
	p := again(t)
	data, err := json.Marshal(planfile.Of(p, "m.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// readJSON writes JSON to a file and reads it as a plan's.
func readJSON(t *testing.T, f any) (*planfile.File, error) {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return planfile.Read(path)
}

// TestFormerStrategy: requests and plan files may name the strategy optimize by its former name.
func TestFormerStrategy(t *testing.T) {
	p := again(t)
	r := p.Request
	r.Strategy = "greedy"
	q, err := planner.Make(p.Graph, r)
	if err != nil {
		t.Fatal(err)
	}
	if q.Strategy != "optimize" || q.Arena != p.Arena {
		t.Errorf("a plan by %q in %d bytes, want one by optimize in %d", q.Strategy, q.Arena, p.Arena)
	}
	f := planfile.Of(p, "m.onnx")
	f.Strategy = "greedy"
	if q, err = f.Bind(p.Graph); err != nil || q.Strategy != "optimize" {
		t.Errorf("a file with the former name: %v", err)
	}
}
