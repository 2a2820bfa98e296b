package memopt

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/memopt/compare"
	"memopt/memopt/graph"
	"memopt/memopt/tensorfile"
	"memopt/memopt/weights"
	"memopt/planner"
	"memopt/planner/forms"
)

// Check is one step beside a reference: loss and every gradient.
type Check struct {
	Device string
	Loss   float64
	compare.Difference
	Plan   *planner.Plan
	Trace  planner.Trace
	Memory *DeviceMemory // nil if no driver gave it
	// Anonymous is the memory that was seen so far; nil where the system does not tell
	// it. The set of numbers ends the watch when it is closed.
	Anonymous func() *Anonymous
	Lossy     *compare.Rounding // nil if nothing is

	samples map[string]*graph.Tensor // next statistics by those of the sample, by state
}

// Gradients runs one step without an update and returns loss and gradients
// under the names of a reference file: loss, grad.NAME, after.NAME, input.NAME. They
// stay on the device, and reference in its mapping, until the set is closed.
// reference gives the inputs, and is compared with if it has more; then the step must
// be of as many rows.
func Gradients(m *Model, reference string) (set *tensorfile.Set, check *Check, err error) {
	defer m.unchanged(&err)
	var data, out *tensorfile.Set
	if reference != "" {
		if data, err = tensorfile.ReadNPZ(reference); err != nil {
			return nil, nil, input(err)
		}
	}
	defer func() {
		if err != nil {
			out.Close()
			data.Close()
		}
	}()
	defer weights.Guard(&err)() // before data is unmapped
	only, err := gradientModel(m)
	if err != nil {
		return nil, nil, err
	}
	if data != nil {
		only.Config.Dims = sizesFrom(only.Graph, data, only.Config.Dims)
		if err := only.takesAll(data, filepath.Base(reference)); err != nil {
			return nil, nil, err
		}
	}
	out, c, err := only.gradients(data)
	if err != nil {
		return nil, nil, err
	}
	closed := out.Closed
	out.Closed = func() { closed(); data.Close() }
	if c.Plan.Form.Rounded > 0 {
		if c.Lossy, err = only.lossyError(out, c.Plan, data); err != nil {
			return nil, nil, err
		}
	}
	if data == nil {
		return out, c, nil
	}
	if c.Difference, err = compare.Sets(out, data, c.samples, filepath.Base(reference)); err != nil {
		return nil, nil, input(err)
	}
	return out, c, nil
}

// takesAll refuses a reference of which the step would take some rows only: its loss
// and gradients are of all.
func (m *Model) takesAll(data *tensorfile.Set, file string) error {
	if !slices.ContainsFunc(data.Names, func(name string) bool { return name == "loss" || strings.HasPrefix(name, "grad.") }) {
		return nil
	}
	b, err := graph.Bind(m.Config.Dims)
	if err != nil {
		return input(err)
	}
	for _, v := range m.Graph.Inputs {
		x := array(data, v.Name)
		shape, err := b.Shape(v.Shape)
		if x == nil || err != nil || len(shape) == 0 || len(x.Shape) != len(shape) || x.Shape[0] <= shape[0] {
			continue // what is wrong otherwise is told where data is matched with the model
		}
		rows := func(n int) string {
			if name, is := nameOf(v.Shape[0]); is {
				return fmt.Sprintf("%s=%d", name, n)
			}
			return fmt.Sprintf("%d rows of %q", n, v.Name)
		}
		return input(fmt.Errorf("%s holds one step of %s, whose loss and gradients are of all its rows; it cannot be compared with a step of %s",
			file, rows(x.Shape[0]), rows(shape[0])))
	}
	return nil
}

// gradients plans a model of gradientModel and runs its step. The device keeps the
// numbers until the set is closed.
func (only *Model) gradients(data *tensorfile.Set) (out *tensorfile.Set, c *Check, err error) {
	p, err := only.Plan()
	if err != nil {
		return nil, nil, err
	}
	d, err := only.load(p, only.openDevice)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if c == nil { // it failed
			d.close()
		}
	}()
	trace, feed, err := d.once(data, only.Config.Seed)
	if err != nil {
		return nil, nil, err
	}
	step := p.Graph // of the form that was chosen
	in := feed.inputs(0)
	loss, err := d.Output(step.Loss.Name)
	if err != nil {
		return nil, nil, err
	}
	out = &tensorfile.Set{Closed: d.close}
	for _, name := range feed.names {
		x := in[name]
		out.Lend("input."+name, x.Type, x.Shape, func(w io.Writer) error {
			if _, err := w.Write(x.Bytes); err != nil {
				return err
			}
			return data.Unchanged()
		})
	}
	if err := lend(out, "loss", step.Loss, d.schedule.Binding, d.WriteOutput); err != nil {
		return nil, nil, err
	}
	for _, g := range step.Grads {
		if err := lend(out, "grad."+g.Param.Name, g.Grad, d.schedule.Binding, d.WriteOutput); err != nil {
			return nil, nil, err
		}
	}
	for _, u := range step.Updates {
		if err := lend(out, "after."+u.State.Name, u.State, d.schedule.Binding, d.WriteState); err != nil {
			return nil, nil, err
		}
	}
	samples := map[string]*graph.Tensor{}
	for state, name := range only.samples {
		if samples[state], err = d.Output(name); err != nil {
			return nil, nil, err
		}
	}
	return out, &Check{Device: d.Name(), Loss: loss.Float(0), Plan: p, Trace: trace, Memory: deviceMemory(d.Device), samples: samples,
		Anonymous: func() *Anonymous { return d.watch.against(p, trace, data) }}, nil
}

// gradientModel is the model's step up to its gradients, which are outputs.
func gradientModel(m *Model) (*Model, error) {
	only := &Model{Path: m.Path, Config: m.Config, kept: m.kept}
	if err := only.read(); err != nil {
		return nil, err
	}
	if err := runnable(only.Graph); err != nil {
		return nil, err
	}
	if g := only.Graph; hasBackward(g) {
		if g.Loss == nil || len(g.Updates) > 0 || !slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return slices.Contains(g.Outputs, d.Grad) }) {
			return nil, input(fmt.Errorf("%s has a backward pass, but not a loss and gradients as its outputs; only then can they be checked", filepath.Base(m.Path)))
		}
		g.Grads = slices.DeleteFunc(g.Grads, func(d graph.Grad) bool { return !slices.Contains(g.Outputs, d.Grad) })
		return only, only.take(forms.Brought(only.ctx, g))
	}
	only.addSamples()
	return only, only.derive(autograd.Options{Loss: only.loss, KeepGrads: true})
}

// addSamples makes outputs of what running statistics would be by those of the sample,
// where the step has them otherwise.
func (m *Model) addSamples() {
	b := graph.NewBuilder(m.Graph)
	m.samples = map[string]string{}
	for _, u := range m.Graph.Updates {
		n := u.New.Def
		if n == nil || u.New.Shape.Elems().Is(1) { // an output of one number could be the loss
			continue
		}
		for _, s := range n.Op.Running {
			if s.Sample == nil || n.Output(s.Out) != u.New {
				continue
			}
			var v *graph.Value
			if graph.Try(func() { v = s.Sample(b, n) }) == nil {
				m.Graph.Outputs = append(m.Graph.Outputs, v)
				m.samples[u.State.Name] = v.Name
			}
		}
	}
}
