package policy

import (
	"fmt"
	"slices"

	"memopt/planner"
	"memopt/planner/profile"
)

// What a step's own hooks move is told as values of its recording.
func ofOffload(s *settings) bool { return s.has("offload.values") }

func readOffload(s *settings, p *Policy) (err error) {
	o := &planner.Offload{Values: s.list("offload.values"), Place: profile.Host}
	if o.Values == nil {
		o.Values = []string{}
	}
	if o.Waits, err = s.on("offload.waits"); err != nil {
		return err
	}
	beside, err := s.number("offload.beside", 0, 0)
	if err != nil {
		return err
	}
	if o.Place, err = s.choice("offload.place", profile.Host, profile.Places()...); err != nil {
		return err
	}
	o.Beside = int64(beside)
	p.Offload = o
	p.Says = fmt.Sprintf("%d values go to the %s and back", len(slices.Compact(slices.Sorted(slices.Values(o.Values)))), o.Place)
	return nil
}

// leastMoved is the size from on which trainers move a saved tensor.
const leastMoved = 1024

// movesAll has a policy without checkpoints move all that autograd saves, if it moves anything.
func (p *Policy) movesAll() {
	if p.Away && p.Layers == nil && len(p.Parts) == 0 && !p.All {
		p.Away, p.Offload = false, &planner.Offload{Place: profile.Host, Least: leastMoved}
		p.Says += "; what autograd saves goes to the host and back"
	}
}
