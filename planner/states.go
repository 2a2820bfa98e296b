package planner

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner/profile"
)

// streamedBy reports, by value, the states that stream in and out of another place with their updates.
func streamedBy(g *graph.Graph, r Request, b *graph.Binding) []bool {
	if r.States == "" {
		return make([]bool, len(g.Values))
	}
	is := g.Streamed()
	if r.StatesStay > 0 {
		leaving := leaving(g, b)
		for _, p := range leaving[max(len(leaving)-r.StatesStay, 0):] {
			for _, v := range p.states {
				is[v.ID] = false
			}
		}
	}
	return is
}

// leaver is a parameter whose states can stream.
type leaver struct {
	states []*graph.Value
	bytes  int64
}

// leaving lists the parameters whose states can stream, the largest states first and of equals the first that is updated.
func leaving(g *graph.Graph, b *graph.Binding) (all []leaver) {
	is := g.Streamed()
	for _, n := range g.Nodes {
		if n.Phase != graph.Updating {
			continue
		}
		var p leaver
		for _, v := range n.Inputs {
			if v == nil || !is[v.ID] {
				continue
			}
			p.states = append(p.states, v)
			_ = graph.Try(func() { // a state without a size is told of where all values are measured
				if bytes, err := b.Eval(v.Bytes()); err == nil {
					p.bytes += bytes
				}
			})
		}
		if p.states != nil {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b leaver) int { return cmp.Compare(b.bytes, a.bytes) })
	return all
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
	// Parameters is how many parameters' states are elsewhere. Stay is of how many others they could be and stay in memory,
	// and StayBytes theirs: 0 where all leave.
	Parameters int   `json:"parameters"`
	Stay       int   `json:"stay,omitempty"`
	StayBytes  int64 `json:"stay_bytes,omitempty"`
}

// Streamed is what states of the plan stream, or nil where none were asked to.
func (p *Plan) Streamed() *Streamed {
	if p.Request.States == "" {
		return nil
	}
	return p.m.streamed(p.Request)
}

func (m *model) streamed(r Request) *Streamed {
	s, all := &Streamed{Place: r.States}, leaving(m.g, m.binding)
	for i, is := range streamedBy(m.g, r, m.binding) {
		if is {
			s.Bytes = align(s.Bytes) + m.bytes[i]
		}
	}
	s.Stay = min(r.StatesStay, len(all))
	s.Parameters = len(all) - s.Stay
	for _, p := range all[s.Parameters:] {
		s.StayBytes += p.bytes
	}
	s.Ring = schedule.RingOf(align(s.Bytes))
	if prices := r.Prices(); prices != nil && s.Bytes > 0 {
		c := prices.CopiesTo(s.Place)
		pieces := float64((s.Bytes + max(s.Ring/schedule.RingParts, 1) - 1) / max(s.Ring/schedule.RingParts, 1))
		s.CopyNS = int64(2*pieces*c.Delay + float64(s.Bytes)*(1/c.Out+1/c.In))
	}
	return s
}

// Leavers is of how many parameters the states can stream.
func (s *Search) Leavers() int { return len(leaving(s.m.g, s.m.binding)) }

// Leave is what streams where the states of so many parameters leave, and what then lies outside the arena.
func (s *Search) Leave(parameters int) (sent *Streamed, fixed int64) {
	r := s.r
	r.StatesStay = s.Leavers() - parameters
	heights, _ := s.m.outside(streamedBy(s.m.g, r, s.m.binding))
	return s.m.streamed(r), heights[0] + heights[1]
}

// Floor is what no plan's arena goes below.
func (s *Search) Floor() int64 { return s.m.floor(s.r.Elsewhere).Peak }

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
