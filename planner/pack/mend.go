package pack

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/memopt/stop"
)

// mend lowers a packing by ejection: the lives that stick out above a top are taken out, and each is put back where it
// drives out the least, which is then put back in the same way. What is hard to place weighs more: bytes in sections
// that are nearly full, and more each time that the life had to drive out another (the idea of the guided ejection
// search of Y. Nagata and O. Bräysy, "A powerful route minimization heuristic for the vehicle routing problem with
// time windows", 2009). Few lives move, so it does where a packing is good but for a few places.
//
// The top goes down a little at a time, and each time that all lives are below it the packing is kept.
type mend struct {
	lives []life
	floor int64
	at    []int64 // by life: its offset, or −1 while it is out
	hardness
	out   []int32 // the lives to be put back, the next one last
	looks int

	stopped func() bool
	ctx     context.Context // polled for each life that is put in

	meetings
	near   []int32 // scratch: the placed lives that meet one
	lows   []edge  // scratch: where those begin
	ends   []edge  // and end
	counts []int32
	sorted []edge
}

// edge is an end of a placed life in addresses.
type edge struct {
	at     int64
	life   int32
	weight float64
}

const (
	steps   = 8    // tops on the way to what is asked for
	astray  = 30   // lives out beyond twice those that were at first, with which it goes nowhere
	fullest = 0.01 // the share of a section that may be empty before its bytes weigh less
)

// mend lowers the top of p towards the goal, until it is no higher than enough, or so many looks are spent, or it is stopped.
func (p *part) mend(goal, enough int64, looks int, stopped func() bool) {
	if p.job.off("mend") {
		return
	}
	defer p.job.run("mend", p)()
	m := newMend(p, newMeetings(p), p.offsets, goal)
	m.stopped = stopped
	looks = min(looks, p.clock.light())
	defer func() { p.clock.spend(m.looks/lightly + ordering*len(p.lives)) }()
	for p.top > enough && m.looks < looks {
		top := p.top - max((p.top-goal)/steps, 1)
		if !m.lower(max(top, enough), looks) {
			return
		}
		p.offsets, p.top, p.by = append(p.offsets[:0], m.at...), topOf(p.lives, m.at), "mend"
	}
}

// topOf is the end of the highest of lives that stand at offsets.
func topOf(lives []life, at []int64) (top int64) {
	for i, l := range lives {
		top = max(top, at[i]+l.size)
	}
	return top
}

func newMend(p *part, who meetings, offsets []int64, goal int64) *mend {
	return &mend{
		lives: p.lives, floor: p.floor, at: slices.Clone(offsets), hardness: p.hardness(goal), stopped: never, ctx: p.ctx, meetings: who,
	}
}

// hardness is how hard lives are to place.
type hardness struct {
	base   []float64 // by life: its bytes, which weigh the more the nearer their sections are to full
	weight []float64 // by life: as much, and as much again each time that it drove out others
}

func (p *part) hardness(goal int64) hardness {
	full := make([]float64, p.sections+1) // how nearly, of all sections before each
	for t, live := range liveOf(p.lives, p.sections) {
		full[t+1] = full[t] + 1/(fullest+float64(goal-p.floor-live)/float64(goal))
	}
	base := make([]float64, len(p.lives))
	for i, l := range p.lives {
		base[i] = float64(l.size) * (full[l.r] - full[l.l])
	}
	return hardness{base, slices.Clone(base)}
}

// easier puts lives that are easier to place before others.
func (h *hardness) easier(i, j int32) int {
	return cmp.Or(cmp.Compare(h.base[i], h.base[j]), cmp.Compare(i, j))
}

// drove is for a life that drove out others.
func (h *hardness) drove(i int32) { h.weight[i] += h.base[i] }

// meetings say which lives of a part may meet one. Those alive at a time are those of the block it lies in that were alive as
// that began, and those that began since.
type meetings struct {
	block  int32
	alive  [][]int32 // by block
	begins []int32   // by section: the first life that begins there or later
}

func newMeetings(p *part) meetings {
	m := meetings{block: 1, begins: beginsOf(p.lives, p.sections)}
	length := 0 // of all lives
	for _, l := range p.lives {
		length += int(l.r - l.l)
	}
	for int(m.block)*4*len(p.lives) < length { // so that most of those that were alive when a block began are throughout
		m.block *= 2
	}
	m.alive = make([][]int32, p.sections/m.block+1)
	counts, all := make([]int32, len(m.alive)), int32(0)
	for _, l := range p.lives {
		for b := l.l/m.block + 1; b*m.block < l.r; b++ {
			counts[b]++
			all++
		}
	}
	room := make([]int32, all)
	for b, n := range counts {
		m.alive[b], room = room[:0:n], room[n:]
	}
	for i, l := range p.lives {
		for b := l.l/m.block + 1; b*m.block < l.r; b++ {
			m.alive[b] = append(m.alive[b], int32(i))
		}
	}
	return m
}

// meeting is those of lives that are in and meet l, which is not; in is by life, and negative for those that are not. Its room is
// used. It also says how many it looked at.
func (m *meetings) meeting(l life, lives []life, in []int64, room []int32) (near []int32, looks int) {
	before, from, to := m.of(l)
	near = room[:0]
	for _, j := range before {
		if in[j] >= 0 && lives[j].r > l.l {
			near = append(near, j)
		}
	}
	for j := from; j < to; j++ {
		if in[j] >= 0 && lives[j].r > l.l {
			near = append(near, j)
		}
	}
	return near, len(before) + int(to-from)
}

