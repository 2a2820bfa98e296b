package pack

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/memopt/stop"
)

// ejector lowers a packing: the lives that stick out above a top are taken out, and each is put back where it drives out the
// least, which is then put back in the same way. What is hard to place weighs more: bytes in sections that are nearly full, and
// more each time that the life had to drive out another (the idea of the guided ejection search of Y. Nagata and O. Bräysy, "A
// powerful route minimization heuristic for the vehicle routing problem with time windows", 2009). Few lives move, so it does
// where a packing is good but for a few places.
type ejector struct {
	lives  []life
	floor  int64
	at     []int64   // by life: its offset, or −1 while it is out
	base   []float64 // by life: its bytes, which weigh the more the nearer their sections are to full
	weight []float64 // by life: as much, and as much again each time that it drove out others
	out    []int32   // the lives to be put back, the next one last
	looks  int
	ctx    context.Context // polled for each life that is put in

	// Those alive at a time are those of the block it lies in that were alive as that began, and those that began since.
	block  int32     // sections
	alive  [][]int32 // by block
	begins []int32   // by section: the first life that begins there or later

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
	ejectLooks = 300  // for each life: after so many it is given up
	steps      = 8    // tops on the way to the limit: each that is reached is kept
	astray     = 30   // lives out beyond twice those that were at first, with which it goes nowhere
	fullest    = 0.01 // the share of a section that may be empty before its bytes weigh less
)

// eject lowers the top of p towards its limit, a little at a time.
func eject(p *part, t target) (offsets []int64, top int64) {
	e, limit := newEjector(p, p.offsets, t.goal), t.limit(p)
	for top = p.top; top > limit; {
		if !e.lower(max(top-max((top-t.goal)/steps, 1), limit), ejectLooks*len(p.lives)) {
			break
		}
		offsets, top = slices.Clone(e.at), topOf(p.lives, e.at)
	}
	return offsets, top
}

func newEjector(p *part, offsets []int64, goal int64) *ejector {
	e := &ejector{
		lives: p.lives, floor: p.floor, at: slices.Clone(offsets), base: make([]float64, len(p.lives)), ctx: p.ctx,
		block: 1, begins: beginsOf(p.lives, p.sections),
	}
	full := make([]float64, p.sections+1) // how nearly, of all sections before each
	for t, live := range liveOf(p.lives, p.sections) {
		full[t+1] = full[t] + 1/(fullest+float64(goal-p.floor-live)/float64(goal))
	}
	length := 0 // of all lives
	for i, l := range p.lives {
		e.base[i] = float64(l.size) * (full[l.r] - full[l.l])
		length += int(l.r - l.l)
	}
	e.weight = slices.Clone(e.base)
	for int(e.block)*4*len(p.lives) < length { // so that most of those that were alive when a block began are throughout
		e.block *= 2
	}
	e.alive = make([][]int32, p.sections/e.block+1)
	for i, l := range p.lives {
		for b := l.l/e.block + 1; b*e.block < l.r; b++ {
			e.alive[b] = append(e.alive[b], int32(i))
		}
	}
	return e
}

