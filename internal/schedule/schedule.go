// Package schedule is what stands between a planner and a device: a step as a flat list of launches with their places,
// what a device is given to run it, and what it says of the run. A planner makes schedules and a device obeys them; neither
// knows the other.
package schedule

import (
	"slices"

	"memopt/internal/graph"
)

// Space is where a range of bytes lies.
type Space uint8

// The spaces. State holds parameters, constants and optimizer states, which outlive the step; Staging holds the inputs
// fed to it; Given the outputs whose memory the caller gives (Request.OutputsGiven); Elsewhere states that come in for their
// updates only, a piece at a time; Arena everything else.
const (
	Arena Space = iota
	State
	Staging
	Given
	Elsewhere
	Spaces // how many there are
)

// String is the space's name in reports.
func (s Space) String() string {
	return [...]string{"arena", "state", "staging", "given", "elsewhere"}[s]
}

// RingParts is the parts of a ring that states stream through: one comes in and one goes out while an update works on the third.
const RingParts = 3

// RingOf is the bytes of memory through which so many bytes of states stream, a part of it at a time. It is a small part of
// them, but no less than copies of some size need.
func RingOf(states int64) int64 {
	const tiny, least, most, part = 3 << 10, 192 << 10, 24 << 20, 16
	if states == 0 {
		return 0
	}
	ring := min(max(states/part, least), most)
	return max(min(ring, states), tiny) / (RingParts * Aligned) * (RingParts * Aligned)
}

// Aligned is what offsets are multiples of: a cache line, and enough for any vector load.
const Aligned = 64

// Ref is a range of bytes, and what is to be seen in them.
type Ref struct {
	Value  *graph.Value // nil: work space, or an omitted input or output
	Space  Space
	Offset int64
	Bytes  int64
	Shape  []int
}

// Overlaps reports whether two ranges share bytes.
func (r *Ref) Overlaps(o *Ref) bool {
	return r.Space == o.Space && r.Bytes > 0 && o.Bytes > 0 && r.Offset < o.Offset+o.Bytes && o.Offset < r.Offset+r.Bytes
}

// Launch is one dispatch as data. Copy launches have no Node: they bring a new state that was made elsewhere (In[0]) to
// the state's place (Out[0]).
type Launch struct {
	Node    *graph.Node
	Again   bool
	In, Out []Ref
	Scratch Ref
	// Parts is the launches that Node, a chain, stands for; nil for others. One after another they do the same: what is
	// between them has its place, too.
	Parts []Launch
}

// Schedule is the flat list that a device obeys.
type Schedule struct {
	Launches []Launch
	// Heights of the spaces.
	Arena, State, Staging, Given, Elsewhere int64
	// Ring is the last bytes of State, through which what is Elsewhere comes in and goes out.
	Ring int64
	// Fixed lists every input and stored value with its place.
	Fixed []Ref
	// Moves is what is copied elsewhere and back beside the launches.
	Moves []Transfer
	// Outputs says where the graph's outputs are after the last launch.
	Outputs []Ref
	// Binding gives the numbers of dims.
	Binding *graph.Binding
	// Lives are the stretches of the arena, for devices that guard them.
	Lives []Life

	// Shows is, by value, itself, or for a view what that is of.
	Shows []*graph.Value

	classes map[*graph.Value]class // of states that begin as zeros
}

// SameStates reports whether two schedules have the same parameters, constants and states at the same places.
func (s *Schedule) SameStates(o *Schedule) bool {
	states := func(s *Schedule) []Ref {
		return slices.DeleteFunc(slices.Clone(s.Fixed), func(r Ref) bool { return r.Space != State && r.Space != Elsewhere })
	}
	return s.State == o.State && s.Ring == o.Ring && s.Elsewhere == o.Elsewhere && slices.EqualFunc(states(s), states(o), func(a, b Ref) bool {
		return a.Value.Name == b.Value.Name && a.Value.Type == b.Value.Type && a.Space == b.Space && a.Offset == b.Offset && a.Bytes == b.Bytes
	})
}

// Streamed is the states of a launch that are elsewhere, and come in and go out through the ring.
func (l *Launch) Streamed() (all []Ref) {
	for _, r := range l.In {
		if r.Value != nil && r.Space == Elsewhere {
			all = append(all, r)
		}
	}
	return all
}

// Stride is the bytes of a part of the ring for one of so many states.
func (s *Schedule) Stride(states int) int64 {
	return s.Ring / RingParts / int64(states) / Aligned * Aligned
}

// Life is a stretch of the arena in half-open launches [First, Last).
type Life struct {
	First, Last   int32
	Offset, Bytes int64
}

// Transfer is a move as a device obeys it: from a place in the arena, to one elsewhere, and back to another one.
type Transfer struct {
	From, To            Ref
	Far                 int64
	Out, Gone, In, Back int32
}

// Far is the height of the place that moves take values to.
func (s *Schedule) Far() (high int64) {
	for _, x := range s.Moves {
		high = max(high, x.Far+x.From.Bytes)
	}
	return high
}

// Each goes over the launches that stand in a
func (s *Schedule) Each(yield func(i int, l *Launch) error) error {
	for i := range s.Launches {
		if err := yield(i, &s.Launches[i]); err != nil {
			return err
		}
	}
	return nil
}
