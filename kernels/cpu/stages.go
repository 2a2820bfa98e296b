package cpu

import (
	"fmt"

	"memopt/memopt/arena"
	"memopt/planner"
)

// stages is memory that is there from the stage of a step on that first touches it. Until then it is address space alone:
// whoever touches it is ended by the system. Nothing is written to it; the system gives zeros.
type stages struct {
	segments []planner.Segment // those that are not there yet
	needs    []planner.Stage   // by launch
	now      planner.Stage
	begin    int // launches of the backward pass
	end      int
}

// reserve gives the spaces their addresses.
func (d *Device) reserve(s *planner.Schedule, from *Device) error {
	take := arena.Map
	d.stages = stages{now: planner.UpdateStage, begin: s.BackwardBegin(), end: s.BackwardEnd()}
	if d.options.Staged {
		take = arena.Reserve
		d.stages.now, d.stages.needs = planner.Loading, s.Needs()
	}
	for space, n := range [3]int64{planner.Arena: s.Arena, planner.State: s.State, planner.Staging: s.Staging} {
		var err error
		if from != nil && planner.Space(space) == planner.State {
			d.spaces[space] = from.spaces[space]
			continue
		}
		if int64(int(n)) != n || n < 0 {
			return fmt.Errorf("cpu: %s of %d bytes cannot be had", planner.Space(space), n)
		}
		if d.spaces[space], err = take(n); err != nil { // which takes memory as it is touched
			return fmt.Errorf("%s: %d bytes cannot be had: %w", planner.Space(space), n, err)
		}
	}
	if d.options.Staged {
		d.stages.segments = s.Segments(false)
		return d.commit(planner.Loading)
	}
	return nil
}

// commit has the memory of all stages up to one be there.
func (d *Device) commit(stage planner.Stage) error {
	d.stages.now = max(d.stages.now, stage)
	return d.commitThose(func(g planner.Segment) bool { return g.Stage <= d.stages.now })
}

func (d *Device) commitThose(wanted func(planner.Segment) bool) error {
	left := d.stages.segments[:0]
	for i, g := range d.stages.segments {
		if !wanted(g) {
			left = append(left, g)
			continue
		}
		granted, err := arena.Commit(d.spaces[g.Space], g.At, g.End)
		if err != nil {
			d.stages.segments = append(left, d.stages.segments[i:]...)
			return fmt.Errorf("cpu: %s: %d bytes cannot be had: %w", g.Space, g.End-g.At, err)
		}
		d.count(g.Owner, g.End-g.At, granted)
		if g.Space == planner.State && g.Owner != "weights" {
			d.zeroed += g.End - g.At
		}
	}
	d.stages.segments = left
	return nil
}

// count tells whoever keeps the book.
func (d *Device) count(owner string, requested, granted int64) {
	d.counted = append(d.counted, counted{owner, requested, granted})
	if d.options.Count != nil {
		d.options.Count(owner, requested, granted)
	}
}

// counted is memory in the book.
type counted struct {
	owner              string
	requested, granted int64
}

// Filled is the bytes that were copied to parameters, constants and states, and those of states that begin as zeros, which
// nobody copied.
func (d *Device) Filled() (uploaded, zeroed int64) { return d.uploaded, d.zeroed }

// Unified is true: the device's memory is the process's.
func (d *Device) Unified() bool { return true }

// Driver says nothing: there is none.
func (d *Device) Driver() (usage, budget int64, ok bool) { return 0, 0, false }

// Resident is what of the device's spaces takes memory.
func (d *Device) Resident() (n int64) {
	for _, b := range d.spaces {
		n += arena.Resident(b)
	}
	return n
}

// pass tells that a pass is over, before launch i or behind the last one.
func (d *Device) pass(i int, r planner.Run) {
	if r.At != nil && i == d.stages.begin {
		r.At(planner.ForwardOver)
	}
	if r.At != nil && i == d.stages.end {
		r.At(planner.BackwardOver)
	}
}

// reach has the memory of launch i be there.
func (d *Device) reach(i int) error {
	if i < len(d.stages.needs) && d.stages.needs[i] > d.stages.now {
		return d.commit(d.stages.needs[i])
	}
	return nil
}

// there has the memory of a value be there.
func (d *Device) there(name string) error {
	at, is := d.places[name]
	if !is {
		return nil
	}
	return d.commitThose(func(g planner.Segment) bool { return g.Space == at.space && g.At <= at.offset && at.offset < g.End })
}
