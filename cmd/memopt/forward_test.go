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

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
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
			room, large := make([]byte, 100), make([]byte, 48)
			for _, c := range []struct {
				name string
				q    plugin.RunRequest
				at   int64
				got  []byte
			}{
				{"span", plugin.RunRequest{Outputs: []plugin.Tensor{{Name: "y", Type: "f32", Shape: []int64{2, 3}, Bytes: span}}}, plugin.InSpan, span},
				{"room", plugin.RunRequest{Room: room, RoomAt: 32}, 64, room[32:56]},
				{"at most", plugin.RunRequest{Outputs: []plugin.Tensor{{Name: "y", Role: "atmost", Type: "f32", Shape: []int64{4, 3}, Bytes: large}}}, plugin.InSpan, large[:24]},
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
				{Inputs: []plugin.Tensor{x}, Outputs: []plugin.Tensor{{Name: "y", Role: "atmost", Shape: []int64{1, 3}, Bytes: large}}},
				{Inputs: []plugin.Tensor{x}, Outputs: []plugin.Tensor{{Name: "y", Role: "atmost", Bytes: large[:23]}}},
				{Inputs: []plugin.Tensor{x}, Options: map[string]string{"memory.enable_memory_arena_shrinkage": "cpu:7"}},
			} {
				if _, err := run.Run(context.Background(), bad); err == nil {
					t.Errorf("%+v is run", bad)
				}
			}
			if _, err := run.Run(context.Background(), plugin.RunRequest{Inputs: []plugin.Tensor{x}}); err != nil {
				t.Errorf("after mistakes: %v", err)
			}
			if a, err := run.Stats(false); err != nil || !strings.Contains(a.JSON, `"TotalAllocated"`) {
				t.Errorf("stats %s, %v", a.JSON, err)
			}
		})
	}
}

// TestForwardHostileOrder: whatever a host asks for, in whatever order, and whatever it writes to what it shares, a
// request that is right gives the right numbers, and nothing ends the service.
func TestForwardHostileOrder(t *testing.T) {
	path := forwardModel(t)
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		settings := map[string]string{"device": "cpu", "max_patterns": rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "patterns"),
			"enable_mem_pattern":    rapid.SampledFrom([]string{"on", "off"}).Draw(t, "pattern"),
			"arena_extend_strategy": rapid.SampledFrom([]string{"planned", "kNextPowerOfTwo", "kSameAsRequested"}).Draw(t, "strategy")}
		if rapid.Bool().Draw(t, "limited") {
			settings["mem_limit"] = "1500"
		}
		o, err := front{}.Open(ctx, plugin.OpenRequest{Model: path, Mode: "forward", Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		run := o.Session.(plugin.Runner)
		shared := make([]byte, 4096) // the host's arena
		span := func(name string) (int, []byte) {
			at := rapid.IntRange(0, 2000).Draw(t, name+" at")
			return at, shared[at : at+rapid.IntRange(0, 600).Draw(t, name+" bytes")]
		}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			rows := rapid.IntRange(0, 40).Draw(t, "rows")
			x := make([]float32, 2*rows)
			for i := range x {
				x[i] = float32(i%5) - 2
			}
			at, in := span("in")
			n := copy(shared[at:], floats(x...))
			if rapid.IntRange(0, 3).Draw(t, "whole") > 0 {
				in = shared[at : at+n]
			}
			request := plugin.RunRequest{Inputs: []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{int64(rows), 2}, Bytes: in}}}
			switch rapid.IntRange(0, 5).Draw(t, "result") {
			case 0:
				_, out := span("out")
				request.Outputs = []plugin.Tensor{{Name: "y", Bytes: out}}
			case 1:
				request.RoomAt, request.Room = 0, shared[:rapid.IntRange(0, 4096).Draw(t, "room")]
			case 2:
				request.Outputs = []plugin.Tensor{{Name: "y"}, {Name: "y"}}
			case 3: // over the input
				request.Outputs = []plugin.Tensor{{Name: "y", Bytes: shared[at : at+min(12*rows, len(shared)-at)]}}
			}
			reply, err := run.Run(ctx, request)
			if err == nil {
				y := reply.Outputs[0]
				if y.Bytes == nil || reply.At[0] == plugin.Nowhere {
					y.Bytes = make([]byte, 12*rows)
					if err := run.Sync(ctx, 0, []plugin.Tensor{{Name: "y", Bytes: y.Bytes}}, false); err != nil {
						t.Fatal(err)
					}
				}
				w := []float32{1, 2, 3, 4, 5, 6}
				got := graph.Tensor{Type: graph.Float32, Shape: []int{3 * rows}, Bytes: y.Bytes}
				for i := range 3 * rows {
					want := max(x[i/3*2]*w[i%3]+x[i/3*2+1]*w[3+i%3], 0)
					if got.Float(i) != float64(want) {
						t.Fatalf("%d rows: y[%d] = %v, not %v", rows, i, got.Float(i), want)
					}
				}
			} else if len(in) == 8*rows && request.Outputs == nil && settings["mem_limit"] == "" {
				t.Fatalf("%d rows: %v", rows, err)
			}
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0:
				_, _ = run.Bind(ctx, []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{rapid.Int64().Draw(t, "size"), 2}}}, nil)
			case 1:
				_ = run.Sync(ctx, 9, []plugin.Tensor{{Name: "y", Bytes: shared[:10]}, {Name: "none"}}, rapid.Bool().Draw(t, "to service"))
			case 2:
				if _, err := run.Stats(false); err != nil {
					t.Fatal(err)
				}
			case 3:
				_ = run.Place(rapid.Uint64().Draw(t, "binding"), nil)
			}
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Run(ctx, plugin.RunRequest{}); err == nil {
			t.Fatal("a closed session runs")
		}
	})
}
