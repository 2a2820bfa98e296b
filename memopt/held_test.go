package memopt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"memopt/configs"
	"memopt/internal/compare"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/held"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
)

// host is somebody who has a step held open: bytes of its own for every tensor of a binding.
type host struct {
	t *testing.T
	*held.Session
	b *held.Binding
}

// hold opens a model and binds it to the shapes that it has under the settings' dims.
func hold(t *testing.T, path string, c configs.Config, o held.Options) *host {
	t.Helper()
	h, err := held.Open(t.Context(), path, c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	x := &host{t: t, Session: h}
	x.bind(c.Dims)
	return x
}

func (h *host) bind(dims map[string]int64) {
	h.t.Helper()
	var batch []held.Port
	binding, err := graph.Bind(dims)
	if err != nil {
		h.t.Fatal(err)
	}
	h.b = nil
	for _, v := range h.Inputs() {
		shape, err := binding.Shape(v.Shape)
		if err != nil {
			h.t.Fatal(err)
		}
		batch = append(batch, held.Port{Name: v.Name, Type: v.Type, Shape: shape})
	}
	h.b, _, err = h.Bind(h.t.Context(), batch)
	var budget *planner.BudgetError
	if errors.As(err, &budget) && budget.Best > 0 {
		h.Model().Config.ActivationBudget = configs.Budget{Bytes: budget.Best}
		h.b, _, err = h.Bind(h.t.Context(), batch)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var places [][]byte
	for i := range h.b.Ports {
		p := &h.b.Ports[i]
		x := &graph.Tensor{Type: p.Type, Shape: p.Shape, Bytes: aligned(p.Tensor().Len() * int(p.Type.Size()))}
		if p.Role.Kept() {
			if err := h.Sync([]held.Port{{Name: p.Name, Type: p.Type, Shape: p.Shape, Place: x.Bytes}}, false); err != nil {
				h.t.Fatal(err)
			}
		}
		places = append(places, x.Bytes)
	}
	if err := h.Place(h.b.ID, places); err != nil {
		h.t.Fatal(err)
	}
}

// aligned is bytes as a host's arena has them: a device may read them there.
func aligned(n int) []byte {
	b := make([]byte, n+63)
	for uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
		b = b[1:]
	}
	return b[:n:n]
}

func (h *host) port(role held.Role, name string) *graph.Tensor {
	h.t.Helper()
	for i := range h.b.Ports {
		if p := &h.b.Ports[i]; p.Role == role && p.Name == name {
			return p.Tensor()
		}
	}
	h.t.Fatalf("no %s %q", role, name)
	return nil
}

// schedule is that of the binding's plan.
func (h *host) schedule() *schedule.Schedule {
	h.t.Helper()
	s, err := h.b.Plan.Schedule()
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// feed gives the inputs a batch of a data file, or made-up numbers.
func (h *host) feed(data *tensorfile.Set, seed uint64) {
	h.t.Helper()
	feed, err := feed.New(h.b.Plan.Graph, h.schedule().Binding, data, seed)
	if err != nil {
		h.t.Fatal(err)
	}
	for name, x := range feed.Inputs(0) {
		copy(h.port(held.RoleInput, name).Bytes, x.Bytes)
	}
}

func (h *host) forward(r held.StepOf) held.Stepped {
	h.t.Helper()
	r.Binding = h.b.ID
	s, err := h.Forward(h.t.Context(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *host) backward(run uint64) {
	h.t.Helper()
	if _, err := h.Backward(h.t.Context(), held.StepOf{Binding: h.b.ID, Run: run}); err != nil {
		h.t.Fatal(err)
	}
}

// heldCases are models, and where their data is.
func heldCases(t *testing.T) map[string][2]string {
	gptModel, gptData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 4, Vocab: 64, Dropout: 0.1})
	wordyModel, wordyData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 1000})
	resnet, pictures := madeGPT(t, zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 8})
	kept := func(name string) [2]string {
		return [2]string{filepath.Join("testdata", "models", name, "model.onnx"), ""}
	}
	return map[string][2]string{"gpt": {gptModel, gptData}, "gpt of many words": {wordyModel, wordyData}, "resnet": {resnet, pictures},
		"mlp": kept("mlp"), "resnet8": kept("resnet8")}
}

