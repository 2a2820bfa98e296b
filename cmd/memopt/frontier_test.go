package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestFrontierAddsUp: of every point the arena and what lies outside it are the total,
// also where a form of the step has constants that the step as it is has not.
func TestFrontierAddsUp(t *testing.T) {
	model := filepath.Join(t.TempDir(), "gpt.onnx")
	memopt := func(args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(append([]string{"memopt"}, args...), &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, &errs)
		}
		return out.Bytes()
	}
	memopt("new", "gpt", "-o", model, "--layers", "2", "--width", "32", "--heads", "2", "--vocab", "4000")
	var f frontierFile
	if err := json.Unmarshal(memopt("frontier", model, "--dims", "batch=3,seq=37", "--cost", "flops", "--format", "json"), &f); err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, p := range append(f.Points, f.References...) {
		fixed := f.Fixed
		if p.Fixed != nil {
			fixed = *p.Fixed
			own++
		}
		if fixed+p.Arena != p.Total {
			t.Errorf("a point of form %q: %d bytes of arena and %d outside it are not %d", p.Form, p.Arena, fixed, p.Total)
		}
	}
	if own == 0 {
		t.Error("no form has constants of its own, so that nothing is tried")
	}
}
