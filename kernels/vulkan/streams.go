package vulkan

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// Optimizer states that a schedule has elsewhere lie in the host's memory. Their updates run in pieces: copies bring the states
// of a piece into a part of the ring, a dispatch updates them there, and copies take them out. All three are work like any
// other, so pieces come in as soon as their part of the ring is free, also while the backward pass still runs.

// streamed is a state's share of a piece: elsewhere, and in the ring.
type streamed struct{ far, near span }

// streams reports whether a launch updates states that are elsewhere.
func streams(l schedule.Launch) bool { return len(l.Streamed()) > 0 }

// ring is the span of the ring.
func (d *Device) ring() span {
	return span{schedule.State, d.schedule.State - d.schedule.Ring, d.schedule.State}
}

// inPieces is limits under which the update of a launch is lowered in pieces for which the ring has room.
func (d *Device) inPieces(l schedule.Launch, limits graph.Limits) graph.Limits {
	if states := l.Streamed(); len(states) > 0 {
		limits.Range = min(limits.Range, d.schedule.Stride(len(states)))
	}
	return limits
}

// through is the place in the ring of a span of states, and its binding, for the next piece.
func (d *Device) through(l schedule.Launch, far span, c *dispatch) (span, vk.Binding, error) {
	states := l.Streamed()
	stride := d.schedule.Stride(len(states))
	k := slices.IndexFunc(states, func(r schedule.Ref) bool { return r.Offset <= far.at && far.end <= r.Offset+r.Bytes })
	if k < 0 || far.end-far.at > stride {
		return span{}, vk.Binding{}, fmt.Errorf("%d bytes of states at %d do not pass through the ring, whose parts have %d", far.end-far.at, far.at, stride)
	}
	near := d.ring()
	near.at += int64(d.streamed%schedule.RingParts)*(d.schedule.Ring/schedule.RingParts) + int64(k)*stride
	near.end = near.at + far.end - far.at
	if x := (streamed{far, near}); !slices.Contains(c.streams, x) {
		c.streams = append(c.streams, x)
	}
	block, at := d.spaces[near.space].locate(near.at)
	return near, vk.Binding{Block: block, At: at, Bytes: near.end - near.at}, nil
}

// stream records a piece of an update: its states come in and go out by lanes of their own.
func (d *Device) stream(lanes *laned, l *launch, piece []dispatch, cut func() error, pending *[]work, c *Counts) error {
	if err := cut(); err != nil {
		return err
	}
	all, n := d.work(l, piece), len(piece[0].streams)
	if err := lanes.copies(vk.Home, all[:n], c); err != nil {
		return err
	}
	*pending = append(*pending, all[n])
	return firstOf(cut(), lanes.copies(vk.Out, all[n+1:], c))
}

// streamedBytes is what dispatches bring in and take out of states.
func streamedBytes(all []dispatch) (n int64) {
	for _, c := range all {
		for _, x := range c.streams {
			n += x.near.end - x.near.at
		}
	}
	return n
}