// easier puts lives that are easier to place before others.
func (e *ejector) easier(i, j int32) int {
	return cmp.Or(cmp.Compare(e.base[i], e.base[j]), cmp.Compare(i, j))
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
func (e *ejector) lower(top int64, looks int) bool {
	for i, l := range e.lives {
		if e.at[i]+l.size > top {
			if l.fixed != free {
				return false
			}
			e.at[i] = -1
			e.out = append(e.out, int32(i))
		}
	}
	slices.SortFunc(e.out, e.easier)
	most := 2*len(e.out) + astray
	for len(e.out) > 0 {
		if e.looks > looks || len(e.out) > most {
			return false
		}
		stop.Poll(e.ctx)
		last := len(e.out) - 1
		i := e.out[last]
		e.out = e.out[:last]
		at, cost := e.spot(i, top)
		if at < 0 {
			return false
		}
		if cost > 0 {
			e.weight[i] += e.base[i]
			e.clear(at, at+e.lives[i].size)
		}
		e.at[i] = at
	}
	return true
}

// clear takes out what lies in [lo, hi) of the lives that spot looked at last.
func (e *ejector) clear(lo, hi int64) {
	before := len(e.out)
	for _, j := range e.near {
		if e.at[j] < hi && e.at[j]+e.lives[j].size > lo {
			e.at[j] = -1
			e.out = append(e.out, j)
		}
	}
	slices.SortFunc(e.out[before:], e.easier)
}

// spot is where life x drives out the least weight, the lowest of such places; below top, −1 if it is too large for that.
func (e *ejector) spot(x int32, top int64) (at int64, cost float64) {
	l := e.lives[x]
	e.meet(x)
	e.lows, e.ends = e.lows[:0], e.ends[:0]
	for _, j := range e.near {
		e.lows = append(e.lows, edge{e.at[j], j, e.weight[j]})
		e.ends = append(e.ends, edge{e.at[j] + e.lives[j].size, j, e.weight[j]})
	}
	e.sort(e.lows, top)
	e.sort(e.ends, top)
	e.looks += 4*len(e.near) + 16 // so much however few are near

	at, cost = -1, math.Inf(1)
	met, above, below := 0, 0.0, 0.0 // of those that begin below the end and do not end below the begin of x
	stuck := 0                       // fixed ones of those
	low, end := 0, 0                 // what of lows and ends counts
	try := func(y int64) {
		if y < e.floor || y+l.size > top {
			return
		}
		for ; low < len(e.lows) && e.lows[low].at < y+l.size; low++ {
			if e.lives[e.lows[low].life].fixed != free {
				stuck++
				continue
			}
			above += e.lows[low].weight
			met++
		}
		for ; end < len(e.ends) && e.ends[end].at <= y; end++ {
			if e.lives[e.ends[end].life].fixed != free {
				stuck--
				continue
			}
			below += e.ends[end].weight
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
	try(up(e.floor, l.align))
	for i, j := 0, 0; cost > 0 && (i < len(e.ends) || j < len(e.lows)); { // on top of one, or below one
		on, under := int64(none), int64(none)
		if i < len(e.ends) {
			on = up(e.ends[i].at, l.align)
		}
		if j < len(e.lows) {
			if under = max(e.lows[j].at-l.size, -1); under > 0 {
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

// meet makes near the placed lives that meet life x, which is out.
func (e *ejector) meet(x int32) {
	l := e.lives[x]
	before, from, to := e.alive[l.l/e.block], e.begins[l.l/e.block*e.block], e.begins[l.r]
	e.near = e.near[:0]
	for _, j := range before {
		if e.at[j] >= 0 && e.lives[j].r > l.l {
			e.near = append(e.near, j)
		}
	}
	for j := from; j < to; j++ {
		if e.at[j] >= 0 && e.lives[j].r > l.l {
			e.near = append(e.near, j)
		}
	}
	e.looks += len(before) + int(to-from)
}

// sort sorts edges, which lie between 0 and top, by address: first roughly, into as many buckets as there are edges.
func (e *ejector) sort(edges []edge, top int64) {
	n := len(edges)
	e.counts = slices.Grow(e.counts[:0], n+2)[:n+2]
	e.sorted = slices.Grow(e.sorted[:0], n)[:n]
	clear(e.counts)
	scale := float64(n) / float64(top)
	for _, x := range edges {
		e.counts[min(int(float64(x.at)*scale), n)+1]++
	}
	for k := range n {
		e.counts[k+1] += e.counts[k]
	}
	for _, x := range edges {
		k := min(int(float64(x.at)*scale), n)
		e.sorted[e.counts[k]] = x
		e.counts[k]++
	}
	for i, x := range e.sorted {
		k := i
		for ; k > 0 && (edges[k-1].at > x.at || edges[k-1].at == x.at && edges[k-1].life > x.life); k-- {
			edges[k] = edges[k-1]
		}
		edges[k] = x
	}
}
