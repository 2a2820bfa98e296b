package memopt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"

	"memopt/autograd"
	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/memopt/stop"
	"memopt/memopt/weights"
	"memopt/planner"
)

// Held is a training step that is held open for somebody who brings each batch. A bridge leaves the weights to him: he
// gives their numbers and the gradients of the results, and gets those of the weights. Otherwise the step updates
// weights that are here. Its methods are called one at a time.
type Held struct {
	m        *Model
	ctx      call
	bridge   bool
	order    []string   // the model's outputs
	bindings []*Binding // the last one used first
	last     uint64     // binding that was numbered
	planned  int        // bindings ever made

	device  Device
	at      *Binding                 // whose plan the device runs
	stash   map[string]*graph.Tensor // what the device is to hold once there is one
	run     run
	broken  error // why nothing can be run any more
	steps   int   // that were run to their end
	micro   int64 // runs since the last update
	high    [3]int64
	started uint64
}

// run is a forward pass whose backward pass may come.
type run struct {
	id         uint64 // 0 is none
	binding    uint64
	seed, step uint64
}

// mostBindings is how many plans a step is held under; the one that was not used for longest makes room.
const mostBindings = 16

// HoldOptions says how to hold a step.
type HoldOptions struct {
	Bridge bool
	// Results names the outputs of a bridge whose gradients are given; nil is all floats but running statistics.
	Results []string
	// Inputs names the inputs of a bridge whose gradients are wanted.
	Inputs []string
	// Bytes is the model itself, where it is no file: path is then a name for it, and beside it lies its external data.
	Bytes []byte
	// Given are initializers to take instead of the model's.
	Given map[string]*graph.Tensor
}

// Role is what a tensor of a binding is to its host.
type Role string

// The roles, in the order in which a binding lists them. In, of these, is what the host brings for every run, Kept what
// lasts from run to run.
const (
	RoleInput  Role = "input"
	RoleSeed   Role = "seed"   // the gradient of an output, under the output's name
	RoleParam  Role = "param"  // is trained
	RoleBuffer Role = "buffer" // a running statistic
	RoleFrozen Role = "frozen" // belongs to the model, and no step changes it
	RoleState  Role = "state"  // of the optimizer
	RoleOutput Role = "output"
	RoleGrad   Role = "grad" // under the name of the parameter or input
)

func (r Role) kept() bool {
	return r == RoleParam || r == RoleBuffer || r == RoleFrozen || r == RoleState
}

// Port is a tensor of a binding: its name, and where its bytes lie with the host, nil where they do not.
type Port struct {
	Name  string
	Role  Role
	Type  graph.DType
	Shape []int
	Place []byte

	value string // on the device
	seed  int    // of seeds: the border's output
}

func (p *Port) tensor() *graph.Tensor {
	return &graph.Tensor{Type: p.Type, Shape: p.Shape, Bytes: p.Place}
}

func (p *Port) bytes() int { return p.tensor().Len() * int(p.Type.Size()) }

// Binding is the plan for the shapes of one batch, and the tensors that it takes and gives.
type Binding struct {
	ID    uint64
	Ports []Port
	Model *Model // in the form that was planned
	Plan  *planner.Plan

	key      string
	schedule *planner.Schedule
	fresh    bool // the device does not have yet what lies with the host
	ran      bool // the device has run the plan
}

// Hold reads a model and derives its step. Close it. What the options have is copied; files may go once Hold returns, but are
// not to be written to.
func Hold(ctx context.Context, path string, c configs.Config, o HoldOptions) (*Held, error) {
	h := &Held{bridge: o.Bridge, stash: map[string]*graph.Tensor{}}
	h.m = &Model{Path: path, Config: c, ctx: &h.ctx, held: true, bytes: bytes.Clone(o.Bytes), given: map[string]*graph.Tensor{}}
	for name, x := range o.Given {
		y := graph.NewTensor(x.Type, x.Shape...)
		copy(y.Bytes, x.Bytes)
		h.m.given[name] = y
	}
	defer h.during(ctx)()
	_, err := stop.When(ctx, func() (*Model, error) { return h.m, h.open(o) })
	if err != nil {
		h.m.Close()
		return nil, err
	}
	return h, nil
}

// call is the context of whatever call is at hand.
type call struct{ context.Context }

