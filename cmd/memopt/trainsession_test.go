package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"memopt/configs"
	"memopt/memopt/exit"
	"memopt/memopt/step"
	"memopt/plugin"
)

// TestPortShapes: a shape whose number of elements overflows is refused like one that is too large.
func TestPortShapes(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		ok    bool
	}{
		{[]int64{2, 3}, true}, {nil, true}, {[]int64{0, 1 << 40}, true}, {[]int64{1 << 20, 1 << 20}, true},
		{[]int64{-1}, false}, {[]int64{1<<40 + 1}, false}, {[]int64{1 << 21, 1 << 20}, false},
		{[]int64{1 << 40, 1 << 40}, false}, {[]int64{1 << 32, 1 << 32, 1}, false}, {[]int64{1 << 40, 1 << 24}, false},
	} {
		if _, err := portsOf([]plugin.Tensor{{Name: "x", Type: "f32", Shape: c.shape}}); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.shape, err)
		}
	}
}

// TestIdleInBridge: a bridge's host is told of every setting of updates, and of no other.
func TestIdleInBridge(t *testing.T) {
	cfg, _, err := configs.Asked{Command: "train", Settings: map[string]string{"loss_scale_window": "5", "lr": "0.5", "warmup": "3", "seed": "3"}}.Config()
	if err != nil {
		t.Fatal(err)
	}
	if got := idleInBridge(&step.Model{Config: cfg}); len(got) != 3 {
		t.Errorf("warnings %q", got)
	}
}

// trainer is a host of one session that does what bytes say: much of it wrong.
type trainer struct {
	t     testing.TB
	mode  string
	model string
	data  []byte
	arena []byte

	open  plugin.Trainer
	bound []plugin.Bound
	run   uint64
}

// next is a number below n from the bytes; 0 once there are none left.
func (h *trainer) next(n int) int {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return int(b) % n
}

// odd is a number that may be anything.
func (h *trainer) odd() int64 {
	return []int64{0, 1, -1, 2, 3, 1 << 31, math.MaxInt64, math.MinInt64, 1 << 40}[h.next(9)]
}

func (h *trainer) word() string {
	return []string{"", "x", "labels", "loss", "f32", "i64", "fc.weight", "optimizer.step", "\u202e", "f16"}[h.next(10)]
}

// bytes is a stretch of the arena, mostly of the length that is asked for.
func (h *trainer) bytes(n int) []byte {
	switch h.next(60) {
	case 0:
		return nil
	case 1:
		n += h.next(5) - 2
	}
	at := 64 * h.next(200)
	if h.next(4) == 0 {
		at += h.next(64)
	}
	if n < 0 || at+n > len(h.arena) {
		return nil
	}
	return h.arena[at : at+n : at+n]
}

func size(t plugin.Tensor) int {
	n := map[string]int{"f32": 4, "i64": 8, "f16": 2}[t.Type]
	for _, d := range t.Shape {
		n *= int(d)
	}
	return n
}

// batch is inputs of a batch, and now and then something else.
func (h *trainer) batch() []plugin.Tensor {
	n := int64(1 + h.next(3))
	all := []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{n, 4}}, {Name: "labels", Type: "i64", Shape: []int64{n}}}
	for h.next(4) == 0 && len(h.data) > 0 {
		t := &all[h.next(len(all))]
		switch h.next(5) {
		case 0:
			t.Name = h.word()
		case 1:
			t.Type = h.word()
		case 2:
			t.Shape = append(t.Shape, h.odd())
		case 3:
			t.Shape = []int64{h.odd(), h.odd()}
		default:
			all = append(all, *t)
		}
	}
	return all
}

func (h *trainer) binding() uint64 {
	if len(h.bound) == 0 || h.next(8) == 0 {
		return uint64(h.odd())
	}
	return h.bound[len(h.bound)-1-h.next(min(3, len(h.bound)))].ID
}

func (h *trainer) step() plugin.StepRequest {
	r := plugin.StepRequest{Binding: h.binding(), Seed: uint64(h.odd()), Step: uint64(h.odd()), LR: 0.1, Run: h.run, Accumulate: h.next(5) == 0}
	for h.next(2) == 0 && len(h.data) > 0 {
		r.Changed = append(r.Changed, int32(h.next(20))-1)
	}
	switch h.next(8) {
	case 0:
		r.Run = uint64(h.odd())
	case 1:
		r.LR = []float64{math.NaN(), math.Inf(1), -1, 1e300}[h.next(4)]
	}
	return r
}