// TestBridgeHasTheBitsOfAStep: two passes with a host between them, with 1 as the gradient of the loss, come to the loss,
// gradients and running statistics of the step as a whole, on each device, with and without a budget.
func TestBridgeHasTheBitsOfAStep(t *testing.T) {
	for name, files := range heldCases(t) {
		for _, kind := range []string{"cpu", "vulkan"} {
			for _, budget := range []string{"", "70%"} {
				if kind == "vulkan" && (budget == "" || name != "gpt" && name != "resnet8") {
					continue // its drivers take a second to compile what a model needs
				}
				t.Run(strings.TrimSpace(fmt.Sprint(name, " on ", kind, " ", budget)), func(t *testing.T) {
					device := kind
					if kind == "vulkan" {
						device = vulkanDevice(t)
					}
					fields := map[string]string{"device": device}
					if budget != "" {
						fields["activation_budget"] = budget
					}
					c := settingsFor(t, fields)
					c.Dims = map[string]int64{"batch": 4}
					if strings.HasPrefix(name, "gpt") {
						c.Dims["seq"] = 32
					}
					c.Seed = 5
					var data *tensorfile.Set
					if files[1] != "" {
						var err error
						if data, err = tensorfile.ReadNPZ(files[1]); err != nil {
							t.Fatal(err)
						}
						defer data.Close()
					}
					h := hold(t, files[0], c, held.Options{Bridge: true}) // or under what comes near it
					h.feed(data, c.Seed)
					c.ActivationBudget = configs.Budget{}
					only, err := training.GradientModel(&step.Model{Path: files[0], Config: c})
					if err != nil {
						t.Fatal(err)
					}
					want, _, err := training.GradientsOf(only, data)
					if err != nil {
						t.Fatal(err)
					}
					defer want.Close()
					loss := h.Outputs()[0].Name
					h.port(held.RoleSeed, loss).SetFloat(0, 1)
					var changed []int32
					var before [][]byte
					for i, p := range h.b.Ports {
						if p.Role == held.RoleBuffer {
							changed, before = append(changed, int32(i)), append(before, bytes.Clone(p.Place))
						}
					}
					for range 2 { // the second time from the statistics that the file has, which the host brings back
						for k, i := range changed {
							copy(h.b.Ports[i].Place, before[k])
						}
						s := h.forward(held.StepOf{Seed: c.Seed, Changed: changed})
						h.backward(s.Run)
						compareHeld(t, h, want, loss)
					}
				})
			}
		}
	}
}

func compareHeld(t *testing.T, h *host, want *tensorfile.Set, loss string) {
	t.Helper()
	same := func(got *graph.Tensor, name string) {
		t.Helper()
		x, err := want.Tensor(name)
		if err != nil || x == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(got.Bytes, x.Bytes) {
			t.Errorf("%s has other bits: %v against %v", name, got.Float(0), x.Float(0))
		}
	}
	same(h.port(held.RoleOutput, loss), "loss")
	n := 0
	for _, p := range h.b.Ports {
		switch p.Role {
		case held.RoleGrad:
			same(p.Tensor(), "grad."+p.Name)
			n++
		case held.RoleBuffer:
			same(p.Tensor(), "after."+p.Name)
		}
	}
	if n == 0 || n != len(h.Params()) {
		t.Errorf("%d gradients of %d parameters", n, len(h.Params()))
	}
}