// during has work on the model end with a call's context.
func (h *Held) during(ctx context.Context) (end func()) {
	h.ctx.Context = ctx
	return func() { h.ctx.Context = context.Background() }
}

func (h *Held) open(o HoldOptions) (err error) {
	m := h.m
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.read(); err != nil {
		return m.unparted(err)
	}
	if err := runnable(m.Graph); err != nil {
		return err
	}
	if hasBackward(m.Graph) {
		return h.openStep(o)
	}
	for _, v := range m.Graph.Outputs {
		h.order = append(h.order, v.Name)
	}
	adding := (*Model).stepOptions
	if h.bridge {
		if o.Results == nil {
			for _, v := range m.Graph.Outputs {
				statistic := slices.ContainsFunc(m.Graph.Updates, func(u graph.Update) bool { return u.New == v })
				if v.Type.IsFloat() && !statistic {
					o.Results = append(o.Results, v.Name)
				}
			}
		}
		results := append([]string{}, o.Results...) // none, not nil, where no output has floats
		adding = func(m *Model) autograd.Options {
			return autograd.Options{Context: m.ctx, Results: results, Inputs: o.Inputs, KeepGrads: true}
		}
	}
	_, err = m.derive(adding)
	return err
}

// openStep takes the step of a trainer's file.
func (h *Held) openStep(o HoldOptions) error {
	m := h.m
	border := m.border()
	switch {
	case h.bridge && border == nil:
		return input(errors.New("the file has a backward pass, and no YieldOp that parts it from the forward pass; a bridge needs one, or a file of the forward pass alone"))
	case h.bridge && (o.Results != nil || len(o.Inputs) > 0):
		return input(errors.New("the file has a backward pass of its own, which says what has gradients; name no outputs or inputs"))
	}
	if err := m.readOutline(); err != nil {
		return err
	}
	return m.shape(m.Graph)
}

// border is the node that parts the passes, or nil.
func (m *Model) border() *graph.Node { return borderOf(m.Graph) }

func borderOf(g *graph.Graph) *graph.Node {
	if i := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Border }); i >= 0 {
		return g.Nodes[i]
	}
	return nil
}

// Close gives everything back.
func (h *Held) Close() error {
	var err error
	if h.device != nil {
		err = h.device.Close()
	}
	h.device, h.at, h.bindings, h.stash = nil, nil, nil, nil
	h.broken = errors.New("the session is closed")
	h.m.Close()
	return err
}

// Model is the step as it was read, before it is planned.
func (h *Held) Model() *Model { return h.m }

// Inputs are what the host brings for every run.
func (h *Held) Inputs() []*graph.Value { return inputsOf(h.m.Graph) }

func inputsOf(g *graph.Graph) []*graph.Value {
	return slices.DeleteFunc(slices.Clone(g.Inputs), func(v *graph.Value) bool {
		return v.Name == autograd.LearningRate || v.Name == autograd.MicroBatch
	})
}

// Outputs are the results.
func (h *Held) Outputs() []*graph.Value { return h.outputsOf(h.m.Graph) }

func (h *Held) outputsOf(g *graph.Graph) (all []*graph.Value) {
	from := g.Outputs
	if h.bridge {
		from = borderOf(g).Inputs
	}
	for _, v := range from {
		if v == nil || slices.Contains(all, v) ||
			slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return d.Grad == v }) && !h.bridge ||
			slices.ContainsFunc(g.Updates, func(u graph.Update) bool { return u.New == v }) {
			continue
		}
		all = append(all, v)
	}
	place := func(v *graph.Value) int { return slices.Index(h.order, v.Name) }
	slices.SortStableFunc(all, func(v, w *graph.Value) int { return place(v) - place(w) })
	return all
}

// Params are what is trained.
func (h *Held) Params() []*graph.Value { return paramsOf(h.m.Graph) }

func paramsOf(g *graph.Graph) (all []*graph.Value) {
	for _, v := range g.Values {
		if v.Kind == graph.Param && slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return d.Param == v }) {
			all = append(all, v)
		}
	}
	return all
}

// Buffers are the running statistics.
func (h *Held) Buffers() []*graph.Value { return buffersOf(h.m.Graph) }

func buffersOf(g *graph.Graph) (all []*graph.Value) {
	for _, u := range g.Updates {
		if u.State.Kind == graph.ModelBuffer || u.State.Kind == graph.Param && !slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return d.Param == u.State }) {
			all = append(all, u.State)
		}
	}
	return all
}

