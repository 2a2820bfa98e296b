package memopt

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/memopt/graph"
	"memopt/memopt/tensorfile"
	"memopt/memopt/weights"
	"memopt/planner"
	"memopt/planner/forms"
)

// Check is one step beside a reference: loss and every gradient.
type Check struct {
	Device     string
	Loss       float64
	HasLoss    bool // the reference has a loss to compare with
	LossRelErr float64
	Worst      ParamErr
	Params     []ParamErr // in the model's order
	After      []ParamErr // what the step leaves in running statistics
	WorstAfter ParamErr
	Missing    []string // gradients of the reference that the model has not
	Unchecked  []string // gradients of the model that the reference has not
	Plan       *planner.Plan
	Trace      planner.Trace
	Memory     *DeviceMemory // nil if no driver gave it
	// Anonymous is the memory that was seen so far; nil where the system does not tell
	// it. The set of numbers ends the watch when it is closed.
	Anonymous func() *Anonymous
	Lossy     *Lossy // nil if nothing is

	samples map[string]*graph.Tensor // next statistics by those of the sample, by state
}

// ParamErr is a gradient's distance from the reference's, by norm and relative
// to it.
type ParamErr struct {
	Param  string
	RelErr float64
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
	return out, c, c.compare(out, data, filepath.Base(reference))
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
	s, _, err := only.schedule(p)
	if err != nil {
		return nil, nil, err
	}
	debug.FreeOSMemory() // what planning left behind is not to lie beside the step
	watch := watchMemory()
	d, err := openDevice(only.Config.Device, only.Config.FastPaths, s)
	if err != nil {
		watch.end()
		return nil, nil, only.wouldFit(p, s, err)
	}
	defer func() {
		if c == nil { // it failed
			watch.end()
			d.Close()
		}
	}()
	if only.unchanged(&err); err != nil {
		return nil, nil, err
	}
	feed, err := newFeeder(only.Graph, s.Binding, data, only.Config.Seed)
	if err != nil {
		return nil, nil, err
	}
	in := feed.inputs(0)
	trace, err := d.Run(planner.Run{Inputs: in, Seed: only.Config.Seed})
	if err != nil {
		return nil, nil, err
	}
	if err := data.Unchanged(); err != nil {
		return nil, nil, input(err)
	}
	loss, err := d.Output(only.Graph.Loss.Name)
	if err != nil {
		return nil, nil, err
	}
	out = &tensorfile.Set{Closed: func() { watch.end(); d.Close() }}
	for _, name := range feed.names {
		x := in[name]
		out.Lend("input."+name, x.Type, x.Shape, func(w io.Writer) error {
			if _, err := w.Write(x.Bytes); err != nil {
				return err
			}
			return data.Unchanged()
		})
	}
	if err := lend(out, "loss", only.Graph.Loss, s.Binding, d.WriteOutput); err != nil {
		return nil, nil, err
	}
	for _, g := range only.Graph.Grads {
		if err := lend(out, "grad."+g.Param.Name, g.Grad, s.Binding, d.WriteOutput); err != nil {
			return nil, nil, err
		}
	}
	for _, u := range only.Graph.Updates {
		if err := lend(out, "after."+u.State.Name, u.State, s.Binding, d.WriteState); err != nil {
			return nil, nil, err
		}
	}
	samples := map[string]*graph.Tensor{}
	for state, name := range only.samples {
		if samples[state], err = d.Output(name); err != nil {
			return nil, nil, err
		}
	}
	return out, &Check{Device: d.Name(), Loss: loss.Float(0), Plan: p, Trace: trace, Memory: deviceMemory(d), samples: samples,
		Anonymous: func() *Anonymous { return watch.against(p, trace, data) }}, nil
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

// noise is the share of the whole gradient's norm that rounding alone makes of
// a parameter's gradient: some are zero but for it (the key bias of an
// attention, which softmax does not see; a bias before a normalization), and
// two roundings never agree. It is float32's step at 1.
const noise = 1.0 / (1 << 23)

func (c *Check) compare(got, want *tensorfile.Set, file string) error {
	whole := 0.0
	for _, name := range want.Names {
		if strings.HasPrefix(name, "grad.") {
			x, err := want.Tensor(name)
			if err != nil {
				return err
			}
			n := norm(x)
			whole += n * n
		}
	}
	whole = math.Sqrt(whole)
	if want.Tensors["loss"] != nil {
		if y := want.Tensors["loss"]; y.Len() != 1 {
			return input(fmt.Errorf("%s: loss has shape %v, need a scalar", file, y.Shape))
		}
		e, err := apart(got, want, "loss", 0)
		if err != nil {
			return err
		}
		c.HasLoss, c.LossRelErr = true, e
	}
	for _, name := range got.Names {
		if param, ok := strings.CutPrefix(name, "grad."); ok && want.Tensors[name] == nil {
			c.Unchecked = append(c.Unchecked, param)
		}
	}
	for _, name := range want.Names {
		if err := c.compareAfter(got, want, name, file); err != nil {
			return err
		}
		param, ok := strings.CutPrefix(name, "grad.")
		if !ok {
			continue
		}
		if got.Tensors[name] == nil {
			c.Missing = append(c.Missing, param)
			continue
		}
		if x, y := got.Tensors[name], want.Tensors[name]; x.Len() != y.Len() {
			return input(fmt.Errorf("%s: %s has shape %v, the model's gradient %v", file, name, y.Shape, x.Shape))
		}
		d, err := apart(got, want, name, whole)
		if err != nil {
			return err
		}
		e := ParamErr{param, d}
		c.Params = append(c.Params, e)
		if !(e.RelErr <= c.Worst.RelErr) || c.Worst.Param == "" {
			c.Worst = e
		}
	}
	return nil
}

// apart is relErr of two sets' tensors of a name, of as many numbers. That of the first
// set passes by in pieces, from where it is.
func apart(got, want *tensorfile.Set, name string, whole float64) (float64, error) {
	y, err := want.Tensor(name)
	if err != nil {
		return 0, err
	}
	d := difference{x: got.Tensors[name].Type, y: y}
	if err := got.Write(&d, name); err != nil {
		return 0, err
	}
	return d.relErr(whole), nil
}

// compareAfter compares what a step leaves in a running statistic, after.NAME. Where the
// step has a variance by ONNX's rule, that of the sample, which PyTorch takes, is as good.
func (c *Check) compareAfter(got, want *tensorfile.Set, name, file string) error {
	state, is := strings.CutPrefix(name, "after.")
	x, y := got.Tensors[name], want.Tensors[name]
	switch {
	case !is || !y.Type.IsFloat(): // as num_batches_tracked is, which no file has
		return nil
	case x == nil:
		c.Missing = append(c.Missing, name)
		return nil
	case x.Len() != y.Len():
		return input(fmt.Errorf("%s: %s has shape %v, the model's %v", file, name, y.Shape, x.Shape))
	}
	d, err := apart(got, want, name, 0)
	if err != nil {
		return err
	}
	if s := c.samples[state]; s != nil {
		if y, err = want.Tensor(name); err != nil {
			return err
		}
		d = min(d, relErr(s, y, 0))
	}
	e := ParamErr{state, d}
	c.After = append(c.After, e)
	if !(e.RelErr <= c.WorstAfter.RelErr) || c.WorstAfter.Param == "" {
		c.WorstAfter = e
	}
	return nil
}

// relErr is ‖x − y‖ / ‖y‖, or against whole where no more than noise of it
// differs, or ‖x − y‖ itself if y is zero.
func relErr(x, y *graph.Tensor, whole float64) float64 {
	d := difference{x: x.Type, y: y}
	d.add(x)
	return d.relErr(whole)
}

// difference adds up (x − y)² for numbers of x in their order.
type difference struct {
	x    graph.DType
	y    *graph.Tensor
	seen int
	sum  float64
}

// Write takes the next bytes of x, of whole numbers.
func (d *difference) Write(p []byte) (int, error) {
	d.add(&graph.Tensor{Type: d.x, Shape: []int{len(p) / int(d.x.Size())}, Bytes: p})
	return len(p), nil
}

func (d *difference) add(x *graph.Tensor) {
	for i := range x.Len() {
		e := x.Float(i) - d.y.Float(d.seen+i)
		d.sum += e * e
	}
	d.seen += x.Len()
}

func (d *difference) relErr(whole float64) float64 {
	diff := math.Sqrt(d.sum)
	if whole > 0 && diff <= noise*whole {
		return diff / whole
	}
	if n := norm(d.y); n > 0 {
		return diff / n
	}
	return diff
}

func norm(x *graph.Tensor) float64 {
	sum := 0.0
	for i := range x.Len() {
		sum += x.Float(i) * x.Float(i)
	}
	return math.Sqrt(sum)
}
