package session

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"memopt/internal/graph"
)

// When says when bound memory of the host is copied, on a device with its own memory.
type When string

// The choices. On the processor nothing is ever copied.
const (
	Import When = "import" // never: the device accesses it in place, or binding fails
	AtRun  When = "run"    // at each run
	AtBind When = "bind"   // when it is bound; later changes have no effect
	Auto   When = "auto"   // never if it can be imported, else at each run
)

// Whens lists them.
func Whens() []string { return []string{string(Auto), string(Import), string(AtRun), string(AtBind)} }

// Policy says which shapes of an output are allowed where it is bound.
type Policy string

// The policies.
const (
	Exact   Policy = "exact"   // the bound shape
	AtMost  Policy = "at most" // the bound shape, or one with smaller dims
	Dynamic Policy = "dynamic" // any: the session allocates memory, again if it is too small
)

// Binding keeps inputs and outputs of a session bound by name for many runs. It is for one
// goroutine at a time.
type Binding struct {
	s       *Session
	inputs  map[string]*input
	outputs map[string]*output
	order   []string // of outputs
	ran     map[string]*graph.Tensor
}

type input struct {
	x      *graph.Tensor // type and shape, and the host's bytes if they are copied at each run
	place  Place         // no buffer: copied at each run
	fallen string        // why it could not be imported
}

type output struct {
	x      *graph.Tensor // type and shape; nil: any
	policy Policy
	place  Place  // unless dynamic
	host   []byte // memory to copy it to; nil: none
	slot   *Slot  // if dynamic; nil: the session keeps it
	fallen string
}

// NewBinding makes an empty binding. Clear it before closing the session.
func (s *Session) NewBinding() *Binding {
	return &Binding{s: s, inputs: map[string]*input{}, outputs: map[string]*output{}}
}

// Host binds an input to memory of the host, which must stay valid until the input is bound again
// or cleared.
func (b *Binding) Host(name string, x *graph.Tensor, when When) error {
	if err := b.known(name, x); err != nil {
		return err
	}
	if n, err := sizeOf(x); err != nil || n != int64(len(x.Bytes)) {
		return fmt.Errorf("input %q is %s%v and has %d bytes", name, x.Type, x.Shape, len(x.Bytes))
	}
	in := &input{x: x}
	switch {
	case b.s.anywhere() || len(x.Bytes) == 0: // nothing to copy
		in.place.Buffer = &hostBuffer{bytes: x.Bytes, users: 1}
	case when == AtBind:
		buffer, err := b.s.NewBuffer(int64(len(x.Bytes)))
		if err == nil {
			err = buffer.WriteAt(x.Bytes, 0)
		}
		if err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
		in.place.Buffer, in.x = buffer, &graph.Tensor{Type: x.Type, Shape: x.Shape}
	case when == Import, when == Auto:
		buffer, err := b.s.Import(x.Bytes)
		switch {
		case err == nil:
			in.place.Buffer = buffer
		case when == Import:
			return fmt.Errorf("input %q: %w", name, err)
		default:
			in.fallen = fmt.Sprintf("input %q is copied at each run: %v", name, err)
		}
	case when != AtRun:
		return fmt.Errorf("input %q: unknown time of copying %q, use one of %v", name, when, Whens())
	}
	b.set(name, in)
	return nil
}

// Device binds an input to a place in a buffer, which the binding retains.
func (b *Binding) Device(name string, x *graph.Tensor, place Place) error {
	if err := b.known(name, x); err != nil {
		return err
	}
	n, err := sizeOf(x)
	if err == nil {
		err = place.within(n)
	}
	if err != nil {
		return fmt.Errorf("input %q: %w", name, err)
	}
	place.Buffer.Retain()
	b.set(name, &input{x: &graph.Tensor{Type: x.Type, Shape: slices.Clone(x.Shape)}, place: place})
	return nil
}

// Update overwrites a bound input.
func (b *Binding) Update(name string, bytes []byte) error {
	in := b.inputs[name]
	if in == nil {
		return fmt.Errorf("no input %q is bound", name)
	}
	if n, _ := sizeOf(in.x); n != int64(len(bytes)) {
		return fmt.Errorf("input %q has %d bytes, but %d are given", name, n, len(bytes))
	}
	if in.place.Buffer == nil {
		copy(in.x.Bytes, bytes)
		return nil
	}
	return in.place.Buffer.WriteAt(bytes, in.place.At)
}

