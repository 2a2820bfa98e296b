package memopt

import (
	"path/filepath"
	"slices"
	"testing"

	"memopt/internal/loader"
	"memopt/memopt/phases"
	"memopt/memopt/training"
)

// TestPhases: in every phase of a run the device holds what was promised for it, to the byte, gradients and optimizer states
// are there when they are first needed and not before, and the losses are those of a run that nobody looks at.
func TestPhases(t *testing.T) { phasesAsPromised(t, "cpu") }

func TestVulkanPhases(t *testing.T) { phasesAsPromised(t, vulkanDevice(t)) }

func phasesAsPromised(t *testing.T, device string) {
	model, data := madeGPT(t, gpt)
	for name, fields := range map[string]map[string]string{
		"plain":       {},
		"clipped":     {"optimizer": "adamw", "clip_norm": "1"},
		"accumulated": {"accumulate": "3"},
		"budget":      {"activation_budget": "60%"},
		"scaled":      {"loss_scale": "auto"},
		"sgd":         {"optimizer": "sgd"},
	} {
		t.Run(name, func(t *testing.T) {
			fields["device"] = device
			c := settingsFor(t, fields)
			train := func(with *phases.Record, resume, save string) *training.Result {
				t.Helper()
				m, err := OpenRecorded(t.Context(), with, model, c)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				p, err := m.Plan()
				if err != nil {
					t.Fatal(err)
				}
				r, err := Run(m, p, training.Options{Steps: 5, LR: 1e-2, Data: data, Save: save, Resume: resume, Phases: with})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			begin := func() *phases.Record {
				p, err := phases.New(device)
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			saved := filepath.Join(t.TempDir(), "saved.st")
			plain := train(nil, "", "")
			r := train(begin(), "", saved)
			if !slices.Equal(plain.Losses, r.Losses) {
				t.Errorf("losses are %v, and %v where nobody looks", r.Losses, plain.Losses)
			}
			asPromised(t, r, []string{"P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "T1", "T2", "T3", "T4", "T4N", "T5", "U1"})
			parts, rows := r.Phases.Parts, map[string]loader.Phase{}
			for _, p := range r.Phases.Rows {
				rows[p.Name] = p
			}
			if parts.M != r.Plan.Memory.Total || parts.M != parts.W+parts.G+parts.O+parts.A+parts.IO {
				t.Errorf("%+v, and the plan's total is %d", parts, r.Plan.Memory.Total)
			}
			if states := r.Plan.Memory.Optimizer; parts.O > 0 && (parts.Zeroed < states || parts.Uploaded > parts.W+64) {
				t.Errorf("%d bytes brought, %d filled with zeros; %d are states", parts.Uploaded, parts.Zeroed, states)
			}
			if o := rows["T1"].Owned("optimizer").Requested; o != parts.Early || o > 1024 {
				t.Errorf("before the first update, %d bytes are there for the optimizer", o)
			}
			if name == "clipped" && rows["T2"].Device.Point+parts.O-parts.Early != rows["T3"].Device.Point {
				t.Errorf("T2 holds %d, T3 %d, and the optimizer's are %d", rows["T2"].Device.Point, rows["T3"].Device.Point, parts.O)
			}
			if name == "accumulated" && rows["T1"].Device.Point+parts.G > rows["T2"].Device.Point {
				t.Errorf("T1 holds %d, T2 %d, and gradients are %d", rows["T1"].Device.Point, rows["T2"].Device.Point, parts.G)
			}
			r = train(begin(), saved, "")
			asPromised(t, r, []string{"P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "T1", "T2", "T3", "T4", "T4N", "U1"})
		})
	}
}

func asPromised(t *testing.T, r *training.Result, want []string) {
	t.Helper()
	var names []string
	for _, p := range r.Phases.Rows {
		names = append(names, p.Name)
		if p.Name != "U1" && p.Device.High != p.Promised || p.Device.Point != p.Promised {
			t.Errorf("%s: the device holds %d, at most %d, and %d were promised", p.Name, p.Device.Point, p.Device.High, p.Promised)
		}
		if p.Granted.Point < p.Device.Point {
			t.Errorf("%s: %d bytes granted of %d", p.Name, p.Granted.Point, p.Device.Point)
		}
		sum := int64(0)
		for _, o := range p.Owners {
			if o.Owner != loader.Other {
				sum += o.Requested
			}
		}
		if sum != p.Device.Point || len(p.Owners) != len(loader.Classes) {
			t.Errorf("%s: owners have %d of %d bytes", p.Name, sum, p.Device.Point)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("phases are %v, not %v", names, want)
	}
}
