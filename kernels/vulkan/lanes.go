package vulkan

import (
	"slices"

	"memopt/kernels/vulkan/vk"
)

// Where a device has queues that only copy, moves and states go by these, beside the launches. A program is cut into batches
// where the schedule begins or awaits a copy; each batch is in a lane, and waits by semaphores for the batches of other lanes
// that touch the same bytes, and for no others. Lanes are in order among themselves.

// laned cuts a part of a program into batches.
type laned struct {
	d       *Device
	batches []vk.Batch
	lanes   [vk.Lanes]struct {
		n   int // of its batches
		all []access
	}
}

// access is what batches of a lane up to a number touch.
type access struct {
	number int
	hazards
}

// add records commands as batches of a lane, with what they touch.
func (l *laned) add(lane vk.Lane, commands []vk.Command, h hazards) error {
	var waits [vk.Lanes]int
	for m := range l.lanes {
		if vk.Lane(m) == lane {
			continue
		}
		for _, a := range slices.Backward(l.lanes[m].all) {
			if a.between(h.reads, h.writes) {
				waits[m] = a.number
				break
			}
		}
	}
	to := &l.lanes[lane]
	for some := range slices.Chunk(commands, listLength) {
		list, err := l.d.gpu.RecordFor(lane, some)
		if err != nil {
			return err
		}
		l.batches, to.n = append(l.batches, vk.Batch{List: list, Lane: lane, Waits: waits}), to.n+1
	}
	to.all = append(to.all, access{to.n, h})
	return nil
}

// work records work that runs in groups.
func (l *laned) work(all []work, c *Counts) error {
	if len(all) == 0 {
		return nil
	}
	var commands []vk.Command
	if l.lanes[vk.Work].n > 0 {
		commands = append(commands, vk.Command{Kind: vk.Barrier})
		c.Barriers++
	}
	commands = grouped(commands, all, c)
	return l.add(vk.Work, append(commands, vk.Command{Kind: vk.Barrier, Host: true}), touched(all))
}

// copies records copies.
func (l *laned) copies(lane vk.Lane, all []work, c *Counts) error {
	if len(all) == 0 {
		return nil
	}
	commands := []vk.Command{{Kind: vk.Barrier}}
	for _, w := range all {
		commands = append(commands, w.command)
		c.count(w)
	}
	return l.add(lane, append(commands, vk.Command{Kind: vk.Barrier, Host: true}), touched(all))
}

func touched(all []work) (h hazards) {
	for _, w := range all {
		h.reads, h.writes = append(h.reads, w.reads...), append(h.writes, w.writes...)
	}
	return h
}

// moving reports whether the schedule has anything for lanes to copy.
func (d *Device) moving() bool { return len(d.schedule.Moves) > 0 || d.schedule.Elsewhere > 0 }
