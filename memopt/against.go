package memopt

import (
	"slices"

	"memopt/memopt/graph"
	"memopt/memopt/tensorfile"
	"memopt/memopt/weights"
	"memopt/planner"
)

// Parting is a value at which two devices part: it differs by more than a limit,
// and what it is computed from does not. One element of thousands, beside a zero,
// is a tie that was rounded the other way: of Relu, of a pool, of a place.
type Parting struct {
	Value  string
	Node   string
	Op     string
	Shape  []int
	RelErr float64 // by norm
	Off    int     // elements that differ by more than the limit, relative to themselves
}

// Against runs the step of Gradients on the model's device and on another, with
// everything kept, and lists the values at which they part, in order.
func Against(m *Model, reference, device string, limit float64) (all []Parting, err error) {
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	var data *tensorfile.Set
	if reference != "" {
		if data, err = tensorfile.ReadNPZ(reference); err != nil {
			return nil, input(err)
		}
		defer data.Close()
		defer weights.Guard(&err)() // before it is unmapped
	}
	only, err := gradientModel(m)
	if err != nil {
		return nil, err
	}
	if data != nil {
		only.Config.Dims = sizesFrom(only.Graph, data, only.Config.Dims)
	}
	for _, v := range only.Graph.Values {
		if v.Kind == graph.Computed && !slices.Contains(only.Graph.Outputs, v) {
			only.Graph.Outputs = append(only.Graph.Outputs, v)
		}
	}
	var sides []Device
	for _, name := range []string{only.Config.Device, device} {
		d, err := only.stepOn(name, data)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		sides = append(sides, d)
	}
	return partings(only.Graph, sides[0].Output, sides[1].Output, limit)
}

// stepOn is a device that has done the step, with everything kept.
func (m *Model) stepOn(device string, data *tensorfile.Set) (Device, error) {
	p, err := planner.Make(m.Graph, planner.Request{Dims: m.Config.Dims, Strategy: "keep-all", Lowered: Lowered(device)})
	if err != nil {
		return nil, err
	}
	s, err := p.Schedule()
	if err != nil {
		return nil, err
	}
	d, err := openDevice(device, m.Config.FastPaths, s)
	if err != nil {
		return nil, err
	}
	feed, err := newFeeder(m.Graph, s.Binding, data, m.Config.Seed)
	if err == nil {
		_, err = d.Run(planner.Run{Inputs: feed.inputs(0), Seed: m.Config.Seed})
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// partings compares all that is computed, by two ways to get at a value.
func partings(g *graph.Graph, ours, theirs func(name string) (*graph.Tensor, error), limit float64) (all []Parting, err error) {
	apart := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		late := slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return apart[v] })
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			x, err := ours(v.Name)
			if err != nil {
				return nil, err
			}
			y, err := theirs(v.Name)
			if err != nil {
				return nil, err
			}
			e := relErr(x, y, 0)
			if apart[v] = !(e <= limit); !apart[v] || late {
				continue
			}
			p := Parting{Value: v.Name, Node: n.Name, Op: n.Op.FullName(), Shape: x.Shape, RelErr: e}
			for i := range x.Len() {
				a, b := x.Float(i), y.Float(i)
				if d := a - b; !(d <= limit*max(a, -a) && -d <= limit*max(a, -a)) {
					p.Off++
				}
			}
			all = append(all, p)
		}
	}
	return all, nil
}