// TestResidentTrainsAsTrain: steps in a session have the losses of training on the command line, bit for bit, and leave
// the same parameters and states.
func TestResidentTrainsAsTrain(t *testing.T) {
	model, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 4, Vocab: 64, Dropout: 0.1})
	set, err := tensorfile.ReadNPZ(data)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, kind := range []string{"cpu", "vulkan"} {
		t.Run(kind, func(t *testing.T) {
			device := kind
			if kind == "vulkan" {
				device = vulkanDevice(t)
			}
			fields := map[string]string{"optimizer": "adamw", "accumulate": "2", "clip_norm": "0.5", "loss_scale": "auto", "device": device, "activation_budget": "80%"}
			if kind == "vulkan" {
				fields["optimizer"] = "sgd"
			}
			c := settingsFor(t, fields)
			saved := filepath.Join(t.TempDir(), "saved.st")
			want := trainAs(t, model, c, training.Options{Steps: 3, LR: 0.01, Seed: 3, Data: data, Save: saved})
			h := hold(t, model, c, held.Options{})
			feed, err := feed.New(h.b.Plan.Graph, h.schedule().Binding, set, 3)
			if err != nil {
				t.Fatal(err)
			}
			for step := range 3 {
				loss := 0.0
				for k := range 2 {
					for name, x := range feed.Inputs(2*step + k) {
						copy(h.port(held.RoleInput, name).Bytes, x.Bytes)
					}
					s, err := h.Step(t.Context(), held.StepOf{Binding: h.b.ID, Seed: 3, Step: uint64(2*step + k), LR: 0.01, Accumulate: k == 0})
					if err != nil {
						t.Fatal(err)
					}
					loss += s.Loss / 2
				}
				if loss != want.Losses[step] {
					t.Errorf("step %d has the loss %v, not %v", step, loss, want.Losses[step])
				}
			}
			checkpoint, _, err := tensorfile.ReadSafetensors(saved)
			if err != nil {
				t.Fatal(err)
			}
			defer checkpoint.Close()
			for name, x := range checkpoint.Tensors {
				y := graph.NewTensor(x.Type, x.Shape...)
				if err := h.Sync([]held.Port{{Name: name, Type: x.Type, Shape: x.Shape, Place: y.Bytes}}, false); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(x.Bytes, y.Bytes) {
					t.Errorf("%s has other bits than the command line left", name)
				}
			}
			if s := h.Stats(); s.LossScale != 65536 || s.Steps != 6 || s.High.Arena != s.Promised.Arena || s.High.State != s.Promised.State {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestShapesShareWeights: steps of other shapes go on with the weights and states of those before, the same as where
// somebody carries them from session to session.
func TestShapesShareWeights(t *testing.T) {
	for _, kind := range []string{"cpu", "vulkan"} {
		t.Run(kind, func(t *testing.T) {
			device := kind
			if kind == "vulkan" {
				device = vulkanDevice(t)
			}
			shapesShareWeights(t, device)
		})
	}
}

func shapesShareWeights(t *testing.T, device string) {
	model, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 32})
	c := settingsFor(t, map[string]string{"optimizer": "momentum", "device": device})
	c.Dims = nil
	one, err := held.Open(t.Context(), model, c, held.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	sizes := []int64{4, 2, 4, 3, 2, 4}
	h := &host{t: t, Session: one}
	carried := map[string]*graph.Tensor{}
	for i, batch := range sizes {
		h.bind(map[string]int64{"batch": batch, "seq": 8})
		h.feed(nil, uint64(i))
		s, err := h.Step(t.Context(), held.StepOf{Binding: h.b.ID, Step: uint64(i), LR: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		other, err := held.Open(t.Context(), model, c, held.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := &host{t: t, Session: other}
		o.bind(map[string]int64{"batch": batch, "seq": 8})
		for name, x := range carried {
			if err := o.Sync([]held.Port{{Name: name, Type: x.Type, Shape: x.Shape, Place: x.Bytes}}, true); err != nil {
				t.Fatal(err)
			}
		}
		o.feed(nil, uint64(i))
		r, err := o.Step(t.Context(), held.StepOf{Binding: o.b.ID, Step: uint64(i), LR: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		if s.Loss != r.Loss {
			t.Errorf("step %d of %d has the loss %v, and in a session of its own %v", i, batch, s.Loss, r.Loss)
		}
		for _, p := range o.b.Ports {
			if p.Role.Kept() {
				x := graph.NewTensor(p.Type, p.Shape...)
				if err := o.Sync([]held.Port{{Name: p.Name, Type: p.Type, Shape: p.Shape, Place: x.Bytes}}, false); err != nil {
					t.Fatal(err)
				}
				carried[p.Name] = x
			}
		}
		other.Close()
	}
	if s := one.Stats(); s.Planned != 3 || s.Bindings != 3 || s.Steps != len(sizes) {
		t.Errorf("%+v", s)
	}
	for batch := range int64(20) {
		h.bind(map[string]int64{"batch": batch + 1, "seq": 8})
	}
	if s := one.Stats(); s.Bindings != 16 {
		t.Errorf("%d bindings are kept", s.Bindings)
	}
	if _, err := one.Step(t.Context(), held.StepOf{Binding: 2}); exit.Code(err) != exit.CodeCannot || !strings.Contains(err.Error(), "made room") {
		t.Error(err)
	}
}

// TestPassesThatDoNotMatch: what is asked for out of turn is refused, and does no harm.
func TestPassesThatDoNotMatch(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16})
	c := settingsFor(t, map[string]string{})
	c.Dims = map[string]int64{"batch": 2}
	h := hold(t, model, c, held.Options{Bridge: true})
	h.feed(nil, 1)
	refused := func(what string, code int, err error) {
		t.Helper()
		if exit.Code(err) != code || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%v (%d), not about %q", err, exit.Code(err), what)
		}
	}
	back := func(run uint64) error {
		_, err := h.Backward(t.Context(), held.StepOf{Binding: h.b.ID, Run: run})
		return err
	}
	refused("no forward pass waits", exit.CodeCannot, back(1))
	first := h.forward(held.StepOf{})
	second := h.forward(held.StepOf{})
	refused("came after it", exit.CodeCannot, back(first.Run))
	h.backward(second.Run)
	refused("no forward pass waits", exit.CodeCannot, back(second.Run))
	_, err := h.Step(t.Context(), held.StepOf{Binding: h.b.ID})
	refused("Forward and Backward", exit.CodeInput, err)
	_, err = h.Forward(t.Context(), held.StepOf{Binding: 99})
	refused("no binding 99", exit.CodeInput, err)
	_, err = h.Forward(t.Context(), held.StepOf{Binding: h.b.ID, Changed: []int32{1 << 30}})
	refused("has changed", exit.CodeInput, err)
	_, err = h.Forward(t.Context(), held.StepOf{Binding: h.b.ID, Changed: []int32{0}})
	refused("read anew", exit.CodeInput, err)
	refused("spans are given", exit.CodeInput, h.Place(h.b.ID, nil))
	places := make([][]byte, len(h.b.Ports))
	places[0] = make([]byte, 3)
	refused("has 3 bytes", exit.CodeInput, h.Place(h.b.ID, places))
	places[0] = nil
	if err := h.Place(h.b.ID, places); err != nil {
		t.Fatal(err)
	}
	_, err = h.Forward(t.Context(), held.StepOf{Binding: h.b.ID})
	refused("has no span", exit.CodeInput, err)
	for _, batch := range [][]held.Port{nil, {{Name: "other"}}, {{Name: "pixel_values", Type: graph.Int64}}, {{Name: "pixel_values", Type: graph.Float32, Shape: []int{2}}}} {
		_, _, err = h.Bind(t.Context(), batch)
		refused("", exit.CodeInput, err)
	}
}

// TestGivenUpForwardCounts: a forward pass without a backward pass moves the running statistics as one with it does.
func TestGivenUpForwardCounts(t *testing.T) {
	var want [][]byte
	for _, backward := range []bool{true, false} {
		h := hold(t, filepath.Join("testdata", "models", "resnet8", "model.onnx"), configs.Default(), held.Options{Bridge: true})
		h.feed(nil, 1)
		for range 3 {
			if s := h.forward(held.StepOf{}); backward {
				h.backward(s.Run)
			}
		}
		h.bind(nil) // whose spans have what the session keeps
		var got [][]byte
		for _, p := range h.b.Ports {
			if p.Role == held.RoleBuffer {
				got = append(got, bytes.Clone(p.Place))
			}
		}
		if want == nil {
			want = got
		}
		if len(got) == 0 || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("backward %v: %d running statistics, not as with it", backward, len(got))
		}
	}
}

// TestModelsThatAreNoFiles: a model in bytes, one with initializers from elsewhere and one whose file is gone after it was
// opened have the results of the file; one whose file was written to is refused.
func TestModelsThatAreNoFiles(t *testing.T) {
	path, _ := madeGPT(t, zoo.Spec{Family: "mlp", Width: 8, Inputs: 4, Classes: 3})
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, numbers := numbersOf(t, path)
	c := settingsFor(t, map[string]string{})
	c.Dims = map[string]int64{"batch": 2}
	loss := func(path string, o held.Options, then func()) float64 {
		t.Helper()
		o.Bridge = true
		opened, err := held.Open(t.Context(), path, c, o)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		then()
		h := &host{t: t, Session: opened}
		h.bind(c.Dims)
		h.feed(nil, 1)
		h.forward(held.StepOf{})
		return h.port(held.RoleOutput, "loss").Float(0)
	}
	nothing := func() {}
	want := loss(path, held.Options{}, nothing)
	if got := loss("model.onnx", held.Options{Bytes: raw}, func() { clear(raw) }); got != want {
		t.Errorf("from bytes the loss is %v, not %v", got, want)
	}
	given := map[string]*graph.Tensor{}
	opened, err := held.Open(t.Context(), path, c, held.Options{Bridge: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range opened.Params() {
		shape, _ := (&graph.Binding{}).Shape(v.Shape)
		given[v.Name] = &graph.Tensor{Type: v.Type, Shape: shape, Bytes: numbers[v.Name]}
	}
	opened.Close()
	blank := filepath.Join(t.TempDir(), "blank.onnx")
	if raw, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	for name, x := range given {
		at := bytes.Index(raw, x.Bytes)
		if at < 0 || len(x.Bytes) < 16 {
			delete(given, name)
			continue
		}
		clear(raw[at : at+len(x.Bytes)])
	}
	if err := os.WriteFile(blank, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := loss(blank, held.Options{}, nothing); got == want || len(given) == 0 {
		t.Errorf("without %d of its parameters the model has the loss %v still", len(given), got)
	}
	if got := loss(blank, held.Options{Given: given}, func() { os.Remove(blank) }); got != want {
		t.Errorf("with parameters that are given the loss is %v, not %v", got, want)
	}
	if _, err := held.Open(t.Context(), path, c, held.Options{Bridge: true, Given: map[string]*graph.Tensor{"other": graph.NewTensor(graph.Float32)}}); exit.Code(err) != exit.CodeInput {
		t.Error(err)
	}
	if opened, err = held.Open(t.Context(), path, c, held.Options{Bridge: true}); err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	x := held.Port{Name: "x", Type: graph.Float32, Shape: []int{2, 4}}
	if _, _, err := opened.Bind(t.Context(), []held.Port{x, {Name: "labels", Type: graph.Int64, Shape: []int{2}}}); exit.Code(err) != exit.CodeInput || !strings.Contains(fmt.Sprint(err), "was written to") {
		t.Error(err)
	}
}

// TestPlanningThatEnds: a host that gives up, or asks for a budget that nothing meets, has a session still.
func TestPlanningThatEnds(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "mlp", Width: 8, Inputs: 4, Classes: 3})
	c := settingsFor(t, map[string]string{"activation_budget": "64"})
	c.Dims = map[string]int64{}
	opened, err := held.Open(t.Context(), model, c, held.Options{Bridge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	batch := []held.Port{{Name: "x", Type: graph.Float32, Shape: []int{2, 4}}, {Name: "labels", Type: graph.Int64, Shape: []int{2}}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := opened.Bind(ended, batch); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var budget *planner.BudgetError
	if _, _, err := opened.Bind(t.Context(), batch); !errors.As(err, &budget) || exit.Code(err) != exit.CodeCannot {
		t.Error(err)
	}
	opened.Model().Config.ActivationBudget = configs.Budget{}
	h := &host{t: t, Session: opened}
	h.bind(map[string]int64{"batch": 2})
	if _, err := opened.Forward(ended, held.StepOf{Binding: h.b.ID}); !errors.Is(err, context.Canceled) || h.port(held.RoleOutput, "loss").Float(0) != 0 {
		t.Errorf("a pass that was given up: %v, and it wrote %v", err, h.port(held.RoleOutput, "loss").Float(0))
	}
	if h.forward(held.StepOf{}); h.port(held.RoleOutput, "loss").Float(0) == 0 {
		t.Error("no loss")
	}
	if _, err := held.Open(ended, model, c, held.Options{Bridge: true}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTrainersFileInABridge: a step that ONNX Runtime's trainer made runs pass by pass as it runs as a whole, where that has 1
// as the gradient of its loss.
func TestTrainersFileInABridge(t *testing.T) {
	path := filepath.Join("testdata", "ort", "mlp.onnx")
	c := configs.Default()
	opened, err := held.Open(t.Context(), path, c, held.Options{Bridge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	h := &host{t: t, Session: opened}
	dims := map[string]int64{}
	for _, name := range opened.Model().Graph.Names() {
		dims[name] = 4
	}
	h.bind(dims)
	h.feed(nil, 1)
	var grads int
	for _, p := range h.b.Ports {
		if p.Role == held.RoleSeed {
			p.Tensor().SetFloat(0, 1)
		}
	}
	h.backward(h.forward(held.StepOf{}).Run)
	d, err := devices.Open("cpu", h.schedule(), devices.Opening{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	in := map[string]*graph.Tensor{}
	for _, p := range h.b.Ports {
		if p.Role == held.RoleInput {
			in[p.Name] = p.Tensor()
		}
	}
	if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
		t.Fatal(err)
	}
	for _, p := range h.b.Ports {
		if p.Role != held.RoleGrad {
			continue
		}
		grads++
		k := slices.IndexFunc(h.b.Plan.Graph.Grads, func(g graph.Grad) bool { return g.Param.Name == p.Name })
		x, err := d.Output(h.b.Plan.Graph.Grads[k].Grad.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.Bytes, p.Place) || compare.Norm(x) == 0 {
			t.Errorf("the gradient of %s has other bits pass by pass, or is 0", p.Name)
		}
	}
	if grads == 0 {
		t.Error("no gradients")
	}
	if _, err := held.Open(t.Context(), path, c, held.Options{Bridge: true, Results: []string{"loss"}}); exit.Code(err) != exit.CodeInput {
		t.Error(err)
	}
}

// TestGradientsOfInputs: a bridge gives them where they are asked for, also of a model that trains nothing else, and does not
// count inputs among what is trained.
func TestGradientsOfInputs(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "mlp", Width: 8, Inputs: 4, Classes: 3})
	for _, frozen := range []string{"", "*"} {
		c := settingsFor(t, map[string]string{})
		c.Dims = map[string]int64{"batch": 2}
		if frozen != "" {
			c.Frozen = []string{frozen}
		}
		h := hold(t, model, c, held.Options{Bridge: true, Inputs: []string{"x"}})
		h.feed(nil, 1)
		h.port(held.RoleSeed, "loss").SetFloat(0, 1)
		h.backward(h.forward(held.StepOf{}).Run)
		grads := 0
		for _, p := range h.b.Ports {
			if p.Role == held.RoleGrad {
				grads++
			}
		}
		if x := h.port(held.RoleGrad, "x"); compare.Norm(x) == 0 || grads != len(h.Params())+1 || (frozen == "") != (len(h.Params()) > 0) || slices.Contains(h.Trains().Names, "x") {
			t.Errorf("%d gradients of %d parameters; that of x has the norm %v; trained: %v", grads, len(h.Params()), compare.Norm(x), h.Trains().Names)
		}
	}
	c := settingsFor(t, map[string]string{})
	for _, name := range []string{"labels", "loss", "fc1.weight", "other"} {
		if _, err := held.Open(t.Context(), model, c, held.Options{Bridge: true, Inputs: []string{name}}); exit.Code(err) != exit.CodeInput || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := held.Open(t.Context(), model, c, held.Options{Bridge: true, Results: []string{"loss", name}}); exit.Code(err) != exit.CodeInput || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUpdatesThatAreLeftOut: a step whose scaled gradients are no numbers says that it updated nothing.
func TestUpdatesThatAreLeftOut(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "mlp", Width: 8, Inputs: 4, Classes: 3})
	c := settingsFor(t, map[string]string{"loss_scale": "auto", "optimizer": "sgd"})
	c.Dims = map[string]int64{"batch": 2}
	h := hold(t, model, c, held.Options{})
	for _, x := range []float64{1, math.Inf(1), 1} {
		h.feed(nil, 1)
		h.port(held.RoleInput, "x").SetFloat(0, x)
		s, err := h.Step(t.Context(), held.StepOf{Binding: h.b.ID, LR: 0.1})
		if err != nil || s.Skipped != math.IsInf(x, 0) {
			t.Errorf("with %v: skipped %v, %v", x, s.Skipped, err)
		}
	}
	if s := h.Stats(); s.Skipped != 1 || s.Steps != 3 || s.LossScale != 32768 {
		t.Errorf("%+v", s)
	}
}
