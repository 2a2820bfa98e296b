package step

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"

	"memopt/internal/graph"
	"memopt/internal/whole"
	"memopt/memopt/exit"
	"memopt/planner/forms"
	"memopt/planner/planfile"
	"memopt/planner/profile"
)

// ProfileFormat is the format and version of profiles.
const ProfileFormat = "memopt.profile/1"

// NodeTimes has the times of a step's nodes on a device.
type NodeTimes struct {
	Format      string           `json:"format"`
	Device      string           `json:"device"`
	Fingerprint string           `json:"fingerprint"`
	Dims        map[string]int64 `json:"dims"`
	Runs        int              `json:"runs"`
	Nodes       []NodeTime       `json:"nodes"`
	Program     []string         `json:"program"`
}

// NodeTime is the median time of a node, and its cost by flops and bytes under the profile's dims. Their
// quotient is a rate, which is used under other dims too.
type NodeTime struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Units   float64 `json:"units"`
}

// mostProfile bounds the size of a profile.
const mostProfile = 1 << 28

// UseProfile makes the times in a file the costs of the model's plans: those of its nodes, as train --record measured
// them, and Profiled is then their device, or those of a device's profile: of one in the file, or the measured or the shipped one. It refuses times of another graph.
func (m *Model) UseProfile(path string) error {
	if path == profileMeasured || path == profileShipped {
		if m.Config.Cost == costFlops {
			return exit.Input(fmt.Errorf("the profile is to be the %s one, and %s counts flops and bytes: leave one out", path, m.Config.Name("cost")))
		}
		return m.useDevice(path)
	}
	name := filepath.Base(path)
	data, err := whole.Read(path, "a profile", mostProfile)
	if err != nil {
		return exit.Input(fmt.Errorf("%s: %w", path, err))
	}
	var f NodeTimes
	if err := json.Unmarshal(data, &f); err != nil {
		return exit.Input(fmt.Errorf("%s is not a profile: %w", name, err))
	}
	if f.Format == profile.Format {
		if m.Config.Cost == costFlops {
			return exit.Input(fmt.Errorf("%s is the profile of a device, and %s counts flops and bytes: leave one out", name, m.Config.Name("cost")))
		}
		p, err := profile.Parse(data)
		if err != nil {
			return exit.Input(fmt.Errorf("%s: %w", name, err))
		}
		m.priceBy(p)
		return nil
	}
	if f.Format != ProfileFormat {
		return exit.Input(fmt.Errorf("%s has format %q; a profile has %q", name, f.Format, ProfileFormat))
	}
	if err := m.sameForm(&f); err != nil {
		if form := m.inOtherForm(&f); form != nil {
			err = form
		}
		return exit.Cannot(fmt.Errorf("%s: %w", name, err))
	}
	rates := map[string]float64{}
	for i, n := range f.Nodes {
		if !(n.Seconds >= 0) || !(n.Units >= 0) || math.IsInf(n.Seconds, 0) || math.IsInf(n.Units, 0) {
			return exit.Input(fmt.Errorf("%s: node %d, %q, has %v seconds for %v units of work", name, i, n.Name, n.Seconds, n.Units))
		}
		if n.Units > 0 {
			rates[n.Name] = n.Seconds / n.Units
		}
		if math.IsInf(rates[n.Name], 0) {
			return exit.Input(fmt.Errorf("%s: node %d, %q, has %v seconds for only %v units of work", name, i, n.Name, n.Seconds, n.Units))
		}
	}
	if len(rates) == 0 {
		return exit.Input(fmt.Errorf("%s: the profile has no times of nodes", name))
	}
	m.Costs, m.Profiled, m.Priced = rates, f.Device, nil
	return nil
}

// sameForm reports how a profile's graph differs from the model's, in its own form.
func (m *Model) sameForm(f *NodeTimes) error {
	own, err := m.Steps.Own(m.Ask())
	if err != nil {
		return err
	}
	return f.ofForm(own)
}

// ofForm reports how a profile's graph differs from a form, with or without values stored in fewer bytes.
func (f *NodeTimes) ofForm(form *forms.Form) error {
	err := f.of(form.Graph)
	if most, may := form.Most(); err != nil && may && f.of(most) == nil {
		return nil
	}
	return err
}

// inOtherForm says which settings select the form of the step that the profile was recorded on, if the model has
// that form: plans with measured times keep to one form.
func (m *Model) inOtherForm(f *NodeTimes) error {
	others, err := m.Steps.Others(m.Ask())
	if err != nil {
		return nil
	}
	for other := range others {
		if f.ofForm(other) == nil {
			return fmt.Errorf("in the profile %s: plan with %s, or record with %s", other.Does(), other.With(), other.Without())
		}
	}
	return nil
}

// of reports how a profile's graph differs from g.
func (f *NodeTimes) of(g *graph.Graph) error {
	if f.Fingerprint == g.Fingerprint() {
		return nil
	}
	lines := planfile.Program(g)
	for i, line := range lines {
		switch {
		case i >= len(f.Program):
			return fmt.Errorf("the profile is of another graph: it ends before node %d: %s", i, line)
		case f.Program[i] != line:
			return fmt.Errorf("the profile is of another graph; the first difference is node %d: the profile has %s; the model has %s", i, f.Program[i], line)
		}
	}
	return fmt.Errorf("the profile is of another graph: its nodes begin the same, but more of it differs")
}
