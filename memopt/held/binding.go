package held

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/memopt/exit"
	"memopt/memopt/step"
	"memopt/planner"
)

// mostBindings bounds the bindings, and so the plans, that a step keeps; the least recently used one is evicted.
const mostBindings = 16

// Role says what a tensor of a binding is for.
type Role string

// The roles, in the order in which a binding lists them.
const (
	RoleInput  Role = "input"
	RoleSeed   Role = "seed"   // the gradient of an output, under the output's name
	RoleParam  Role = "param"  // trained
	RoleBuffer Role = "buffer" // a running statistic
	RoleFrozen Role = "frozen" // belongs to the model, and is never updated
	RoleState  Role = "state"  // optimizer state
	RoleOutput Role = "output"
	RoleGrad   Role = "grad" // gradient, under the name of its parameter or input
)

// Kept reports whether the step keeps the tensor from run to run.
func (r Role) Kept() bool {
	return r == RoleParam || r == RoleBuffer || r == RoleFrozen || r == RoleState
}

// Port is a tensor of a binding, with its bytes in the host's memory; Place is nil if the host has none.
type Port struct {
	Name  string
	Role  Role
	Type  graph.DType
	Shape []int
	Place []byte

	value string // name of the value on the device
	seed  int    // for seeds: index among the border's outputs
}

// Tensor is the port's bytes with their type and shape.
func (p *Port) Tensor() *graph.Tensor {
	return &graph.Tensor{Type: p.Type, Shape: p.Shape, Bytes: p.Place}
}

func (p *Port) bytes() int { return p.Tensor().Len() * int(p.Type.Size()) }

// Binding is the plan for the shapes of one batch, with the tensors that it reads and writes.
type Binding struct {
	ID    uint64
	Ports []Port
	Model *step.Model // under the binding's dims
	Plan  *planner.Plan

	key      string
	schedule *schedule.Schedule
	fresh    bool // the device has not loaded the host's tensors since they were placed
	ran      bool // the device has run the plan
}