// Bind makes the plan for a batch of the given shapes, or finds it; known says that it did.
func (h *Held) Bind(ctx context.Context, batch []Port) (b *Binding, known bool, err error) {
	dims, err := h.sizes(batch)
	if err != nil {
		return nil, false, err
	}
	key := ""
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		key += fmt.Sprintf("%s=%d,", name, dims[name])
	}
	if i := slices.IndexFunc(h.bindings, func(b *Binding) bool { return b.key == key }); i >= 0 {
		b := h.bindings[i]
		h.bindings = slices.Insert(slices.Delete(h.bindings, i, i+1), 0, b)
		return b, true, nil
	}
	defer h.during(ctx)()
	b, err = stop.When(ctx, func() (*Binding, error) { return h.plan(dims) })
	if err != nil {
		return nil, false, err
	}
	h.last++
	h.planned++
	b.ID, b.key = h.last, key
	h.bindings = slices.Insert(h.bindings, 0, b)
	if len(h.bindings) > mostBindings {
		at := len(h.bindings) - 1
		if h.bindings[at] == h.at {
			at--
		}
		h.bindings = slices.Delete(h.bindings, at, at+1)
	}
	return b, false, nil
}

// sizes are the dims under which the model's inputs have the shapes of a batch.
func (h *Held) sizes(batch []Port) (map[string]int64, error) {
	given := map[string]*Port{}
	inputs := h.Inputs()
	for i := range batch {
		p := &batch[i]
		if !slices.ContainsFunc(inputs, func(v *graph.Value) bool { return v.Name == p.Name }) {
			return nil, input(fmt.Errorf("the model has no input %q; it has %s", p.Name, described(inputs)))
		}
		if given[p.Name] != nil {
			return nil, input(fmt.Errorf("input %q is given twice", p.Name))
		}
		given[p.Name] = p
	}
	dims := map[string]int64{}
	for _, v := range inputs {
		p := given[v.Name]
		switch {
		case p == nil:
			return nil, input(fmt.Errorf("input %s is missing", v))
		case p.Type != v.Type:
			return nil, input(fmt.Errorf("input %q is %s, the model takes %s", v.Name, p.Type, v.Type))
		case len(p.Shape) != v.Rank():
			return nil, input(fmt.Errorf("input %q has shape %v, the model takes %s", v.Name, p.Shape, v.Shape))
		}
		for i, d := range v.Shape {
			if name, is := nameOf(d); is {
				if n, has := dims[name]; has && n != int64(p.Shape[i]) {
					return nil, input(fmt.Errorf("input %q has shape %v, the model takes %s, and %s is %d", v.Name, p.Shape, v.Shape, name, n))
				}
				if p.Shape[i] < 1 {
					return nil, input(fmt.Errorf("input %q has shape %v, and a step of nothing has no plan", v.Name, p.Shape))
				}
				dims[name] = int64(p.Shape[i])
			}
		}
	}
	for name, n := range h.m.Config.Dims { // where inputs leave it open
		if dims[name] == 0 {
			dims[name] = n
		}
	}
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, input(err)
	}
	for _, v := range inputs {
		if slices.ContainsFunc(v.Shape, func(d graph.Dim) bool {
			return slices.ContainsFunc(d.Names(), func(name string) bool { return dims[name] == 0 })
		}) {
			continue // which planning says
		}
		shape, err := b.Shape(v.Shape)
		if err != nil {
			return nil, input(err)
		}
		if !slices.Equal(shape, given[v.Name].Shape) {
			return nil, input(fmt.Errorf("input %q has shape %v, the model takes %s, which is %v", v.Name, given[v.Name].Shape, v.Shape, shape))
		}
	}
	return dims, nil
}

func described(vs []*graph.Value) string {
	var names []string
	for _, v := range vs {
		names = append(names, v.String())
	}
	return planner.Some(names)
}

// plan makes a binding.
func (h *Held) plan(dims map[string]int64) (*Binding, error) {
	c := h.m.Config
	c.Dims = dims
	m, err := h.form(c)
	if err != nil {
		return nil, err
	}
	p, err := m.Plan()
	if err != nil {
		return nil, err
	}
	s, _, err := m.schedule(p)
	if err != nil {
		return nil, err
	}
	b := &Binding{Model: m, Plan: p, schedule: s}
	return b, h.list(b)
}