// of is those before and those in [from, to) that meet l if they end after its begin, and nobody else does.
func (m *meetings) of(l life) (before []int32, from, to int32) {
	b := l.l / m.block
	return m.alive[b], m.begins[b*m.block], m.begins[l.r]
}

// beginsOf is, by section, the first of lives sorted by begin that begins there or later.
func beginsOf(lives []life, sections int32) (begins []int32) {
	begins = make([]int32, sections+1)
	for _, l := range lives {
		begins[l.l+1]++
	}
	for t := range sections {
		begins[t+1] += begins[t]
	}
	return begins
}

// lower brings all lives to end at or below top.
func (m *mend) lower(top int64, looks int) bool {
	for i, l := range m.lives {
		if m.at[i]+l.size > top {
			if l.fixed != free {
				return false
			}
			m.at[i] = -1
			m.out = append(m.out, int32(i))
		}
	}
	slices.SortFunc(m.out, m.easier)
	most := 2*len(m.out) + astray
	for len(m.out) > 0 {
		if m.looks > looks || len(m.out) > most || m.stopped() {
			return false
		}
		stop.Poll(m.ctx)
		last := len(m.out) - 1
		i := m.out[last]
		m.out = m.out[:last]
		at, cost := m.spot(i, top)
		if at < 0 {
			return false
		}
		if cost > 0 {
			m.drove(i)
			m.clear(at, at+m.lives[i].size)
		}
		m.at[i] = at
	}
	return true
}

// clear takes out what lies in [lo, hi) of the lives that spot looked at last.
func (m *mend) clear(lo, hi int64) {
	before := len(m.out)
	for _, j := range m.near {
		if m.at[j] < hi && m.at[j]+m.lives[j].size > lo {
			m.at[j] = -1
			m.out = append(m.out, j)
		}
	}
	slices.SortFunc(m.out[before:], m.easier)
}

// spot is where life x drives out the least weight, the lowest of such places; below top, −1 if it is too large for that.
func (m *mend) spot(x int32, top int64) (at int64, cost float64) {
	l := m.lives[x]
	m.meet(x)
	m.lows, m.ends = m.lows[:0], m.ends[:0]
	for _, j := range m.near {
		m.lows = append(m.lows, edge{m.at[j], j, m.weight[j]})
		m.ends = append(m.ends, edge{m.at[j] + m.lives[j].size, j, m.weight[j]})
	}
	m.sort(m.lows, top)
	m.sort(m.ends, top)
	m.looks += 4*len(m.near) + 16 // so much however few are near

	at, cost = -1, math.Inf(1)
	met, above, below := 0, 0.0, 0.0 // of those that begin below the end and do not end below the begin of x
	stuck := 0                       // fixed ones of those
	low, end := 0, 0                 // what of lows and ends counts
	try := func(y int64) {
		if y < m.floor || y+l.size > top {
			return
		}
		for ; low < len(m.lows) && m.lows[low].at < y+l.size; low++ {
			if m.lives[m.lows[low].life].fixed != free {
				stuck++
				continue
			}
			above += m.lows[low].weight
			met++
		}
		for ; end < len(m.ends) && m.ends[end].at <= y; end++ {
			if m.lives[m.ends[end].life].fixed != free {
				stuck--
				continue
			}
			below += m.ends[end].weight
			met--
		}
		if stuck > 0 {
			return
		}
		if met == 0 {
			at, cost = y, 0
		} else if above-below < cost {
			at, cost = y, above-below
		}
	}
	try(up(m.floor, l.align))
	for i, j := 0, 0; cost > 0 && (i < len(m.ends) || j < len(m.lows)); { // on top of one, or below one
		on, under := int64(none), int64(none)
		if i < len(m.ends) {
			on = up(m.ends[i].at, l.align)
		}
		if j < len(m.lows) {
			if under = max(m.lows[j].at-l.size, -1); under > 0 {
				under -= under % l.align
			}
		}
		if on <= under {
			try(on)
			i++
		} else {
			try(under)
			j++
		}
	}
	if last := top - l.size; cost > 0 && last >= 0 {
		try(last - last%l.align)
	}
	return at, cost
}

// meet makes near the placed lives that meet life x.
func (m *mend) meet(x int32) {
	near, looks := m.meeting(m.lives[x], m.lives, m.at, m.near)
	m.near = near
	m.looks += looks
}

// sort sorts edges, which lie between 0 and top, by address: first roughly, into as many buckets as there are edges.
func (m *mend) sort(edges []edge, top int64) {
	n := len(edges)
	m.counts = slices.Grow(m.counts[:0], n+2)[:n+2]
	m.sorted = slices.Grow(m.sorted[:0], n)[:n]
	clear(m.counts)
	scale := float64(n) / float64(top)
	for _, e := range edges {
		m.counts[min(int(float64(e.at)*scale), n)+1]++
	}
	for k := range n {
		m.counts[k+1] += m.counts[k]
	}
	for _, e := range edges {
		k := min(int(float64(e.at)*scale), n)
		m.sorted[m.counts[k]] = e
		m.counts[k]++
	}
	for i, e := range m.sorted {
		k := i
		for ; k > 0 && (edges[k-1].at > e.at || edges[k-1].at == e.at && edges[k-1].life > e.life); k-- {
			edges[k] = edges[k-1]
		}
		edges[k] = e
	}
}