// Bind finds the plan for a batch of the given shapes, or makes it; known says that it was found.
func (h *Session) Bind(ctx context.Context, batch []Port) (b *Binding, known bool, err error) {
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

// sizes infers the dims from the shapes of a batch.
func (h *Session) sizes(batch []Port) (map[string]int64, error) {
	given := map[string]*Port{}
	inputs := h.Inputs()
	for i := range batch {
		p := &batch[i]
		if !slices.ContainsFunc(inputs, func(v *graph.Value) bool { return v.Name == p.Name }) {
			return nil, exit.Input(fmt.Errorf("the model has no input %q; it has %s", p.Name, described(inputs)))
		}
		if given[p.Name] != nil {
			return nil, exit.Input(fmt.Errorf("input %q is given twice", p.Name))
		}
		given[p.Name] = p
	}
	for _, v := range inputs {
		p := given[v.Name]
		switch {
		case p == nil:
			return nil, exit.Input(fmt.Errorf("input %s is missing", v))
		case p.Type != v.Type:
			return nil, exit.Input(fmt.Errorf("input %q is %s, the model takes %s", v.Name, p.Type, v.Type))
		case len(p.Shape) != v.Rank():
			return nil, exit.Input(fmt.Errorf("input %q has shape %v, the model takes %s", v.Name, p.Shape, v.Shape))
		}
		for i, d := range v.Shape {
			if len(d.Names()) > 0 && p.Shape[i] < 1 {
				return nil, exit.Input(fmt.Errorf("input %q has shape %v, and a step of nothing has no plan", v.Name, p.Shape))
			}
		}
	}
	dims, err := graph.Sizes(inputs, func(v *graph.Value) []int { return given[v.Name].Shape })
	if err != nil {
		return nil, exit.Input(err)
	}
	for name, n := range h.m.Config.Dims { // dims that no input determines
		if dims[name] == 0 {
			dims[name] = n
		}
	}
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, exit.Input(err)
	}
	for _, v := range inputs {
		if slices.ContainsFunc(v.Shape, func(d graph.Dim) bool {
			return slices.ContainsFunc(d.Names(), func(name string) bool { return dims[name] == 0 })
		}) {
			continue // planning reports the missing size
		}
		shape, err := b.Shape(v.Shape)
		if err != nil {
			return nil, exit.Input(err)
		}
		if !slices.Equal(shape, given[v.Name].Shape) {
			return nil, exit.Input(fmt.Errorf("input %q has shape %v, the model takes %s, which is %v", v.Name, given[v.Name].Shape, v.Shape, shape))
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
func (h *Session) plan(dims map[string]int64) (*Binding, error) {
	c := h.m.Config
	c.Dims = dims
	m, err := h.m.With(c)
	if err != nil {
		return nil, err
	}
	p, err := m.Plan()
	if err != nil {
		return nil, err
	}
	s, _, err := m.Schedule(p)
	if err != nil {
		return nil, err
	}
	b := &Binding{Model: m, Plan: p, schedule: s}
	return b, h.list(b)
}

// list lists the tensors of a binding as its ports.
func (h *Session) list(b *Binding) error {
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

// binding finds a binding by ID, and marks it as the most recently used.
func (h *Session) binding(id uint64) (*Binding, error) {
	i := slices.IndexFunc(h.bindings, func(b *Binding) bool { return b.ID == id })
	switch {
	case h.broken != nil:
		return nil, cannot(h.broken)
	case i < 0 && id > 0 && id <= h.last:
		return nil, cannot(fmt.Errorf("binding %d made room for others: %d are kept; bind its shapes anew", id, mostBindings))
	case i < 0:
		return nil, exit.Input(fmt.Errorf("there is no binding %d", id))
	}
	b := h.bindings[i]
	h.bindings = slices.Insert(slices.Delete(h.bindings, i, i+1), 0, b)
	return b, nil
}

// With calls f on a binding. ctx ends the work on its model.
func (h *Session) With(ctx context.Context, id uint64, f func(*Binding) error) error {
	b, err := h.binding(id)
	if err != nil {
		return err
	}
	defer h.during(ctx)()
	return f(b)
}

// Place sets the host's memory of a binding's tensors, in the order of its ports; nil means none.
func (h *Session) Place(id uint64, places [][]byte) error {
	b, err := h.binding(id)
	if err != nil {
		return err
	}
	if len(places) != len(b.Ports) {
		return exit.Input(fmt.Errorf("%d spans are given for the %d tensors of binding %d", len(places), len(b.Ports), id))
	}
	for i := range b.Ports {
		p := &b.Ports[i]
		if places[i] != nil && len(places[i]) != p.bytes() {
			return exit.Input(fmt.Errorf("the span of %s %q has %d bytes, and %s%v takes %d", p.Role, p.Name, len(places[i]), p.Type, p.Shape, p.bytes()))
		}
	}
	return h.guarded(func() error {
		for i := range b.Ports {
			p := &b.Ports[i]
			if h.at == b && places[i] == nil && h.lends(p) { // the device may be reading the previous place
				if err := h.device.SetState(p.value, p.Tensor()); err != nil {
					return err
				}
			}
			p.Place = places[i]
		}
		b.fresh = true
		return nil
	})
}

// inputs are the binding's input tensors.
func (b *Binding) inputs() map[string]*graph.Tensor {
	in := map[string]*graph.Tensor{}
	for i := range b.Ports {
		if p := &b.Ports[i]; p.Role == RoleInput {
			in[p.value] = p.Tensor()
		}
	}
	return in
}

// seeds are the gradients of the results, indexed by the border's outputs.
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
			seeds[p.seed] = p.Tensor()
		}
	}
	return seeds
}

// Has reports whether a binding is kept.
func (h *Session) Has(b *Binding) bool { return slices.Contains(h.bindings, b) }