// form is the model for a plan of its own, which planning may change.
func (h *Held) form(c configs.Config) (*Model, error) {
	if h.m.other == nil { // the file's own step
		m := *h.m
		m.Config = c
		return &m, m.shape(h.m.forms.exact)
	}
	return h.m.other(c)
}

// list lists the tensors of a binding.
func (h *Held) list(b *Binding) error {
	g := b.Plan.Graph
	add := func(role Role, name string, v *graph.Value, seed int) error {
		shape, err := b.schedule.Binding.Shape(v.Shape)
		if err != nil {
			return err
		}
		b.Ports = append(b.Ports, Port{Name: name, Role: role, Type: v.Type, Shape: shape, value: v.Name, seed: seed})
		return nil
	}
	var err error
	all := func(role Role, vs []*graph.Value) {
		for _, v := range vs {
			if err == nil {
				err = add(role, v.Name, v, 0)
			}
		}
	}
	all(RoleInput, inputsOf(g))
	if border := borderOf(g); h.bridge {
		at := 0
		for i, v := range border.Inputs {
			if v == nil || slices.Contains(border.Ints("non_differentiable_outputs"), int64(i)) {
				continue
			}
			if err == nil {
				err = add(RoleSeed, v.Name, v, at)
			}
			at++
		}
	}
	params, buffers := paramsOf(g), buffersOf(g)
	all(RoleParam, params)
	all(RoleBuffer, buffers)
	for _, v := range g.Values {
		role := RoleFrozen
		switch {
		case v.Kind == graph.State:
			role = RoleState
		case v.Kind != graph.Param && v.Kind != graph.ModelBuffer || slices.Contains(params, v) || slices.Contains(buffers, v):
			continue
		}
		all(role, []*graph.Value{v})
	}
	slices.SortStableFunc(b.Ports, func(x, y Port) int {
		order := []Role{RoleInput, RoleSeed, RoleParam, RoleBuffer, RoleFrozen, RoleState}
		return slices.Index(order, x.Role) - slices.Index(order, y.Role)
	})
	all(RoleOutput, h.outputsOf(g))
	if h.bridge {
		for _, d := range g.Grads {
			if err == nil {
				err = add(RoleGrad, d.Param.Name, d.Grad, 0)
			}
		}
	}
	return err
}

// With calls f on a binding, whose model's work ends with a call's context.
func (h *Held) With(ctx context.Context, id uint64, f func(*Binding) error) error {
	b, err := h.binding(id)
	if err != nil {
		return err
	}
	defer h.during(ctx)()
	return f(b)
}

// binding finds one by its number, and makes it the last one used.
func (h *Held) binding(id uint64) (*Binding, error) {
	i := slices.IndexFunc(h.bindings, func(b *Binding) bool { return b.ID == id })
	switch {
	case h.broken != nil:
		return nil, cannot(h.broken)
	case i < 0 && id > 0 && id <= h.last:
		return nil, cannot(fmt.Errorf("binding %d made room for others: %d are kept; bind its shapes anew", id, mostBindings))
	case i < 0:
		return nil, input(fmt.Errorf("there is no binding %d", id))
	}
	b := h.bindings[i]
	h.bindings = slices.Insert(slices.Delete(h.bindings, i, i+1), 0, b)
	return b, nil
}

// cannot marks an error as of what cannot be done now.
func cannot(err error) error { return codedError{err, ExitCannot} }

// Place says where the tensors of a binding lie with the host, in their order; nil is nowhere.
func (h *Held) Place(id uint64, places [][]byte) error {
	b, err := h.binding(id)
	if err != nil {
		return err
	}
	if len(places) != len(b.Ports) {
		return input(fmt.Errorf("%d spans are given for the %d tensors of binding %d", len(places), len(b.Ports), id))
	}
	for i := range b.Ports {
		p := &b.Ports[i]
		if places[i] != nil && len(places[i]) != p.bytes() {
			return input(fmt.Errorf("the span of %s %q has %d bytes, and %s%v takes %d", p.Role, p.Name, len(places[i]), p.Type, p.Shape, p.bytes()))
		}
	}
	return h.guarded(func() error {
		for i := range b.Ports {
			p := &b.Ports[i]
			if h.at == b && places[i] == nil && h.lends(p) { // the device may read it there
				if err := h.device.SetState(p.value, p.tensor()); err != nil {
					return err
				}
			}
			p.Place = places[i]
		}
		b.fresh = true
		return nil
	})
}

