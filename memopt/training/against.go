package training

import (
	"slices"

	"memopt/internal/compare"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/internal/weights"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/step"
	"memopt/planner"
)

// Against runs the step of Gradients on the model's device and on another, storing every value, and lists in
// execution order the values that differ by more than limit.
func Against(m *step.Model, reference, device string, limit float64) (all []compare.Parting, err error) {
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	var data *tensorfile.Set
	if reference != "" {
		if data, err = tensorfile.ReadNPZ(reference); err != nil {
			return nil, exit.Input(err)
		}
		defer data.Close()
		defer weights.Guard(&err)() // before it is unmapped
	}
	only, err := GradientModel(m)
	if err != nil {
		return nil, err
	}
	if data != nil {
		only.Config.Dims = feed.Sizes(only.Graph, data, only.Config.Dims)
	}
	for _, v := range only.Graph.Values {
		if v.Kind == graph.Computed && !slices.Contains(only.Graph.Outputs, v) {
			only.Graph.Outputs = append(only.Graph.Outputs, v)
		}
	}
	var sides []*Loaded
	for _, name := range []string{only.Config.Device, device} {
		d, err := stepOn(only, name, data)
		if err != nil {
			return nil, err
		}
		defer d.End()
		sides = append(sides, d)
	}
	return compare.Partings(only.Graph, sides[0].Output, sides[1].Output, limit)
}

// stepOn runs the step once on a device, storing every value, and returns the device.
func stepOn(m *step.Model, device string, data *tensorfile.Set) (*Loaded, error) {
	p, err := planner.Make(m.Graph, planner.Request{Dims: m.Config.Dims, Strategy: "keep-all", Lowered: devices.Lowered(device)})
	if err != nil {
		return nil, err
	}
	alone := *m
	alone.Config.Device, alone.Config.FuseChains = device, "off" // so that values inside chains can be compared too
	l, err := Load(&alone, p, func(s *schedule.Schedule) (devices.Device, error) { return openDevice(&alone, s) })
	if err != nil {
		return nil, err
	}
	if _, _, err := l.once(data, m.Config.Seed); err != nil {
		l.End()
		return nil, err
	}
	return l, nil
}
