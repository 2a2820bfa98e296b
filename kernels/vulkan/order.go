package vulkan

import "memopt/kernels/vulkan/vk"

// Commands between two barriers may overlap on the device, so the fewer barriers a step has, the less of the device waits
// at the end of each kernel. The schedule's order is one of many that its values and places allow: work moves ahead to the
// first barrier behind all that it must wait for, so that a step has as many barriers as its longest chain of dependent
// work. Places do not change, so neither do bytes or bits.

// work is a command with the bytes that it accesses.
type work struct {
	command       vk.Command
	reads, writes []span
}

// Counts is what a step submits.
type Counts struct {
	Dispatches  int `json:"dispatches"`
	Copies      int `json:"copies"`
	Barriers    int `json:"barriers"`
	InOrder     int `json:"barriers_in_order"` // barriers in the schedule's order
	Submissions int `json:"submissions"`
	Calls       int `json:"calls"` // launches on the processor, which part submissions
}

// groupsBack is how many barriers work moves ahead by at most: it bounds the time that recording takes.
const groupsBack = 64

// inOrder appends work in its order, with a barrier where accesses conflict.
func inOrder(to []vk.Command, all []work, h *hazards, c *Counts) []vk.Command {
	for _, w := range all {
		if h.next(w.reads, w.writes) {
			to = append(to, vk.Command{Kind: vk.Barrier})
			c.Barriers++
			c.InOrder++
		}
		to = append(to, w.command)
		c.count(w)
	}
	return to
}

// grouped appends work in groups with a barrier between each two. Work of a group keeps its order.
func grouped(to []vk.Command, all []work, c *Counts) []vk.Command {
	type group struct {
		all []work
		hazards
	}
	var groups []group
	var h hazards
	for _, w := range all {
		if h.next(w.reads, w.writes) {
			c.InOrder++
		}
		c.count(w)
		at := len(groups)
		for at > max(0, len(groups)-groupsBack) && !groups[at-1].between(w.reads, w.writes) {
			at--
		}
		if at == len(groups) {
			groups = append(groups, group{})
		}
		g := &groups[at]
		g.all, g.reads, g.writes = append(g.all, w), append(g.reads, w.reads...), append(g.writes, w.writes...)
	}
	for i, g := range groups {
		if i > 0 {
			to = append(to, vk.Command{Kind: vk.Barrier})
			c.Barriers++
		}
		for _, w := range g.all {
			to = append(to, w.command)
		}
	}
	return to
}

func (c *Counts) count(w work) {
	if w.command.Kind == vk.Copy {
		c.Copies++
	} else {
		c.Dispatches++
	}
}

func (c *Counts) add(o Counts) {
	c.Dispatches, c.Copies, c.Calls = c.Dispatches+o.Dispatches, c.Copies+o.Copies, c.Calls+o.Calls
	c.Barriers, c.InOrder, c.Submissions = c.Barriers+o.Barriers, c.InOrder+o.InOrder, c.Submissions+o.Submissions
}

// Counts returns what a whole step submits: the first one where memory is taken in stages and no other has run, else any.
func (d *Device) Counts() Counts {
	if d.whole == nil {
		return d.stages.counts
	}
	return d.whole.counts
}
