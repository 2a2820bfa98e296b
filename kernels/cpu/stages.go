package cpu

import (
	"fmt"

	"memopt/internal/arena"
	"memopt/internal/loader"
	"memopt/internal/schedule"
)

// stages commits memory when a step reaches the stage that first uses it. Until then only address space is reserved, and an
// access is fatal. Memory is not written when it is committed; the system provides zeros.
type stages struct {
	segments []schedule.Segment // not committed yet
	needs    []schedule.Stage   // by launch
	now      schedule.Stage
	begin    int // first launch of the backward pass
	end      int // and the first after it
}

// reserve allocates the spaces, or with Staged only their address space.
func (d *Device) reserve(s *schedule.Schedule, from *Device) error {
	take := arena.Map
	d.stages = stages{now: schedule.UpdateStage, begin: s.BackwardBegin(), end: s.BackwardEnd()}
	if d.options.Staged {
		take = arena.Reserve
		d.stages.now, d.stages.needs = schedule.Loading, s.Needs()
	}
	for space, n := range [schedule.Spaces]int64{schedule.Arena: s.Arena, schedule.State: s.State, schedule.Staging: s.Staging, schedule.Given: s.Given} {
		var err error
		if from != nil && schedule.Space(space) == schedule.State {
			d.spaces[space] = from.spaces[space]
			continue
		}
		if int64(int(n)) != n || n < 0 {
			return fmt.Errorf("cpu: cannot allocate %d bytes for %s", n, schedule.Space(space))
		}
		if d.spaces[space], err = take(n); err != nil { // physical memory is allocated on first access
			return fmt.Errorf("%s: cannot allocate %d bytes: %w", schedule.Space(space), n, err)
		}
	}
	if d.options.Staged {
		d.stages.segments = s.Segments(false)
		return d.commit(schedule.Loading)
	}
	return nil
}

// commit commits the memory of all stages up to the given one.
func (d *Device) commit(stage schedule.Stage) error {
	d.stages.now = max(d.stages.now, stage)
	return d.commitThose(func(g schedule.Segment) bool { return g.Stage <= d.stages.now })
}

func (d *Device) commitThose(wanted func(schedule.Segment) bool) error {
	left := d.stages.segments[:0]
	for i, g := range d.stages.segments {
		if !wanted(g) {
			left = append(left, g)
			continue
		}
		granted, err := arena.Commit(d.spaces[g.Space], g.At, g.End)
		if err != nil {
			d.stages.segments = append(left, d.stages.segments[i:]...)
			return fmt.Errorf("cpu: %s: cannot allocate %d bytes: %w", g.Space, g.End-g.At, err)
		}
		d.count(g.Owner, g.End-g.At, granted)
		if g.Space == schedule.State && g.Owner != "weights" {
			d.zeroed += g.End - g.At
		}
	}
	d.stages.segments = left
	return nil
}

// count reports memory to Options.Count.
func (d *Device) count(owner string, requested, granted int64) {
	d.counted = append(d.counted, counted{owner, requested, granted})
	if d.options.Count != nil {
		d.options.Count(owner, requested, granted)
	}
}

// counted is memory that was reported to Options.Count.
type counted struct {
	owner              string
	requested, granted int64
}

// Filled returns the bytes copied to parameters, constants and states, and the bytes of states that begin as zeros.
func (d *Device) Filled() (uploaded, zeroed int64) { return d.uploaded, d.zeroed }

// Loading is what loading the weights took; nil: the device has taken them over from another.
func (d *Device) Loading() *loader.Report { return d.options.Load.Report() }

// Unified is true: the device's memory is the process's.
func (d *Device) Unified() bool { return true }

// Driver returns false: there is no driver.
func (d *Device) Driver() (usage, budget int64, ok bool) { return 0, 0, false }

// Resident is the bytes of the device's spaces that are in physical memory.
func (d *Device) Resident() (n int64) {
	for _, b := range d.spaces {
		n += arena.Resident(b)
	}
	return n
}

// pass reports the end of a pass before launch i, or after the last launch.
func (d *Device) pass(i int, r schedule.Run) {
	if r.At != nil && i == d.stages.begin {
		r.At(schedule.ForwardOver)
	}
	if r.At != nil && i == d.stages.end {
		r.At(schedule.BackwardOver)
	}
}

// reach commits the memory of launch i.
func (d *Device) reach(i int) error {
	if i < len(d.stages.needs) && d.stages.needs[i] > d.stages.now {
		return d.commit(d.stages.needs[i])
	}
	return nil
}

// there commits the memory of a value.
func (d *Device) there(name string) error {
	at, is := d.places[name]
	if !is {
		return nil
	}
	return d.commitThose(func(g schedule.Segment) bool { return g.Space == at.space && g.At <= at.offset && at.offset < g.End })
}
