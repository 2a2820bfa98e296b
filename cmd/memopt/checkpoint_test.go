package main

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/tensorfile"
	"memopt/memopt/exit"
)

// TestStepCounts: a checkpoint whose count of steps is none, or would overflow with
// the next, is refused, and file and tensor are named.
func TestStepCounts(t *testing.T) {
	alone(t, smallMLP, "train m.onnx --dims batch=2 --steps 2 --save s.safetensors")
	set, meta, err := tensorfile.ReadSafetensors("s.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	scalar := func(n int64) *graph.Tensor { return graph.TensorOf(graph.Int64, []int64{n}) }
	for name, c := range map[string]struct {
		tensor *graph.Tensor
		steps  string
	}{
		"largest":       {scalar(math.MaxInt64), "2"},
		"negative":      {scalar(-1), "2"},
		"no scalar":     {graph.TensorOf(graph.Int64, []int64{2}, 1), "2"},
		"no whole":      {graph.TensorOf(graph.Float32, []float32{2.5}), "2"},
		"no number":     {graph.TensorOf(graph.Float32, []float32{float32(math.NaN())}), "2"},
		"largest meta":  {scalar(2), "9223372036854775807"},
		"too large":     {scalar(2), "99999999999999999999"},
		"negative meta": {scalar(2), "-1"},
		"fraction":      {scalar(2), "2.5"},
		"NaN":           {scalar(2), "NaN"},
		"sound":         {scalar(2), "2"},
	} {
		tensors, metadata := maps.Clone(set.Tensors), maps.Clone(meta)
		tensors[autograd.Step], metadata["memopt.steps"] = c.tensor, c.steps
		if err := tensorfile.WriteSafetensors("bad.safetensors", &tensorfile.Set{Names: set.Names, Tensors: tensors}, metadata); err != nil {
			t.Fatal(err)
		}
		var out, text bytes.Buffer
		code := run(strings.Fields("memopt train m.onnx --dims batch=2 --steps 1 --accumulate 1 --resume bad.safetensors"), &out, &text)
		if name == "sound" {
			if code != 0 {
				t.Errorf("%s: exit code %d: %s", name, code, text.String())
			}
			continue
		}
		key := autograd.Step
		if c.steps != "2" {
			key = "memopt.steps"
		}
		if code != exit.CodeInput || !strings.Contains(text.String(), "bad.safetensors") || !strings.Contains(text.String(), key) {
			t.Errorf("%s: exit code %d: %s", name, code, text.String())
		}
	}
}