// act does one thing.
func (h *trainer) act(ctx context.Context) error {
	switch h.next(10) {
	case 0, 1:
		b, err := h.open.Bind(ctx, h.batch(), nil)
		if err == nil {
			h.bound = append(h.bound, b)
		}
		return err
	case 2, 3:
		var places [][]byte
		b := plugin.Bound{ID: uint64(h.odd())}
		if len(h.bound) > 0 {
			b = h.bound[len(h.bound)-1]
		}
		for _, t := range b.Tensors {
			places = append(places, h.bytes(size(t)))
		}
		if h.next(10) == 0 {
			places = append(places, nil)
		}
		return h.open.Place(b.ID, places)
	case 4, 5:
		r, err := h.open.Forward(ctx, h.step())
		if err == nil {
			h.run = r.Run
		}
		return err
	case 6:
		_, err := h.open.Backward(ctx, h.step())
		return err
	case 7:
		_, err := h.open.Step(ctx, h.step())
		return err
	case 8:
		var all []plugin.Tensor
		for range h.next(4) {
			t := plugin.Tensor{Name: h.word(), Type: h.word(), Shape: []int64{h.odd()}}
			if len(h.bound) > 0 && h.next(3) > 0 {
				some := h.bound[0].Tensors
				t = some[h.next(len(some))]
			}
			t.Bytes = h.bytes(max(0, min(size(t), len(h.arena))))
			all = append(all, t)
		}
		return h.open.Sync(ctx, uint64(h.odd()), all, h.next(2) == 0)
	}
	// Numbers of any kind, from indices out of range to NaN.
	for range h.next(40) {
		binary.LittleEndian.PutUint64(h.arena[8*h.next(250):], uint64(h.odd()))
	}
	_, err := h.open.Stats(false)
	return err
}

// all opens a session, does what the bytes say, and then has it train as if nothing had been.
func (h *trainer) all() {
	ctx := h.t.Context()
	open := func() plugin.Trainer {
		settings := map[string]string{"optimizer": "sgd"}
		if h.mode == "resident" {
			settings["accumulate"] = "2"
		}
		o, err := front{}.Open(ctx, plugin.OpenRequest{Model: h.model, Mode: h.mode, Settings: settings, Caller: plugin.Caller{Environment: map[string]string{}}})
		if err != nil {
			h.t.Fatal(err)
		}
		return o.Session.(plugin.Trainer)
	}
	h.open, h.arena = open(), make([]byte, 1<<14)
	defer h.open.Close()
	for len(h.data) > 0 {
		if err := h.act(ctx); err != nil {
			if code := exit.Code(err); code != exit.CodeInput && code != exit.CodeCannot {
				h.t.Fatalf("%v (%d)", err, code)
			}
			var coded interface{ ExitCode() int }
			if !errors.As(err, &coded) {
				h.t.Fatalf("%v has no code", err)
			}
		}
	}
	other := open()
	defer other.Close()
	got, want := h.trained(h.open), h.trained(other)
	if !bytes.Equal(got, want) {
		h.t.Fatalf("after what was done to it, a session comes to %x, and a new one to %x", got, want)
	}
}

// trained is what a session comes to with weights that are known: results, gradients, or new weights.
func (h *trainer) trained(s plugin.Trainer) []byte {
	ctx := h.t.Context()
	b, err := s.Bind(ctx, []plugin.Tensor{{Name: "x", Type: "f32", Shape: []int64{2, 4}}, {Name: "labels", Type: "i64", Shape: []int64{2}}}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	var places [][]byte
	var kept []plugin.Tensor
	for i, t := range b.Tensors {
		x := make([]byte, (size(t)+7)&^7)[:size(t)]
		for k := 0; k+4 <= len(x) && t.Type == "f32"; k += 4 {
			binary.LittleEndian.PutUint32(x[k:], math.Float32bits(float32((k+7*i)%11-5)/8))
		}
		places = append(places, x)
		if t.Bytes = x; slices.Contains([]string{"param", "buffer", "frozen", "state"}, t.Role) {
			kept = append(kept, t)
		}
	}
	var out []byte
	r := plugin.StepRequest{Binding: b.ID, LR: 0.1}
	err = errors.Join(s.Place(b.ID, places), s.Sync(ctx, b.ID, kept, true))
	if h.mode == "bridge" {
		f, wrong := s.Forward(ctx, r)
		r.Run = f.Run
		_, failed := s.Backward(ctx, r)
		err = errors.Join(err, wrong, failed)
	} else {
		if _, wrong := s.Step(ctx, r); wrong != nil { // the first of two, or one behind a first
			h.t.Fatal(wrong)
		}
		err = errors.Join(err, s.Sync(ctx, b.ID, kept, true))
		first, wrong := s.Step(ctx, r)
		err = errors.Join(err, wrong, s.Sync(ctx, b.ID, kept, false))
		out = fmt.Append(out, first.Loss)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for i, t := range b.Tensors {
		if t.Role == "output" || t.Role == "grad" || t.Role == "param" {
			out = append(out, places[i]...)
		}
	}
	return out
}

func tinyModel(t testing.TB) string {
	t.Helper()
	alone(t, "new mlp -o m.onnx --width 3 --inputs 4 --classes 3 --layers 1")
	return absolute(t, "m.onnx")
}

func FuzzTraining(f *testing.F) {
	model := tinyModel(f)
	f.Add("bridge", []byte{0, 1, 1, 2, 1, 4, 1, 6})
	f.Add("resident", []byte{0, 1, 1, 2, 1, 7, 1, 8, 3})
	f.Fuzz(func(t *testing.T, mode string, data []byte) {
		if mode != "bridge" {
			mode = "resident"
		}
		(&trainer{t: t, mode: mode, model: model, data: data}).all()
	})
}

// TestTrainingSurvives is what the fuzzer does, for a while, with bytes of its own.
func TestTrainingSurvives(t *testing.T) {
	model := tinyModel(t)
	rng := rand.New(rand.NewPCG(3, 4))
	end := time.Now().Add(1500 * time.Millisecond)
	for n := 0; time.Now().Before(end) || n < 10; n++ {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		(&trainer{t: t, mode: []string{"bridge", "resident"}[n%2], model: model, data: data}).all()
	}
}