// StepOf says which step to run.
type StepOf struct {
	Binding    uint64
	Changed    []int32 // ports of what is kept whose numbers the host has written anew
	Seed, Step uint64  // of random operators
	LR         float64
	Run        uint64 // of a backward pass: the forward pass that it belongs to
	Accumulate bool   // only add to the gradients
}

// Stepped is what a step, or a half of one, came to.
type Stepped struct {
	Run   uint64
	Trace planner.Trace
	Loss  float64
}

// Forward runs the forward pass of a bridge: it takes the inputs and what has changed from the host, and leaves there the
// results and the new running statistics.
func (h *Held) Forward(ctx context.Context, r StepOf) (s Stepped, err error) {
	if !h.bridge {
		return s, input(errors.New("the weights are in the service: such a session has Step, and Forward and Backward are of a bridge"))
	}
	b, err := h.ready(r)
	if err != nil {
		return s, err
	}
	return s, h.guarded(func() error {
		if err := h.end(); err != nil {
			return err
		}
		if err := h.bring(b, r.Changed); err != nil {
			return err
		}
		var err error
		if s.Trace, err = h.device.Run(planner.Run{Inputs: b.inputs(), Lent: true, Seed: r.Seed, Step: r.Step, Part: planner.ForwardPass}); err != nil {
			return runError(err)
		}
		h.note(s.Trace)
		h.started++
		h.run = run{h.started, b.ID, r.Seed, r.Step}
		s.Run = h.run.id
		if err := ctx.Err(); err != nil {
			return err
		}
		return h.give(b, RoleOutput, RoleBuffer)
	})
}

// Backward runs the backward pass that belongs to the last forward pass: it takes the gradients of the results, those
// without a place being zeros, and leaves those of the parameters.
func (h *Held) Backward(ctx context.Context, r StepOf) (s Stepped, err error) {
	if !h.bridge {
		return s, input(errors.New("the weights are in the service: such a session has Step, and Forward and Backward are of a bridge"))
	}
	b, err := h.binding(r.Binding)
	switch {
	case err != nil:
		return s, err
	case h.run.id == 0 || h.at == nil:
		return s, cannot(fmt.Errorf("no forward pass waits for the backward pass of run %d; a pass has one, and the next Forward ends it", r.Run))
	case r.Run != h.run.id:
		return s, cannot(fmt.Errorf("run %d cannot go backward: run %d came after it, and what a run keeps is gone with the next Forward", r.Run, h.run.id))
	case b.ID != h.run.binding:
		return s, cannot(fmt.Errorf("run %d is of binding %d, not %d", r.Run, h.run.binding, b.ID))
	case len(r.Changed) > 0:
		return s, input(errors.New("nothing that a run reads can change between its passes; give changed tensors to Forward"))
	}
	return s, h.guarded(func() error {
		t, err := h.device.Run(planner.Run{Seeds: b.seeds(), Seed: h.run.seed, Step: h.run.step, Part: planner.BackwardPass})
		h.note(t)
		s.Run, s.Trace = h.run.id, t
		if err != nil {
			return errors.Join(runError(err), h.end())
		}
		if err = ctx.Err(); err == nil {
			err = h.give(b, RoleGrad)
		}
		h.steps++
		return errors.Join(err, h.end())
	})
}

