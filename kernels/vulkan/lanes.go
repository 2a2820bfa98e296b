package vulkan

import (
	"cmp"
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
		n    int      // of its batches
		last []access // of some batches, groupsBack at most
		old  access   // of all before, in one
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
		from := &l.lanes[m]
		for i := len(from.last); i >= 0 && waits[m] == 0; i-- {
			a := from.old
			if i > 0 {
				a = from.last[i-1]
			}
			if a.between(h.reads, h.writes) {
				waits[m] = a.number
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
	to.last = append(to.last, access{to.n, h})
	if len(to.last) > groupsBack {
		to.old.number = to.last[0].number
		to.old.reads, to.old.writes = united(to.old.reads, to.last[0].reads), united(to.old.writes, to.last[0].writes)
		to.last = slices.Delete(to.last, 0, 1)
	}
	return nil
}

// united is the bytes of both, in as few spans as they have.
func united(a, b []span) (all []span) {
	sorted := slices.SortedFunc(slices.Values(slices.Concat(a, b)), func(x, y span) int {
		return cmp.Or(cmp.Compare(x.space, y.space), cmp.Compare(x.at, y.at))
	})
	for _, s := range sorted {
		if n := len(all); n > 0 && all[n-1].space == s.space && s.at <= all[n-1].end {
			all[n-1].end = max(all[n-1].end, s.end)
		} else {
			all = append(all, s)
		}
	}
	return all
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
