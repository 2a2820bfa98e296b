// Package outside says what lies outside the arena: parameters, optimizer states and inputs, which states stream in and out of
// another place with their updates, and the place that values of the arena may be moved to and back.
package outside

import (
	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// Layout is the heights of the spaces outside the arena, as values are placed in them one behind the other.
type Layout struct {
	State, Staging, Elsewhere int64
	States                    int64 // bytes of State that are optimizer states', with the ring once there is one
}

// Align is bytes in whole units of the alignment.
func Align(n int64) int64 { return (n + schedule.Aligned - 1) / schedule.Aligned * schedule.Aligned }

// Place is the space of a value that no node makes, and its offset. streams says that it is a state that streams.
func (l *Layout) Place(v *graph.Value, bytes int64, streams bool) (space schedule.Space, at int64) {
	height, space := &l.State, schedule.State
	switch {
	case v.Kind == graph.Input:
		height, space = &l.Staging, schedule.Staging
	case streams && bytes > 0:
		height, space = &l.Elsewhere, schedule.Elsewhere
	case v.Kind == graph.State:
		l.States += bytes
	}
	at = Align(*height)
	*height = at + bytes
	return space, at
}

// End puts the ring behind the states in memory, through which those elsewhere stream, and is its bytes.
func (l *Layout) End() (ring int64) {
	if ring = schedule.RingOf(Align(l.Elsewhere)); ring > 0 {
		l.State = Align(l.State) + ring
		l.States += ring
	}
	return ring
}

// Fixed is the bytes of memory that are taken outside the arena.
func (l *Layout) Fixed() int64 { return l.State + l.Staging }

// Of is the layout of a graph's values, by the bytes of each and which states stream.
func Of(g *graph.Graph, bytes []int64, streams []bool) (l Layout) {
	for i, v := range g.Values {
		if v.Kind != graph.Computed {
			l.Place(v, bytes[i], streams[i])
		}
	}
	l.End()
	return l
}
