package held

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/weights"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/machine"
	"memopt/memopt/training"
	"memopt/planner"
)

// lender is a device that can read tensors from the host's memory.
type lender interface {
	Lend(name string, x *graph.Tensor) bool
}

// lends reports whether a step only reads a port's tensor, so that a device may read it from the host's memory. The
// host does not change it between the passes of a bridge.
func (h *Session) lends(p *Port) bool {
	return h.bridge && p.Place != nil && (p.Role == RoleParam || p.Role == RoleFrozen)
}

// lent are the tensors that the device may read from the host's memory.
func (h *Session) lent(b *Binding) map[string]*graph.Tensor {
	all := map[string]*graph.Tensor{}
	for i := range b.Ports {
		if p := &b.Ports[i]; h.lends(p) {
			all[p.value] = p.Tensor()
		}
	}
	return all
}

// turn switches the device to a binding's plan. States stay where they are if both plans place them there;
// otherwise they are copied.
func (h *Session) turn(b *Binding) (err error) {
	if h.at == b {
		return nil
	}
	if err := h.end(); err != nil {
		return err
	}
	c := b.Model.Config
	if h.device != nil {
		kind, _, err := devices.Find(c.Device)
		if err != nil {
			return err
		}
		if kind.Lowered || machine.Fits(b.schedule.Arena+2*b.schedule.Staging, "the step", "") == nil {
			if d, err := kind.Turn(h.device, b.schedule, h.lent(b)); err == nil {
				h.device, h.at, b.fresh, b.ran = d, b, true, true
				return nil
			}
		}
	}
	if err := h.leave(b); err != nil {
		return err
	}
	defer weights.Guard(&err)()
	if !b.ran {
		debug.FreeOSMemory() // return the memory of planning to the system before the step allocates
	}
	o, err := devices.By(c)
	if err != nil {
		return err
	}
	o.Lent = h.lent(b)
	d, err := devices.Open(c.Device, b.schedule, o)
	if err != nil {
		return b.Model.WouldFit(b.Plan, b.schedule, err)
	}
	h.load = o.Load.Report()
	for name, x := range h.stash {
		if err := d.SetState(name, x); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	clear(h.stash)
	h.device, h.at, b.fresh, b.ran = d, b, true, true
	return nil
}

// leave closes the device and stashes its states, except those that the host provides for the next binding.
func (h *Session) leave(to *Binding) error {
	if h.device == nil {
		return nil
	}
	brought := map[string]bool{}
	for _, p := range to.Ports {
		brought[p.value] = h.bridge && p.Role.Kept() && p.Place != nil
	}
	for i := range h.at.Ports {
		p := &h.at.Ports[i]
		if !p.Role.Kept() || brought[p.value] {
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

// Sync copies stored tensors, by name, to the session or to the host's memory. Copying to the session ends a
// forward pass that waits for its backward pass.
func (h *Session) Sync(tensors []Port, toService bool) error {
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

// kept finds the stored value of a tensor's name, and checks its type and shape.
func (h *Session) kept(p *Port) (*graph.Value, error) {
	g := h.m.Graph
	if h.at != nil {
		g = h.at.Plan.Graph
	}
	v := g.ByName(p.Name)
	if v == nil || v.Kind != graph.Param && v.Kind != graph.ModelBuffer && v.Kind != graph.State {
		var names []string
		for _, v := range training.Kept(g) {
			names = append(names, v.Name)
		}
		hint := "; there are " + planner.Some(names)
		if near, ok := configs.Nearest(p.Name, names); ok {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, exit.Input(fmt.Errorf("no parameter, buffer or state is named %q%s", p.Name, hint))
	}
	none, _ := graph.Bind(nil)
	shape, err := none.Shape(v.Shape)
	switch {
	case err != nil:
		return nil, exit.Input(err)
	case p.Type != v.Type || !slices.Equal(p.Shape, shape):
		return nil, exit.Input(fmt.Errorf("%q is %s%v, not %s%v", v.Name, v.Type, shape, p.Type, p.Shape))
	case len(p.Place) != p.bytes():
		return nil, exit.Input(fmt.Errorf("the span of %q has %d bytes, and %s%v takes %d", p.Name, len(p.Place), p.Type, p.Shape, p.bytes()))
	}
	return v, nil
}

func (h *Session) sync(p *Port, toService bool) (err error) {
	defer weights.Guard(&err)()
	switch {
	case toService && h.device != nil:
		return h.device.SetState(p.value, p.Tensor())
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
