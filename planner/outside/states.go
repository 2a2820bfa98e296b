package outside

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner/profile"
)

// CheckStates says why states cannot be where a request wants them; "" is in memory.
func CheckStates(g *graph.Graph, place string) error {
	switch {
	case place == "":
		return nil
	case !slices.Contains(profile.Places(), place):
		return fmt.Errorf("states cannot lie in %q; there are %v", place, profile.Places())
	case !slices.Contains(g.Streamed(), true):
		return fmt.Errorf("no state of the step can stream from the %s: SGD has none, and LAMB needs a parameter's as a whole", place)
	}
	return nil
}

// States are the optimizer states of a graph that can stream, by the parameters that they are of: those with the largest
// states first, and of equals the first that is updated.
type States struct {
	g   *graph.Graph
	all []parameter
}

type parameter struct {
	states []*graph.Value
	bytes  int64
}

// StatesOf finds the states that can stream.
func StatesOf(g *graph.Graph, b *graph.Binding) *States {
	s, is := &States{g: g}, g.Streamed()
	for _, n := range g.Nodes {
		if n.Phase != graph.Updating {
			continue
		}
		var p parameter
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
			s.all = append(s.all, p)
		}
	}
	slices.SortStableFunc(s.all, func(a, b parameter) int { return cmp.Compare(b.bytes, a.bytes) })
	return s
}

// Parameters is of how many parameters the states can stream.
func (s *States) Parameters() int { return len(s.all) }

// leave are those whose states stream where the states of so many, the smallest, stay in memory.
func (s *States) leave(stay int) (leave, stays []parameter) {
	k := max(len(s.all)-max(stay, 0), 0)
	return s.all[:k], s.all[k:]
}

// Streams reports, by value, the states that stream where the states of so many parameters stay.
func (s *States) Streams(stay int) []bool {
	is := make([]bool, len(s.g.Values))
	leave, _ := s.leave(stay)
	for _, p := range leave {
		for _, v := range p.states {
			is[v.ID] = true
		}
	}
	return is
}

// Streaming is Streams for states at a place; none stream where that is "".
func Streaming(g *graph.Graph, b *graph.Binding, place string, stay int) []bool {
	if place == "" {
		return make([]bool, len(g.Values))
	}
	return StatesOf(g, b).Streams(stay)
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

// Sum is what streams from a place where the states of so many parameters stay, and how long its copies take by a profile,
// if there is one.
func (s *States) Sum(place string, stay int, l *Layout, prices *profile.Profile) *Streamed {
	leave, stays := s.leave(stay)
	x := &Streamed{Place: place, Bytes: l.Elsewhere, Ring: schedule.RingOf(Align(l.Elsewhere)), Parameters: len(leave), Stay: len(stays)}
	for _, p := range stays {
		x.StayBytes += p.bytes
	}
	if prices != nil && x.Bytes > 0 {
		c, part := prices.CopiesTo(place), max(x.Ring/schedule.RingParts, 1)
		x.CopyNS = int64(2*float64((x.Bytes+part-1)/part)*c.Delay + float64(x.Bytes)*(1/c.Out+1/c.In))
	}
	return x
}
