package held

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/memopt/exit"
	"memopt/memopt/training"
)

// StepOf describes the step to run.
type StepOf struct {
	Binding    uint64
	Changed    []int32 // ports of stored tensors that the host has overwritten
	Seed, Step uint64  // of random operators
	LR         float64
	Run        uint64 // for Backward: ID of the forward pass
	Accumulate bool   // accumulate gradients, without an update
}

// Stepped is the result of a step, or of one pass of it.
type Stepped struct {
	Run   uint64
	Trace schedule.Trace
	Loss  float64
	// Skipped says that nothing was updated, because a scaled gradient was infinite or NaN.
	Skipped bool
}

// Forward runs the forward pass of a bridge: it reads the inputs and the changed tensors from the host's memory,
// and writes the results and the new running statistics there.
func (h *Session) Forward(ctx context.Context, r StepOf) (s Stepped, err error) {
	if !h.bridge {
		return s, exit.Input(errors.New("the weights are in the service: such a session has Step, and Forward and Backward are of a bridge"))
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
		if s.Trace, err = h.device.Run(schedule.Run{Inputs: b.inputs(), Lent: true, Seed: r.Seed, Step: r.Step, Part: schedule.ForwardPass}); err != nil {
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

// Backward runs the backward pass of the last forward pass: it reads the gradients of the results (zeros for those
// without a place), and writes the gradients of the parameters.
func (h *Session) Backward(ctx context.Context, r StepOf) (s Stepped, err error) {
	if !h.bridge {
		return s, exit.Input(errors.New("the weights are in the service: such a session has Step, and Forward and Backward are of a bridge"))
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
		return s, exit.Input(errors.New("nothing that a run reads can change between its passes; give changed tensors to Forward"))
	}
	return s, h.guarded(func() error {
		t, err := h.device.Run(schedule.Run{Seeds: b.seeds(), Seed: h.run.seed, Step: h.run.step, Part: schedule.BackwardPass})
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

// Step runs a whole step on the weights that the session keeps. With Accumulate, it only accumulates gradients.
func (h *Session) Step(ctx context.Context, r StepOf) (s Stepped, err error) {
	if h.bridge {
		return s, exit.Input(errors.New("the weights of a bridge are the host's: it has Forward and Backward, and Step is of sessions that keep them"))
	}
	g := h.m.Graph
	switch {
	case math.IsNaN(r.LR) || math.IsInf(r.LR, 0) || r.LR < 0:
		return s, exit.Input(fmt.Errorf("the learning rate is %v", r.LR))
	case r.Accumulate && g.ByName(autograd.MicroBatch) == nil:
		return s, exit.Input(fmt.Errorf("gradients are only added up where the session was opened with %s, the number of runs for an update", h.m.Config.Say("accumulate", "N")))
	}
	b, err := h.ready(r)
	if err != nil {
		return s, err
	}
	return s, h.guarded(func() error {
		if err := h.bring(b, r.Changed); err != nil {
			return err
		}
		scaled, err := training.NewScaledLoss(b.Model, h.device)
		if err != nil {
			return err
		}
		in := b.inputs()
		lr, index := graph.NewTensor(graph.Float32), graph.NewTensor(graph.Int64)
		lr.SetFloat(0, r.LR)
		index.SetInt(0, h.micro)
		in[autograd.LearningRate], in[autograd.MicroBatch] = lr, index
		if s.Trace, err = h.device.Run(schedule.Run{Inputs: in, Lent: true, Seed: r.Seed, Step: r.Step, Accumulate: r.Accumulate}); err != nil {
			return runError(err)
		}
		h.note(s.Trace)
		h.started++
		s.Run = h.started
		h.steps++
		if h.micro++; !r.Accumulate {
			h.micro = 0
			var said training.Result
			if err := scaled.Look(h.device, 0, &said); err != nil {
				return err
			}
			if s.Skipped = len(said.Skipped) > 0; s.Skipped {
				h.skipped++
			}
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

// runError classifies a failed run: errors of nodes are due to the input data.
func runError(err error) error {
	var node *graph.NodeError
	if errors.As(err, &node) {
		return exit.Input(err)
	}
	return cannot(err)
}

// guarded calls a function that uses the device. A panic leaves the device in an unknown state, and makes the
// session unusable.
func (h *Session) guarded(do func() error) error {
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

// ready checks the request for a run, and switches the device to the binding's plan.
func (h *Session) ready(r StepOf) (*Binding, error) {
	b, err := h.binding(r.Binding)
	if err != nil {
		return nil, err
	}
	for _, i := range r.Changed {
		switch {
		case i < 0 || int(i) >= len(b.Ports):
			return nil, exit.Input(fmt.Errorf("tensor %d has changed, and the binding has %d", i, len(b.Ports)))
		case !b.Ports[i].Role.Kept():
			return nil, exit.Input(fmt.Errorf("%s %q has changed, and is read anew for every run", b.Ports[i].Role, b.Ports[i].Name))
		case b.Ports[i].Place == nil:
			return nil, exit.Input(fmt.Errorf("%s %q has changed, and has no span", b.Ports[i].Role, b.Ports[i].Name))
		}
	}
	for i := range b.Ports {
		if p := &b.Ports[i]; p.Role == RoleInput && p.Place == nil && p.bytes() > 0 {
			return nil, exit.Input(fmt.Errorf("input %q has no span", p.Name))
		}
	}
	return b, h.guarded(func() error { return h.turn(b) })
}

// bring copies changed tensors from the host to the device; in a bridge, all stored tensors if they were placed
// anew or the device is new.
func (h *Session) bring(b *Binding, changed []int32) error {
	if b.fresh && h.bridge {
		changed = nil
		for i := range b.Ports {
			if b.Ports[i].Role.Kept() && b.Ports[i].Place != nil {
				changed = append(changed, int32(i))
			}
		}
	}
	for _, i := range changed {
		p := &b.Ports[i]
		if h.lends(p) {
			if lender, is := h.device.(lender); is && lender.Lend(p.value, p.Tensor()) {
				continue
			}
		}
		if err := h.device.SetState(p.value, p.Tensor()); err != nil {
			return err
		}
	}
	b.fresh = false
	return nil
}

// end completes a run whose forward pass was run: the states take their new values.
func (h *Session) end() error {
	if h.run.id == 0 || h.device == nil {
		return nil
	}
	h.run = run{}
	_, err := h.device.Run(schedule.Run{Part: schedule.Ending})
	return err
}

// note updates the peaks of the three spaces.
func (h *Session) note(t schedule.Trace) {
	for i, n := range [3]int64{schedule.Arena: t.Arena, schedule.State: t.State, schedule.Staging: t.Staging} {
		h.high[i] = max(h.high[i], n)
	}
}

// give copies the values of some roles to the host's memory.
func (h *Session) give(b *Binding, roles ...Role) error {
	for i := range b.Ports {
		p := &b.Ports[i]
		if p.Place == nil || !slices.Contains(roles, p.Role) {
			continue
		}
		write, value := h.device.WriteOutput, p.value
		switch {
		case p.Role == RoleBuffer && h.run.id == 0:
			write = h.device.WriteState
		case p.Role == RoleBuffer: // between the passes, the state is still the old one
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

// filler is the part of a buffer that is still to be written; bytes beyond it are dropped.
type filler []byte

func (f *filler) Write(p []byte) (int, error) {
	*f = (*f)[copy(*f, p):]
	return len(p), nil
}
