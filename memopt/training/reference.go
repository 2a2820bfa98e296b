package training

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/internal/compare"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/internal/weights"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/machine"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/forms"
)

// Check compares one step with a reference: the loss and every gradient.
type Check struct {
	Device string
	Loss   float64
	compare.Difference
	Plan   *planner.Plan
	Trace  schedule.Trace
	Memory *devices.Memory // nil if there is no driver
	// Anonymous returns the memory measured so far; nil if the system does not report it. Measuring ends when the
	// set is closed.
	Anonymous func() *machine.Anonymous
	Lossy     *compare.Rounding // nil if nothing is stored lossily

	samples map[string]*graph.Tensor // next running statistics as computed from the sample, by state
}

// Gradients runs one step without an update and returns loss and gradients under the names of a reference file:
// loss, grad.NAME, after.NAME, input.NAME. Until the set is closed, they stay on the device, and the reference
// stays mapped. The reference provides the inputs. If it has a loss or gradients too, they are compared, and the
// step must take all its rows.
func Gradients(m *step.Model, reference string) (set *tensorfile.Set, check *Check, err error) {
	defer m.Unchanged(&err)
	var data, out *tensorfile.Set
	if reference != "" {
		if data, err = tensorfile.ReadNPZ(reference); err != nil {
			return nil, nil, exit.Input(err)
		}
	}
	defer func() {
		if err != nil {
			out.Close()
			data.Close()
		}
	}()
	defer weights.Guard(&err)() // must run before data is unmapped
	only, err := GradientModel(m)
	if err != nil {
		return nil, nil, err
	}
	if data != nil {
		only.Config.Dims = feed.Sizes(only.Graph, data, only.Config.Dims)
		if err := takesAll(only, data, filepath.Base(reference)); err != nil {
			return nil, nil, err
		}
	}
	out, c, err := GradientsOf(only, data)
	if err != nil {
		return nil, nil, err
	}
	closed := out.Closed
	out.Closed = func() { closed(); data.Close() }
	if c.Plan.Form.Rounded > 0 {
		if c.Lossy, err = lossyError(only, out, c.Plan, data); err != nil {
			return nil, nil, err
		}
	}
	if data == nil {
		return out, c, nil
	}
	if c.Difference, err = compare.Sets(out, data, c.samples, filepath.Base(reference)); err != nil {
		return nil, nil, exit.Input(err)
	}
	return out, c, nil
}

// takesAll refuses a reference with more rows than the step takes: its loss and gradients are those of all rows.
func takesAll(m *step.Model, data *tensorfile.Set, file string) error {
	if !slices.ContainsFunc(data.Names, func(name string) bool { return name == "loss" || strings.HasPrefix(name, "grad.") }) {
		return nil
	}
	b, err := graph.Bind(m.Config.Dims)
	if err != nil {
		return exit.Input(err)
	}
	for _, v := range m.Graph.Inputs {
		x := feed.Array(data, v.Name)
		shape, err := b.Shape(v.Shape)
		if x == nil || err != nil || len(shape) == 0 || len(x.Shape) != len(shape) || x.Shape[0] <= shape[0] {
			continue // other mismatches are reported by newFeeder
		}
		rows := func(n int) string {
			if name, is := feed.NameOf(v.Shape[0]); is {
				return fmt.Sprintf("%s=%d", name, n)
			}
			return fmt.Sprintf("%d rows of %q", n, v.Name)
		}
		return exit.Input(fmt.Errorf("%s holds one step of %s, whose loss and gradients are of all its rows; it cannot be compared with a step of %s",
			file, rows(x.Shape[0]), rows(shape[0])))
	}
	return nil
}

// GradientsOf plans a model of GradientModel and runs its step. The device keeps the results until the set is closed.
func GradientsOf(only *step.Model, data *tensorfile.Set) (out *tensorfile.Set, c *Check, err error) {
	p, err := only.Plan()
	if err != nil {
		return nil, nil, err
	}
	d, err := Load(only, p, func(s *schedule.Schedule) (devices.Device, error) { return openDevice(only, s) })
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if c == nil { // an error occurred
			d.End()
		}
	}()
	trace, feed, err := d.once(data, only.Config.Seed)
	if err != nil {
		return nil, nil, err
	}
	step := p.Graph // in the chosen form
	in := feed.Inputs(0)
	loss, err := d.Output(step.Loss.Name)
	if err != nil {
		return nil, nil, err
	}
	out = &tensorfile.Set{Closed: d.End}
	for _, name := range feed.Names {
		x := in[name]
		out.Lend("input."+name, x.Type, x.Shape, func(w io.Writer) error {
			if _, err := w.Write(x.Bytes); err != nil {
				return err
			}
			return data.Unchanged()
		})
	}
	if err := lend(out, "loss", step.Loss, d.Schedule.Binding, d.WriteOutput); err != nil {
		return nil, nil, err
	}
	for _, g := range step.Grads {
		if err := lend(out, "grad."+g.Param.Name, g.Grad, d.Schedule.Binding, d.WriteOutput); err != nil {
			return nil, nil, err
		}
	}
	for _, u := range step.Updates {
		if err := lend(out, "after."+u.State.Name, u.State, d.Schedule.Binding, d.WriteState); err != nil {
			return nil, nil, err
		}
	}
	samples := map[string]*graph.Tensor{}
	for state, name := range only.Samples {
		if samples[state], err = d.Output(name); err != nil {
			return nil, nil, err
		}
	}
	return out, &Check{Device: d.Name(), Loss: loss.Float(0), Plan: p, Trace: trace, Memory: devices.MemoryOf(d.Device), samples: samples,
		Anonymous: func() *machine.Anonymous { return anonymousOf(d.watch, p, trace, data, nil) }}, nil
}

// GradientModel is the model with its step up to the gradients, which are outputs.
func GradientModel(m *step.Model) (*step.Model, error) {
	only := &step.Model{Path: m.Path, Config: m.Config, Kept: m.Kept}
	if err := only.Read(); err != nil {
		return nil, err
	}
	if err := step.Runnable(only.Graph); err != nil {
		return nil, err
	}
	if g := only.Graph; g.HasBackward() {
		if g.Loss == nil || len(g.Updates) > 0 || !slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return slices.Contains(g.Outputs, d.Grad) }) {
			return nil, exit.Input(fmt.Errorf("%s has a backward pass, but not a loss and gradients as its outputs; only then can they be checked", filepath.Base(m.Path)))
		}
		g.Grads = slices.DeleteFunc(g.Grads, func(d graph.Grad) bool { return !slices.Contains(g.Outputs, d.Grad) })
		return only, only.Take(forms.Brought(only.Ctx, g))
	}
	addSamples(only)
	return only, only.Derive(autograd.Options{Loss: only.Loss, KeepGrads: true})
}

// addSamples adds outputs for the running statistics as computed from the sample's statistics, where the step
// computes them in another way.
func addSamples(m *step.Model) {
	b := graph.NewBuilder(m.Graph)
	m.Samples = map[string]string{}
	for _, u := range m.Graph.Updates {
		n := u.New.Def
		if n == nil || u.New.Shape.Elems().Is(1) { // a scalar output could be taken for the loss
			continue
		}
		for _, s := range n.Op.Running {
			if s.Sample == nil || n.Output(s.Out) != u.New {
				continue
			}
			var v *graph.Value
			if graph.Try(func() { v = s.Sample(b, n) }) == nil {
				m.Graph.Outputs = append(m.Graph.Outputs, v)
				m.Samples[u.State.Name] = v.Name
			}
		}
	}
}
