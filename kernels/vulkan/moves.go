package vulkan

import (
	"fmt"
	"strings"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// away is the space of values that are moved: memory of the host, which the device copies to and from.
const away = schedule.Spaces

// moves obeys a schedule's moves: their copies are work like that of launches, which is in order with what touches the same
// bytes and with nothing else (order.go). See recompute.Move for the order of events before a launch.
type moves struct {
	all     []schedule.Transfer
	out, in [][]int32 // by launch: copies before it
	moved   int64     // bytes that left in the run
	states  int64     // bytes of states that came in and went out in the run
	cuts    []bool    // by launch: the schedule begins or awaits a copy before it
}

// planMoves sorts the schedule's moves by the launches before which their copies stand: as early as they may begin, or, in
// poison mode, as late as they may end.
func (d *Device) planMoves() {
	s := d.schedule
	if len(s.Moves) == 0 {
		return
	}
	m := &d.moves
	m.all, m.out, m.in = s.Moves, make([][]int32, len(s.Launches)+1), make([][]int32, len(s.Launches)+1)
	m.cuts = make([]bool, len(s.Launches)+1)
	for k, x := range s.Moves {
		for _, at := range []int32{x.Out, x.Gone, x.In, x.Back} {
			m.cuts[at] = true
		}
		out, in := x.Out, x.In
		if d.options.Poison {
			out, in = x.Gone, x.Back
		}
		m.out[out], m.in[in] = append(m.out[out], int32(k)), append(m.in[in], int32(k))
		far := m.far(int32(k))
		d.touch(x.From, x.To)
		d.spaces[away].used = max(d.spaces[away].used, far.end)
		d.spans[schedule.Arena] = append(d.spans[schedule.Arena], spanOf(x.From), spanOf(x.To))
		d.spans[away] = append(d.spans[away], far)
	}
}

// far is the place of a move in the host's memory.
func (m *moves) far(k int32) span {
	x := &m.all[k]
	return span{away, x.Far, x.Far + x.From.Bytes}
}

// before is the copies that stand before a launch.
func (m *moves) before(launch int) (out, in []int32) {
	if len(m.all) == 0 {
		return nil, nil
	}
	return m.out[launch], m.in[launch]
}

// cut reports whether the schedule begins or awaits a copy before a launch.
func (m *moves) cut(launch int) bool { return m.cuts != nil && m.cuts[launch] }

// between is what a copy reads and writes.
func (m *moves) between(k int32, home bool) (from, to span) {
	if home {
		return m.far(k), spanOf(m.all[k].To)
	}
	return spanOf(m.all[k].From), m.far(k)
}

// copies is what those moves submit.
func (d *Device) copies(those []int32, home bool) (all []work) {
	for _, k := range those {
		if from, to := d.moves.between(k, home); from.end > from.at {
			all = append(all, d.copy(from, to))
		}
	}
	return all
}

// copy is a copy from one span to another.
func (d *Device) copy(from, to span) work {
	c := vk.Command{Kind: vk.Copy, Bytes: from.end - from.at}
	c.From, c.FromAt = d.spaces[from.space].locate(from.at)
	c.To, c.ToAt = d.spaces[to.space].locate(to.at)
	return work{c, []span{from}, []span{to}}
}

// tally counts what a part of a program moved.
func (d *Device) tally(p part) {
	for _, k := range p.out {
		d.moves.moved += d.moves.all[k].From.Bytes
	}
	d.moves.states += p.streams
}

// text says which values a part of a program moves; "" if none.
func (m *moves) text(out, in []int32) string {
	name := func(all []int32) string {
		more := ""
		if len(all) > 1 {
			more = fmt.Sprintf(" and %d more", len(all)-1)
		}
		return fmt.Sprintf("%q%s", m.all[all[0]].From.Value.Name, more)
	}
	var texts []string
	if len(out) > 0 {
		texts = append(texts, name(out)+" to the host's memory")
	}
	if len(in) > 0 {
		texts = append(texts, name(in)+" back")
	}
	if len(texts) == 0 {
		return ""
	}
	return "moving " + strings.Join(texts, ", and ")
}