func (b *Binding) known(name string, x *graph.Tensor) error {
	if !hasPort(b.s.Signature.Inputs, name) && !hasPort(b.s.Signature.Overridable, name) {
		return fmt.Errorf("the model has no input %q; it has %s", name, names(portNames(b.s.Signature.Inputs)))
	}
	if x == nil {
		return fmt.Errorf("input %q is bound without a type and a shape", name)
	}
	return nil
}

func (b *Binding) set(name string, in *input) {
	if was := b.inputs[name]; was != nil {
		was.drop()
	}
	b.inputs[name] = in
}

func (in *input) drop() {
	if in.place.Buffer != nil {
		in.place.Buffer.Drop()
	}
}

// OutputHost binds an output to memory of the host for the type and shape of x, or, by policy,
// smaller shapes.
func (b *Binding) OutputHost(name string, x *graph.Tensor, policy Policy, when When) error {
	if err := b.output(name, x, policy); err != nil {
		return err
	}
	if n, _ := sizeOf(x); n != int64(len(x.Bytes)) {
		return fmt.Errorf("output %q is bound as %s%v and has %d bytes", name, x.Type, x.Shape, len(x.Bytes))
	}
	out := &output{x: &graph.Tensor{Type: x.Type, Shape: slices.Clone(x.Shape)}, policy: policy, host: x.Bytes}
	if b.s.anywhere() || len(x.Bytes) == 0 {
		out.place.Buffer = &hostBuffer{bytes: x.Bytes, users: 1}
	} else if when == Import || when == Auto {
		buffer, err := b.s.Import(x.Bytes)
		switch {
		case err == nil:
			out.place.Buffer = buffer
		case when == Import:
			return fmt.Errorf("output %q: %w", name, err)
		default:
			out.fallen = fmt.Sprintf("output %q is copied at each run: %v", name, err)
		}
	} else if when != AtRun {
		return fmt.Errorf("output %q: an output cannot be copied when it is bound; use %q", name, AtRun)
	}
	b.setOutput(name, out)
	return nil
}

// OutputDevice binds an output to a place in a buffer for the type and shape of x, or, by policy,
// smaller shapes.
func (b *Binding) OutputDevice(name string, x *graph.Tensor, place Place, policy Policy) error {
	if err := b.output(name, x, policy); err != nil {
		return err
	}
	if n, err := sizeOf(x); err != nil {
		return fmt.Errorf("output %q: %w", name, err)
	} else if err := place.within(n); err != nil {
		return fmt.Errorf("output %q: %w", name, err)
	}
	place.Buffer.Retain()
	b.setOutput(name, &output{x: &graph.Tensor{Type: x.Type, Shape: slices.Clone(x.Shape)}, policy: policy, place: place})
	return nil
}

// Output binds an output of any shape to memory that the session allocates.
func (b *Binding) Output(name string, room Room) error {
	if err := b.output(name, nil, Dynamic); err != nil {
		return err
	}
	out := &output{policy: Dynamic}
	if room != Kept {
		out.slot = &Slot{Room: room}
	}
	b.setOutput(name, out)
	return nil
}

func (b *Binding) output(name string, x *graph.Tensor, policy Policy) error {
	switch {
	case !hasPort(b.s.Signature.Outputs, name):
		return fmt.Errorf("the model has no output %q; it has %s", name, names(portNames(b.s.Signature.Outputs)))
	case policy == Dynamic && x != nil:
		return fmt.Errorf("output %q is bound to memory of one shape, but with a policy for any shape; use policy %q or %q", name, Exact, AtMost)
	case policy != Dynamic && x == nil:
		return fmt.Errorf("output %q is bound without a type and a shape", name)
	case policy != Dynamic && policy != Exact && policy != AtMost:
		return fmt.Errorf("output %q: unknown policy %q, use %q, %q or %q", name, policy, Exact, AtMost, Dynamic)
	}
	return nil
}

func (b *Binding) setOutput(name string, out *output) {
	if was := b.outputs[name]; was != nil {
		was.drop()
	} else {
		b.order = append(b.order, name)
	}
	delete(b.ran, name)
	b.outputs[name] = out
}

func (o *output) drop() {
	if o.place.Buffer != nil {
		o.place.Buffer.Drop()
	}
	o.slot.Drop()
}

