package memopt

import (
	"slices"
	"strings"
	"testing"

	"memopt/internal/loader"
	"memopt/memopt/forward"
	"memopt/memopt/held"
	"memopt/memopt/phases"
	"memopt/memopt/session"
	"memopt/memopt/training"
)

// TestLoadModes: in every load mode training has the losses that it has when weights are streamed, loading takes
// what the mode's formula promises, to the byte, and so does each phase of the run.
func TestLoadModes(t *testing.T) { loadModes(t, "cpu") }

func TestVulkanLoadModes(t *testing.T) { loadModes(t, vulkanDevice(t)) }

// TestVulkanLoadModesHidden: the processor cannot address the device's memory.
func TestVulkanLoadModesHidden(t *testing.T) {
	device := vulkanDevice(t)
	t.Setenv("MEMOPT_VULKAN_HIDDEN", "1")
	loadModes(t, device)
}

func loadModes(t *testing.T, device string) {
	model, data := madeGPT(t, gpt)
	var plain *training.Result
	for _, mode := range loader.Modes() {
		t.Run(mode, func(t *testing.T) {
			train := func(with *phases.Record) (*training.Result, error) {
				m, err := OpenRecorded(t.Context(), with, model, settingsFor(t, map[string]string{"device": device, "load_mode": mode, "chunk": "70000"}))
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				p, err := m.Plan()
				if err != nil {
					t.Fatal(err)
				}
				return Run(m, p, training.Options{Steps: 3, LR: 1e-2, Data: data, Phases: with})
			}
			r, err := train(nil)
			if err != nil {
				if mode == string(loader.InPlace) && strings.Contains(err.Error(), "cannot address") {
					return
				}
				t.Fatal(err)
			}
			if plain == nil {
				plain = r
			}
			if !slices.Equal(r.Losses, plain.Losses) {
				t.Errorf("losses %v, streamed %v", r.Losses, plain.Losses)
			}
			l := r.Load
			if l == nil || l.Mode != loader.Mode(mode) || l.Promised != l.Measured || l.W == 0 || l.Largest == 0 || l.A != r.Plan.Arena+r.Plan.Memory.Staging {
				t.Fatalf("%+v", l)
			}
			if reads := l.Mode.Reads(); reads != (l.Promised > l.W+l.A) && l.C == 0 && l.Mode != loader.Lazy {
				t.Errorf("%+v", l)
			}
			with, err := phases.New(device)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = train(with); err != nil {
				t.Fatal(err)
			}
			asPromised(t, r, []string{"P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "T1", "T2", "T3", "T4", "U1"})
			for _, row := range r.Phases.Rows {
				if row.Name == "P5" && (row.Copies.High > 0) != l.Mode.Reads() {
					t.Errorf("%d bytes of copies", row.Copies.High)
				}
			}
		})
	}
	c := settingsFor(t, map[string]string{"device": device, "load_mode": "all"})
	m, err := OpenContext(t.Context(), model, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := m.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(m, p, training.Options{Steps: 1, Data: data}); err == nil || !strings.Contains(err.Error(), "load-mode") {
		t.Errorf("all modes at once: %v", err)
	}
}

// TestHeldLoadMode: the service's steps load by the setting, and tell what that took.
func TestHeldLoadMode(t *testing.T) {
	for _, mode := range loader.Modes() {
		model, _ := madeGPT(t, gpt)
		c := settingsFor(t, map[string]string{"load_mode": mode, "device": "cpu"})
		h := hold(t, model, c, held.Options{})
		h.feed(nil, 1)
		if _, err := h.Step(t.Context(), held.StepOf{Binding: h.b.ID}); err != nil {
			t.Fatal(err)
		}
		if l := h.Stats().Load; l == nil || l.Mode != loader.Mode(mode) || l.Promised != l.Measured || l.W == 0 {
			t.Errorf("%s: %+v", mode, l)
		}
	}
}

// TestForwardLoadModes: so does a forward session, on a device with its own memory in every mode, on the processor in
// those that it has a use for: weights are read where their file is mapped, or into memory.
func TestForwardLoadModes(t *testing.T) {
	model, _ := madeGPT(t, gpt)
	var want []byte
	run := func(device, mode string) (*forward.Ran, error) {
		c := settingsFor(t, map[string]string{"device": device, "load_mode": mode})
		s, err := forward.Open(t.Context(), session.Model{Path: model}, c, "")
		if err != nil {
			return nil, err
		}
		defer s.Close()
		r, err := forward.Run(t.Context(), s, c, forward.Running{Repeat: 2})
		if err != nil {
			return nil, err
		}
		if bytes := slices.Clone(r.Outputs[0].Bytes); want == nil {
			want = bytes
		} else if !slices.Equal(bytes, want) {
			t.Errorf("%s, %s: other bits", device, mode)
		}
		return r, nil
	}
	for _, mode := range loader.Modes() {
		r, err := run("cpu", mode)
		switch mode := loader.Mode(mode); mode {
		case loader.Eager, loader.Lazy:
			if err == nil || !strings.Contains(err.Error(), "load mode "+string(mode)) || !strings.Contains(err.Error(), "use streamed") {
				t.Errorf("%s: %v", mode, err)
			}
			continue
		case loader.Streamed:
			if err == nil && r.Stats.Load != nil {
				t.Errorf("%+v, and nothing was loaded", r.Stats.Load)
			}
		case loader.InPlace:
			if err != nil {
				break
			}
			w := r.Stats.Weights
			if l := r.Stats.Load; l == nil || l.Mode != mode || l.Promised != l.Measured || l.W != w.Copied+w.Folded || l.W == 0 || l.A == 0 || w.Mapped != 0 {
				t.Errorf("%+v, %+v", l, w)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Promised != r.Measured {
			t.Errorf("%s: promised %+v, measured %+v", mode, r.Promised, r.Measured)
		}
	}
	device := vulkanDevice(t)
	want = nil
	for _, mode := range loader.Modes() {
		r, err := run(device, mode)
		if err != nil {
			t.Fatal(err)
		}
		if l := r.Stats.Load; l == nil || l.Mode != loader.Mode(mode) || l.Promised != l.Measured || l.W == 0 {
			t.Errorf("%s: %+v", mode, l)
		}
		if r.Promised != r.Measured {
			t.Errorf("%s: promised %+v, measured %+v", mode, r.Promised, r.Measured)
		}
	}
}
