package planner

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner/profile"
)

// streamedBy reports, by value, the states that stream in and out of another place with their updates.
func streamedBy(g *graph.Graph, place string) []bool {
	if place == "" {
		return make([]bool, len(g.Values))
	}
	return g.Streamed()
}

// withRing is the height of the states' space with the ring that other states stream through.
func withRing(height, streamed int64) int64 {
	if ring := schedule.RingOf(align(streamed)); ring > 0 {
		return align(height) + ring
	}
	return height
}

// checkStates says why states cannot be where a request wants them.
func (r Request) checkStates(g *graph.Graph) error {
	switch {
	case r.States == "":
		return nil
	case !slices.Contains(profile.Places(), r.States):
		return fmt.Errorf("states cannot lie in %q; there are %v", r.States, profile.Places())
	case !slices.Contains(g.Streamed(), true):
		return fmt.Errorf("no state of the step can stream from the %s: SGD has none, and LAMB needs a parameter's as a whole", r.States)
	}
	return nil
}

// Streamed sums up what states take elsewhere and in memory.
type Streamed struct {
	Place  string `json:"place"`
	Bytes  int64  `json:"bytes"` // elsewhere; a step brings them in and out
	Ring   int64  `json:"ring"`  // in memory, within Memory.Optimizer
	CopyNS int64  `json:"copy_ns,omitempty"`
}

// Streamed is what states of the plan stream, or nil.
func (p *Plan) Streamed() *Streamed {
	if p.Request.States == "" {
		return nil
	}
	s := &Streamed{Place: p.Request.States}
	for i, is := range p.m.g.Streamed() {
		if is {
			s.Bytes = align(s.Bytes) + p.m.bytes[i]
		}
	}
	s.Ring = schedule.RingOf(align(s.Bytes))
	if prices := p.Request.pricing(); prices != nil {
		c := prices.CopiesTo(s.Place)
		pieces := float64((s.Bytes + max(s.Ring/schedule.RingParts, 1) - 1) / max(s.Ring/schedule.RingParts, 1))
		s.CopyNS = int64(2*pieces*c.Delay + float64(s.Bytes)*(1/c.Out+1/c.In))
	}
	return s
}

// streams says why a launch cannot have what it reads and writes elsewhere brought a piece at a time.
func streams(l *schedule.Launch) error {
	for _, refs := range [][]schedule.Ref{l.In, l.Out} {
		for _, r := range refs {
			if r.Space == schedule.Elsewhere && r.Value != nil && (l.Node == nil || l.Node.Phase != graph.Updating || !l.Node.Op.Streams || l.Parts != nil) {
				return fmt.Errorf("touches %q, which only an update can that takes a piece at a time", r.Value.Name)
			}
		}
	}
	return nil
}