// fits returns an error if the policy does not allow an output's shape.
func (o *output) fits(x *graph.Tensor) error {
	if o.x == nil {
		return nil
	}
	if o.x.Type != x.Type {
		return fmt.Errorf("it is %s, but is bound as %s", x.Type, o.x.Type)
	}
	same := slices.Equal(o.x.Shape, x.Shape)
	if o.policy == AtMost {
		same = len(o.x.Shape) == len(x.Shape)
		for i := range x.Shape {
			same = same && x.Shape[i] <= o.x.Shape[i]
		}
	}
	if !same {
		return fmt.Errorf("it is %s%v, but is bound as %s%v, %s", x.Type, x.Shape, o.x.Type, o.x.Shape, o.policy)
	}
	return nil
}

// Run runs the program on the bound inputs. Outputs that are not bound are kept by the session.
// Fell lists memory that is copied since it could not be imported.
func (b *Binding) Run(ctx context.Context, o RunOptions) (r *Result, fell []string, err error) {
	in, places := map[string]*graph.Tensor{}, map[string]Place{}
	for _, name := range slices.Sorted(maps.Keys(b.inputs)) {
		x := b.inputs[name]
		if in[name] = x.x; x.place.Buffer != nil {
			places[name] = x.place
		}
		if x.fallen != "" {
			fell = append(fell, x.fallen)
		}
	}
	var fetches []Fetch
	fetch := func(name string) Fetch {
		out := b.outputs[name]
		f := Fetch{Name: name}
		switch {
		case out == nil:
		case out.host != nil && out.place.Buffer == nil:
			fell = append(fell, out.fallen)
			f.Place = func(x *graph.Tensor, n int64) ([]byte, error) {
				if err := out.fits(x); err != nil {
					return nil, err
				}
				return out.host[:n:n], nil
			}
		case out.slot != nil:
			f.Slot = out.slot
		case out.policy != Dynamic:
			f.Bound = func(x *graph.Tensor, _ int64) (Place, error) { return out.place, out.fits(x) }
		}
		return f
	}
	for _, name := range b.order {
		fetches = append(fetches, fetch(name))
	}
	o.Inputs = places
	if r, err = b.s.Run(ctx, in, fetches, o); err != nil {
		return nil, fell, err
	}
	b.ran = map[string]*graph.Tensor{}
	for _, out := range r.Outputs {
		b.ran[out.Name] = out.Tensor
	}
	return r, slices.DeleteFunc(fell, func(why string) bool { return why == "" }), nil
}

// Value is the type and shape of an output of the last run, and the buffer that it is bound to, if
// any, which can be bound as an input of sessions on the same device.
func (b *Binding) Value(name string) (x *graph.Tensor, place Place, ok bool) {
	x, ok = b.ran[name]
	if !ok {
		return nil, Place{}, false
	}
	if out := b.outputs[name]; out != nil {
		if place = out.place; out.slot != nil {
			place.Buffer = out.slot.Buffer()
		}
	}
	return &graph.Tensor{Type: x.Type, Shape: x.Shape}, place, true
}

// Read copies the bytes of an output of the last run.
func (b *Binding) Read(name string, to []byte) error {
	x, place, ok := b.Value(name)
	if !ok {
		return fmt.Errorf("output %q was not computed by a run", name)
	}
	if n := bytesOf(x); n != int64(len(to)) {
		return fmt.Errorf("output %q has %d bytes, but there is room for %d", name, n, len(to))
	}
	switch out := b.outputs[name]; {
	case place.Buffer != nil:
		return place.Buffer.ReadAt(to, place.At)
	case out.host != nil:
		copy(to, out.host)
		return nil
	}
	return b.s.readKept(name, to)
}

// Sync waits until outputs are written, which is always so after a run.
func (b *Binding) Sync() error { return nil }

// ClearInputs unbinds all inputs, and drops patterns that used their buffers.
func (b *Binding) ClearInputs() {
	for _, in := range b.inputs {
		in.drop()
	}
	clear(b.inputs)
	b.s.Tidy()
}

// ClearOutputs unbinds all outputs.
func (b *Binding) ClearOutputs() {
	for _, out := range b.outputs {
		out.drop()
	}
	clear(b.outputs)
	b.order, b.ran = nil, nil
	b.s.Tidy()
}