// Step runs a whole step on the weights that are here. With Accumulate it only adds to the gradients.
func (h *Held) Step(ctx context.Context, r StepOf) (s Stepped, err error) {
	if h.bridge {
		return s, input(errors.New("the weights of a bridge are the host's: it has Forward and Backward, and Step is of sessions that keep them"))
	}
	g := h.m.Graph
	switch {
	case math.IsNaN(r.LR) || math.IsInf(r.LR, 0) || r.LR < 0:
		return s, input(fmt.Errorf("the learning rate is %v", r.LR))
	case r.Accumulate && g.ByName(autograd.MicroBatch) == nil:
		return s, input(fmt.Errorf("gradients are only added up where the session was opened with %s, the number of runs for an update", h.m.Config.Say("accumulate", "N")))
	}
	b, err := h.ready(r)
	if err != nil {
		return s, err
	}
	return s, h.guarded(func() error {
		if err := h.bring(b, r.Changed); err != nil {
			return err
		}
		in := b.inputs()
		lr, index := graph.NewTensor(graph.Float32), graph.NewTensor(graph.Int64)
		lr.SetFloat(0, r.LR)
		index.SetInt(0, h.micro)
		in[autograd.LearningRate], in[autograd.MicroBatch] = lr, index
		var err error
		if s.Trace, err = h.device.Run(planner.Run{Inputs: in, Lent: true, Seed: r.Seed, Step: r.Step, Accumulate: r.Accumulate}); err != nil {
			return runError(err)
		}
		h.note(s.Trace)
		h.started++
		s.Run = h.started
		h.steps++
		if h.micro++; !r.Accumulate {
			h.micro = 0
		}
		if loss := b.Plan.Graph.Loss; loss != nil {
			x, err := h.device.Output(loss.Name)
			if err != nil {
				return err
			}
			s.Loss = x.Float(0)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return h.give(b, RoleOutput, RoleBuffer)
	})
}

// runError is why a run failed: what a node says is of the numbers that it was given.
func runError(err error) error {
	var node *graph.NodeError
	if errors.As(err, &node) {
		return input(err)
	}
	return cannot(err)
}

// guarded does something on the device. After a panic nobody knows what that holds.
func (h *Held) guarded(do func() error) error {
	done := false
	defer func() {
		if !done {
			h.broken = errors.New("an earlier call ended in a bug of memopt; open the model anew")
		}
	}()
	err := do()
	done = true
	return err
}

// ready looks at what a run is asked for, and has the device run its plan.
func (h *Held) ready(r StepOf) (*Binding, error) {
	b, err := h.binding(r.Binding)
	if err != nil {
		return nil, err
	}
	for _, i := range r.Changed {
		switch {
		case i < 0 || int(i) >= len(b.Ports):
			return nil, input(fmt.Errorf("tensor %d has changed, and the binding has %d", i, len(b.Ports)))
		case !b.Ports[i].Role.kept():
			return nil, input(fmt.Errorf("%s %q has changed, and is read anew for every run", b.Ports[i].Role, b.Ports[i].Name))
		case b.Ports[i].Place == nil:
			return nil, input(fmt.Errorf("%s %q has changed, and has no span", b.Ports[i].Role, b.Ports[i].Name))
		}
	}
	for i := range b.Ports {
		if p := &b.Ports[i]; p.Role == RoleInput && p.Place == nil && p.bytes() > 0 {
			return nil, input(fmt.Errorf("input %q has no span", p.Name))
		}
	}
	return b, h.guarded(func() error { return h.turn(b) })
}

// inputs are those of a run.
func (b *Binding) inputs() map[string]*graph.Tensor {
	in := map[string]*graph.Tensor{}
	for i := range b.Ports {
		if p := &b.Ports[i]; p.Role == RoleInput {
			in[p.value] = p.tensor()
		}
	}
	return in
}

// seeds are the gradients of the results, by the border's outputs.
func (b *Binding) seeds() (seeds []*graph.Tensor) {
	for i := range b.Ports {
		p := &b.Ports[i]
		if p.Role != RoleSeed {
			continue
		}
		for len(seeds) <= p.seed {
			seeds = append(seeds, nil)
		}
		if p.Place != nil {
			seeds[p.seed] = p.tensor()
		}
	}
	return seeds
}

// bring brings what the host has written anew to the device: all that lies with it, where the device is another.
func (h *Held) bring(b *Binding, changed []int32) error {
	if b.fresh && h.bridge {
		changed = nil
		for i := range b.Ports {
			if b.Ports[i].Role.kept() && b.Ports[i].Place != nil {
				changed = append(changed, int32(i))
			}
		}
	}
	for _, i := range changed {
		p := &b.Ports[i]
		if h.lends(p) {
			if lender, is := h.device.(lender); is && lender.Lend(p.value, p.tensor()) {
				continue
			}
		}
		if err := h.device.SetState(p.value, p.tensor()); err != nil {
			return err
		}
	}
	b.fresh = false
	return nil
}

// lender is a device that can read tensors where the host has them.
type lender interface {
	Lend(name string, x *graph.Tensor) bool
}

// lends is whether a step only reads a port's numbers, so that a device may do so where the host has them. Between the
// passes of a bridge those do not change.
func (h *Held) lends(p *Port) bool {
	return h.bridge && p.Place != nil && (p.Role == RoleParam || p.Role == RoleFrozen)
}

// lent are the ports whose numbers need not be loaded.
func (h *Held) lent(b *Binding) map[string]*graph.Tensor {
	all := map[string]*graph.Tensor{}
	for i := range b.Ports {
		if p := &b.Ports[i]; h.lends(p) {
			all[p.value] = p.tensor()
		}
	}
	return all
}

// end ends a run that was begun: the states become what its forward pass has made of them.
func (h *Held) end() error {
	if h.run.id == 0 || h.device == nil {
		return nil
	}
	h.run = run{}
	_, err := h.device.Run(planner.Run{Part: planner.Ending})
	return err
}

// note keeps the most that was used of each space.
func (h *Held) note(t planner.Trace) {
	for i, n := range [3]int64{planner.Arena: t.Arena, planner.State: t.State, planner.Staging: t.Staging} {
		h.high[i] = max(h.high[i], n)
	}
}

// give copies values of some roles to where the host has them.
func (h *Held) give(b *Binding, roles ...Role) error {
	for i := range b.Ports {
		p := &b.Ports[i]
		if p.Place == nil || !slices.Contains(roles, p.Role) {
			continue
		}
		write, value := h.device.WriteOutput, p.value
		switch {
		case p.Role == RoleBuffer && h.run.id == 0:
			write = h.device.WriteState
		case p.Role == RoleBuffer: // in the midst of a step the state is still the old one
			for _, u := range b.Plan.Graph.Updates {
				if u.State.Name == p.value {
					value = u.New.Name
				}
			}
		}
		to := filler(p.Place)
		if err := write(&to, value); err != nil {
			return err
		}
	}
	return nil
}

// filler is bytes that are still to be written; what does not fit is left out.
type filler []byte

func (f *filler) Write(p []byte) (int, error) {
	*f = (*f)[copy(*f, p):]
	return len(p), nil
}

// turn has the device run a binding's plan. What is kept stays where it is, if the plan has it at the same place, or else
// comes along.
func (h *Held) turn(b *Binding) (err error) {
	if h.at == b {
		return nil
	}
	if err := h.end(); err != nil {
		return err
	}
	c := b.Model.Config
	if h.device != nil {
		kind, _, err := findDevice(c.Device)
		if err != nil {
			return err
		}
		if d, err := kind.turn(h.device, b.schedule, h.lent(b)); err == nil {
			h.device, h.at, b.fresh, b.ran = d, b, true, true
			return nil
		}
	}
	if err := h.leave(b); err != nil {
		return err
	}
	defer weights.Guard(&err)()
	if !b.ran {
		debug.FreeOSMemory() // what planning left behind is not to lie beside the step
	}
	d, err := openLending(c.Device, c.FastPaths, b.schedule, h.lent(b))
	if err != nil {
		return err
	}
	for name, x := range h.stash {
		if err := d.SetState(name, x); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	clear(h.stash)
	h.device, h.at, b.fresh, b.ran = d, b, true, true
	return nil
}

// leave takes what is kept off the device, but what its host brings to another binding, and closes it.
func (h *Held) leave(to *Binding) error {
	if h.device == nil {
		return nil
	}
	brought := map[string]bool{}
	for _, p := range to.Ports {
		brought[p.value] = h.bridge && p.Role.kept() && p.Place != nil
	}
	for i := range h.at.Ports {
		p := &h.at.Ports[i]
		if !p.Role.kept() || brought[p.value] {
			continue
		}
		x, err := h.device.State(p.value)
		if err != nil {
			return err
		}
		h.stash[p.value] = x
	}
	err := h.device.Close()
	h.device, h.at = nil, nil
	return err
}

// Sync copies tensors that the session keeps, by name: to it, or to where the host has them. What it brings to the session
// ends a forward pass that waits for its backward pass.
func (h *Held) Sync(tensors []Port, toService bool) error {
	if h.broken != nil {
		return cannot(h.broken)
	}
	for i := range tensors {
		p := &tensors[i]
		v, err := h.kept(p)
		if err != nil {
			return err
		}
		p.value = v.Name
	}
	if toService {
		if err := h.guarded(h.end); err != nil {
			return err
		}
	}
	return h.guarded(func() error {
		for i := range tensors {
			if err := h.sync(&tensors[i], toService); err != nil {
				return err
			}
		}
		return nil
	})
}

// kept is the value that the session keeps under a tensor's name, if it is of its type and shape.
func (h *Held) kept(p *Port) (*graph.Value, error) {
	g := h.m.Graph
	if h.at != nil {
		g = h.at.Plan.Graph
	}
	v := g.ByName(p.Name)
	if v == nil || v.Kind != graph.Param && v.Kind != graph.ModelBuffer && v.Kind != graph.State {
		var names []string
		for _, v := range kept(g) {
			names = append(names, v.Name)
		}
		hint := "; there are " + planner.Some(names)
		if near, ok := configs.Nearest(p.Name, names); ok {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, input(fmt.Errorf("no parameter, buffer or state is named %q%s", p.Name, hint))
	}
	none, _ := graph.Bind(nil)
	shape, err := none.Shape(v.Shape)
	switch {
	case err != nil:
		return nil, input(err)
	case p.Type != v.Type || !slices.Equal(p.Shape, shape):
		return nil, input(fmt.Errorf("%q is %s%v, not %s%v", v.Name, v.Type, shape, p.Type, p.Shape))
	case len(p.Place) != p.bytes():
		return nil, input(fmt.Errorf("the span of %q has %d bytes, and %s%v takes %d", p.Name, len(p.Place), p.Type, p.Shape, p.bytes()))
	}
	return v, nil
}

func (h *Held) sync(p *Port, toService bool) (err error) {
	defer weights.Guard(&err)()
	switch {
	case toService && h.device != nil:
		return h.device.SetState(p.value, p.tensor())
	case toService:
		x := graph.NewTensor(p.Type, p.Shape...)
		copy(x.Bytes, p.Place)
		h.stash[p.value] = x
		return nil
	case h.device != nil && h.run.id != 0 && slices.ContainsFunc(h.at.Plan.Graph.Updates, func(u graph.Update) bool { return u.State.Name == p.value }):
		p.Role = RoleBuffer
		return h.give(&Binding{Plan: h.at.Plan, Ports: []Port{*p}}, RoleBuffer)
	case h.device != nil:
		to := filler(p.Place)
		return h.device.WriteState(&to, p.value)
	}
	x := h.stash[p.value]
	if x == nil {
		none, _ := graph.Bind(nil)
		if x, err = h.m.Graph.ByName(p.value).Tensor(none); err != nil {
			return err
		}
	}
	copy(p.Place, x.Bytes)
	return nil
}

// Has reports whether a binding is kept.
func (h *Held) Has(b *Binding) bool { return slices.Contains(h.bindings, b) }

// Trains is what the step trains, as plans list it.
func (h *Held) Trains() *planner.Trains { return h.m.trains() }

// HeldStats is what a session holds and has done.
type HeldStats struct {
	Format   string `json:"format"`
	Device   string `json:"device"` // "" before the first run
	Bindings int    `json:"bindings"`
	Planned  int    `json:"planned"` // bindings ever made
	Steps    int    `json:"steps"`
	Promised struct {
		Arena   int64 `json:"arena"`
		State   int64 `json:"state"`
		Staging int64 `json:"staging"`
	} `json:"promised"` // by the plan that the device runs
	High struct {
		Arena   int64 `json:"arena"`
		State   int64 `json:"state"`
		Staging int64 `json:"staging"`
	} `json:"high"` // the most that launches of any plan used
	LossScale float64       `json:"loss_scale,omitempty"`
	Memory    *DeviceMemory `json:"memory,omitempty"`
}

// Stats says what the session holds and has done.
func (h *Held) Stats() HeldStats {
	s := HeldStats{Format: "memopt.sessionstats/1", Bindings: len(h.bindings), Planned: h.planned, Steps: h.steps}
	s.High.Arena, s.High.State, s.High.Staging = h.high[planner.Arena], h.high[planner.State], h.high[planner.Staging]
	if h.device != nil {
		s.Device, s.Memory = h.device.Name(), deviceMemory(h.device)
		s.Promised.Arena, s.Promised.State, s.Promised.Staging = h.at.schedule.Arena, h.at.schedule.State, h.at.schedule.Staging
		if x, err := h.device.State(autograd.Scale); err == nil {
			s.LossScale = x.Float(0)
		}
	}
	return s
}
