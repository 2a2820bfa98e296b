package memopt

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/memopt/tensorfile"
	"memopt/memopt/zoo"
	"memopt/planner"
)

// host is somebody who has a step held open: bytes of its own for every tensor of a binding.
type host struct {
	t *testing.T
	*Held
	b *Binding
}

// hold opens a model and binds it to the shapes that it has under the settings' dims.
func hold(t *testing.T, path string, c configs.Config, o HoldOptions) *host {
	t.Helper()
	h, err := Hold(t.Context(), path, c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	x := &host{t: t, Held: h}
	x.bind(c.Dims)
	return x
}

func (h *host) bind(dims map[string]int64) {
	h.t.Helper()
	var batch []Port
	binding, err := graph.Bind(dims)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, v := range h.Inputs() {
		shape, err := binding.Shape(v.Shape)
		if err != nil {
			h.t.Fatal(err)
		}
		batch = append(batch, Port{Name: v.Name, Type: v.Type, Shape: shape})
	}
	h.b, _, err = h.Bind(h.t.Context(), batch)
	var budget *planner.BudgetError
	if errors.As(err, &budget) && budget.Best > 0 {
		h.m.Config.ActivationBudget = configs.Budget{Bytes: budget.Best}
		h.b, _, err = h.Bind(h.t.Context(), batch)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var places [][]byte
	for i := range h.b.Ports {
		p := &h.b.Ports[i]
		x := graph.NewTensor(p.Type, p.Shape...)
		if p.Role.kept() {
			if err := h.Sync([]Port{{Name: p.Name, Type: p.Type, Shape: p.Shape, Place: x.Bytes}}, false); err != nil {
				h.t.Fatal(err)
			}
		}
		places = append(places, x.Bytes)
	}
	if err := h.Place(h.b.ID, places); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) port(role Role, name string) *graph.Tensor {
	h.t.Helper()
	for i := range h.b.Ports {
		if p := &h.b.Ports[i]; p.Role == role && p.Name == name {
			return p.tensor()
		}
	}
	h.t.Fatalf("no %s %q", role, name)
	return nil
}

// feed gives the inputs a batch of a data file, or made-up numbers.
func (h *host) feed(data *tensorfile.Set, seed uint64) {
	h.t.Helper()
	feed, err := newFeeder(h.b.Plan.Graph, h.b.schedule.Binding, data, seed)
	if err != nil {
		h.t.Fatal(err)
	}
	for name, x := range feed.inputs(0) {
		copy(h.port(RoleInput, name).Bytes, x.Bytes)
	}
}

func (h *host) forward(r StepOf) Stepped {
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
	if _, err := h.Backward(h.t.Context(), StepOf{Binding: h.b.ID, Run: run}); err != nil {
		h.t.Fatal(err)
	}
}

// heldCases are models, and where their data is.
func heldCases(t *testing.T) map[string][2]string {
	gptModel, gptData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 4, Vocab: 64, Dropout: 0.1})
	wordyModel, wordyData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 1000})
	resnet, pictures := madeGPT(t, zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16})
	return map[string][2]string{"gpt": {gptModel, gptData}, "gpt of many words": {wordyModel, wordyData}, "resnet": {resnet, pictures},
		"mlp": {filepath.Join("testdata", "models", "mlp", "model.onnx"), ""}}
}

// TestBridgeHasTheBitsOfAStep: two passes with a host between them, with 1 as the gradient of the loss, come to the loss,
// gradients and running statistics of the step as a whole, on each device, with and without a budget.
func TestBridgeHasTheBitsOfAStep(t *testing.T) {
	for name, files := range heldCases(t) {
		for _, kind := range []string{"cpu", "vulkan"} {
			for _, budget := range []string{"", "70%"} {
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
					h := hold(t, files[0], c, HoldOptions{Bridge: true}) // or under what comes near it
					h.feed(data, c.Seed)
					c.ActivationBudget = configs.Budget{}
					only, err := gradientModel(&Model{Path: files[0], Config: c})
					if err != nil {
						t.Fatal(err)
					}
					want, _, err := only.gradients(data)
					if err != nil {
						t.Fatal(err)
					}
					defer want.Close()
					loss := h.Outputs()[0].Name
					h.port(RoleSeed, loss).SetFloat(0, 1)
					var changed []int32
					var before [][]byte
					for i, p := range h.b.Ports {
						if p.Role == RoleBuffer {
							changed, before = append(changed, int32(i)), append(before, bytes.Clone(p.Place))
						}
					}
					for range 2 { // the second time from the statistics that the file has, which the host brings back
						for k, i := range changed {
							copy(h.b.Ports[i].Place, before[k])
						}
						s := h.forward(StepOf{Seed: c.Seed, Changed: changed})
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
	same(h.port(RoleOutput, loss), "loss")
	n := 0
	for _, p := range h.b.Ports {
		switch p.Role {
		case RoleGrad:
			same(p.tensor(), "grad."+p.Name)
			n++
		case RoleBuffer:
			same(p.tensor(), "after."+p.Name)
		}
	}
	if n == 0 || n != len(h.Params()) {
		t.Errorf("%d gradients of %d parameters", n, len(h.Params()))
	}
}
