package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/plugin"
)

// forwardModel is y = relu(x·w) with a named batch.
func forwardModel(t *testing.T) string {
	t.Helper()
	g, err := graph.Parse(kernels.Library, `x f32[batch, 2] = input
w f32[2, 3] = const {1, 2, 3, 4, 5, 6}
h = MatMul(x, w)
y = Relu(h)
output y`)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "small.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	return path
}

func floats(xs ...float32) []byte { return graph.TensorOf(graph.Float32, xs, len(xs)).Bytes }

// TestForwardSession: a host opens a model by path and as bytes, runs it into a span, into the room and into neither.
func TestForwardSession(t *testing.T) {
	path := forwardModel(t)
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]plugin.OpenRequest{
		"path":  {Model: path, Mode: "forward", Settings: map[string]string{"device": "cpu"}},
		"bytes": {Bytes: bytes.Clone(src), Mode: "forward", Settings: map[string]string{"device": "cpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := front{}.Open(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Session.Close()
			clear(r.Bytes) // they are the host's again
			if len(o.Inputs) != 1 || o.Inputs[0].Name != "x" || o.Inputs[0].Type != "f32" || strings.Join(o.Inputs[0].Shape, ",") != "batch,2" {
				t.Errorf("inputs %+v", o.Inputs)
			}
			var more map[string]any
			if err := json.Unmarshal([]byte(o.JSON), &more); err != nil || more["format"] != "memopt.session/1" {
				t.Errorf("json %s, %v", o.JSON, err)
			}
			run := o.Session.(plugin.Runner)
			x := plugin.Tensor{Name: "x", Type: "f32", Shape: []int64{2, 2}, Bytes: floats(1, 1, -1, 0)}
			want := floats(5, 7, 9, 0, 0, 0)
			span := make([]byte, 24)
			room := make([]byte, 100)
			for _, c := range []struct {
				name string
				q    plugin.RunRequest
				at   int64
				got  []byte
			}{
				{"span", plugin.RunRequest{Outputs: []plugin.Tensor{{Name: "y", Type: "f32", Shape: []int64{2, 3}, Bytes: span}}}, plugin.InSpan, span},
				{"room", plugin.RunRequest{Room: room, RoomAt: 32}, 64, room[32:56]},
				{"no room", plugin.RunRequest{}, plugin.Nowhere, nil},
			} {
				c.q.Inputs = []plugin.Tensor{x}
				reply, err := run.Run(context.Background(), c.q)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if len(reply.At) != 1 || reply.At[0] != c.at || len(reply.Outputs[0].Shape) != 2 || reply.Outputs[0].Shape[0] != 2 {
					t.Errorf("%s: at %v, %+v", c.name, reply.At, reply.Outputs)
				}
				if c.got == nil {
					c.got = make([]byte, 24)
					if err := run.Sync(context.Background(), 0, []plugin.Tensor{{Name: "y", Bytes: c.got}}, false); err != nil {
						t.Error(err)
					}
				}
				if !bytes.Equal(c.got, want) {
					t.Errorf("%s: %v", c.name, c.got)
				}
			}
			b, err := run.Bind(context.Background(), []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{5, 2}}}, nil)
			if err != nil || len(b.Tensors) != 1 || b.Tensors[0].Shape[0] != 5 || b.Tensors[0].Shape[1] != 3 {
				t.Errorf("bound %+v, %v", b, err)
			}
			for _, bad := range []plugin.RunRequest{
				{},
				{Inputs: []plugin.Tensor{{Name: "x", Type: "f64", Shape: []int64{1, 2}, Bytes: make([]byte, 16)}}},
				{Inputs: []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{1, 3}, Bytes: make([]byte, 12)}}},
				{Inputs: []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{1 << 31, 1 << 31}, Bytes: make([]byte, 12)}}},
				{Inputs: []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{math.MinInt64, 2}, Bytes: make([]byte, 12)}}},
				{Inputs: []plugin.Tensor{x}, Outputs: []plugin.Tensor{{Name: "z"}}},
				{Inputs: []plugin.Tensor{x}, Outputs: []plugin.Tensor{{Name: "y", Type: "f32", Shape: []int64{1, 3}, Bytes: make([]byte, 12)}}},
				{Inputs: []plugin.Tensor{x}, Options: map[string]string{"memory.enable_memory_arena_shrinkage": "cpu:7"}},
			} {
				if _, err := run.Run(context.Background(), bad); err == nil {
					t.Errorf("%+v is run", bad)
				}
			}
			if _, err := run.Run(context.Background(), plugin.RunRequest{Inputs: []plugin.Tensor{x}}); err != nil {
				t.Errorf("after mistakes: %v", err)
			}
			if a, err := run.Stats(); err != nil || !strings.Contains(a.JSON, `"TotalAllocated"`) {
				t.Errorf("stats %s, %v", a.JSON, err)
			}
		})
	}
}
