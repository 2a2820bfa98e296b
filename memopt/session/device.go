package session

import (
	"context"
	"fmt"

	"memopt/memopt/graph"
	"memopt/planner"
)

// planOnDevice makes the pattern of a device that has memory of its own: the planner's schedule of the whole program.
func (s *Session) planOnDevice(ctx context.Context, p *program, b *graph.Binding, in map[string]*graph.Tensor, fetched []*graph.Value) (*pattern, error) {
	t := &pattern{p: p, binding: b, results: fetched, tensors: make([]*graph.Tensor, len(p.g.Values))}
	for _, v := range fetched {
		shape, err := b.Shape(v.Shape)
		if err != nil {
			return nil, err
		}
		t.tensors[v.ID] = &graph.Tensor{Type: v.Type, Shape: shape}
	}
	dims, err := solve(p.g, in)
	if err != nil {
		return nil, err
	}
	plan, err := planner.Make(p.g, planner.Request{Dims: dims, Strategy: "keep-all", Lowered: s.options.Lowered, Context: ctx})
	if err != nil {
		return nil, err
	}
	schedule, _, err := plan.Chained()
	if err != nil {
		return nil, err
	}
	t.height, t.inputs, t.bound, t.state = schedule.Arena, schedule.Staging, plan.Result.Peak, schedule.State
	// Patterns of other shapes make room, first those that were used last the longest ago.
	for err = s.account.Take(ownDevice, t.height+t.inputs); err != nil && s.patterns.len() > 0; err = s.account.Take(ownDevice, t.height+t.inputs) {
		s.patterns.remove(s.patterns.order.Back())
	}
	if err != nil {
		return nil, err
	}
	first := p.roots == 0
	if first {
		if err := s.account.Take(ownWeights, t.state); err != nil {
			s.account.Give(ownDevice, t.height+t.inputs)
			return nil, err
		}
	}
	if t.device, err = s.options.Device(schedule, s.deviceOf(p)); err != nil {
		s.account.Give(ownDevice, t.height+t.inputs)
		if first {
			s.account.Give(ownWeights, t.state)
		}
		return nil, err
	}
	p.roots++
	return t, nil
}

// deviceOf is a device that has the program's weights; nil if there is none.
func (s *Session) deviceOf(p *program) Device {
	for e := s.patterns.order.Front(); e != nil; e = e.Next() {
		if t := e.Value.(*entry[*pattern]).value; t.p == p && t.device != nil {
			return t.device
		}
	}
	return nil
}

// onDevice is the run on a device.
func (x *execution) onDevice() error {
	if err := x.find(); err != nil {
		return err
	}
	same := map[string]bool{}
	for _, v := range x.t.p.g.Inputs {
		if same[v.Name] = x.same[v.Name] && x.t.fed[v.Name]; !same[v.Name] {
			x.r.CopiedIn += int64(len(x.in[v.Name].Bytes))
		}
	}
	x.t.fed = nil // until the run is over, who knows
	var err error
	if x.trace, err = x.t.device.Run(planner.Run{Inputs: x.in, Same: same, Seed: x.s.options.Seed, Step: x.s.runs}); err != nil {
		return err
	}
	x.t.fed = map[string]bool{}
	for _, v := range x.t.p.g.Inputs {
		x.t.fed[v.Name] = true
	}
	for k, v := range x.t.results {
		if x.fetches[k].OnDevice {
			continue
		}
		w := &into{x.places[k]}
		if err := x.t.device.WriteOutput(w, v.Name); err != nil {
			return err
		}
		if len(w.rest) > 0 {
			return fmt.Errorf("output %q has %d bytes too few", x.fetches[k].Name, len(w.rest))
		}
		x.r.CopiedOut += int64(len(x.places[k]))
	}
	return nil
}

// into writes to memory that is there.
type into struct{ rest []byte }

func (w *into) Write(p []byte) (int, error) {
	if len(p) > len(w.rest) {
		return 0, fmt.Errorf("%d bytes do not fit", len(p))
	}
	n := copy(w.rest, p)
	w.rest = w.rest[n:]
	return n, nil
}
