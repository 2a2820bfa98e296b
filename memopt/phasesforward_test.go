package memopt

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"memopt/internal/loader"
	"memopt/memopt/devices"
	"memopt/memopt/forward"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/phases"
	"memopt/memopt/session"
)

// TestForwardPhases: in every phase of runs the device holds at most what was promised for it, to the byte where nothing is
// shared, all is gone at the end, and the results are those of runs that nobody looks at.
func TestForwardPhases(t *testing.T) { forwardAsPromised(t, "cpu") }

func TestVulkanForwardPhases(t *testing.T) { forwardAsPromised(t, vulkanDevice(t)) }

func forwardAsPromised(t *testing.T, device string) {
	spec := zoo.Spec{Family: "gpt", Layers: 1, Width: 64, Heads: 4, Vocab: 64}
	model, data := madeGPT(t, spec)
	spec.Layers = 2
	other, _ := madeGPT(t, spec)
	lowered := devices.Lowered(device)
	opened := []string{"P2", "P3", "P3a"}
	planned := []string{"P4", "P7", "R1"}
	if lowered {
		opened, planned = opened[:2], []string{"P4", "P5", "P7", "R1"}
	}
	list := func(parts ...any) (all []string) {
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				all = append(all, strings.Fields(p)...)
			case []string:
				all = append(all, p...)
			}
		}
		return all
	}
	bound := list("P0 P1", opened, "P3b P3c", planned, "RN RU U1 U3")
	if lowered {
		bound = list("P0 P1", opened, "P3b P3c P4 P4a P5 P7 R1 RN RU U1 U3")
	}
	for _, x := range []struct {
		name   string
		fields map[string]string
		f      forward.Running
		beside bool
		rows   []string
		loose  bool // less than was promised may be there
	}{
		{"plain", nil, forward.Running{Data: data, Repeat: 3}, false, list("P0 P1", opened, "P3b", planned, "RN U1 U3"), false},
		{"once", nil, forward.Running{}, false, list("P0 P1", opened, "P3b", planned, "U1 U3"), false},
		{"shrink", nil, forward.Running{Data: data, Shrink: true}, false, list("P0 P1", opened, "P3b", planned, "RS U1 U3"), false},
		{"bound", nil, forward.Running{Data: data, Bind: "device", Repeat: 2}, false, bound, false},
		{"imported", nil, forward.Running{Bind: "import", Repeat: 2}, false, bound, false},
		{"lent", map[string]string{"enable_mem_pattern": "off"}, forward.Running{Data: data, Repeat: 2}, false, list("P0 P1", opened, "P3b", planned, "RN U1 U3"), true},
		{"doubling", map[string]string{"arena_extend_strategy": "kNextPowerOfTwo"}, forward.Running{Data: data}, false, list("P0 P1", opened, "P3b", planned, "U1 U3"), lowered},
		{"no arena", map[string]string{"enable_cpu_mem_arena": "off"}, forward.Running{Data: data, Repeat: 2}, false, list("P0 P1", opened, "P3b", planned, "RN U1 U3"), false},
		{"beside", nil, forward.Running{Data: data, Repeat: 2}, true, list("P0 P1", opened, opened, "P3b", planned, planned, "RN U1 U3"), true},
	} {
		t.Run(x.name, func(t *testing.T) {
			fields := map[string]string{"device": device}
			for name, value := range x.fields {
				fields[name] = value
			}
			c := settingsFor(t, fields)
			run := func(p *phases.Record) (*forward.Ran, []byte, *phases.Table) {
				t.Helper()
				arena := ""
				if x.beside {
					arena = "forward phases"
				}
				s, err := forward.OpenRecorded(t.Context(), p, session.Model{Path: model, Arena: arena}, c, x.f.Data)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				f := x.f
				if f.Phases = p; x.beside {
					o, err := forward.OpenRecorded(t.Context(), p, session.Model{Path: other, Arena: arena}, c, "")
					if err != nil {
						t.Fatal(err)
					}
					defer o.Close()
					f.Beside = []*session.Session{o}
				}
				r, err := forward.Run(t.Context(), s, c, f)
				if err != nil {
					t.Fatal(err)
				}
				loss := bytes.Clone(r.Outputs[0].Bytes)
				for _, o := range append(f.Beside, s) {
					if err := o.Close(); err != nil {
						t.Fatal(err)
					}
				}
				return r, loss, p.Close(r.Device)
			}
			_, want, _ := run(nil)
			p, err := phases.NewForward(device)
			if err != nil {
				t.Fatal(err)
			}
			r, loss, table := run(p)
			if !bytes.Equal(loss, want) {
				t.Errorf("the loss is %x, and %x where nobody looks", loss, want)
			}
			var names []string
			for _, row := range table.Rows {
				names = append(names, row.Name)
				last := row.Name[0] == 'U'
				if row.Device.High > row.Promised && !last || row.Device.High < row.Promised && !x.loose || last && row.Device.Point != 0 {
					t.Errorf("%s: the device holds %d, at most %d, and %d were promised", row.Name, row.Device.Point, row.Device.High, row.Promised)
				}
				sum := int64(0)
				for _, o := range row.Owners {
					if o.Owner != loader.Other {
						sum += o.Requested
					}
				}
				if sum != row.Device.Point || len(row.Owners) != len(loader.Classes) {
					t.Errorf("%s: owners have %d of %d bytes", row.Name, sum, row.Device.Point)
				}
			}
			if !slices.Equal(names, x.rows) {
				t.Errorf("phases are %v, not %v", names, x.rows)
			}
			if end := table.Rows[len(table.Rows)-1]; end.Granted.Point != 0 || end.Copies.Point != 0 {
				t.Errorf("at the end, %+v is granted, and %+v are copies", end.Granted, end.Copies)
			}
			parts := table.Parts
			if parts.M != parts.W+parts.A+parts.IO || parts.W != r.Promised.Weights || parts.M < r.Promised.Total {
				t.Errorf("%+v, and %+v were promised", parts, r.Promised)
			}
		})
	}
}
