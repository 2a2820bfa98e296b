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
	ranges     []liveRange
	floor      int64
	offset     []int64   // by life: its offset, or −1 while it is out
	baseWeight []float64 // by life: its bytes, which weigh the more the nearer their sections are to full
	weight     []float64 // by life: as much, and as much again each time that it drove out others
	out        []int32   // the lives to be put back, the next one last
	looks      int
	ctx        context.Context // polled for each life that is put in

	// Those alive at a time are those of the block it lies in that were alive as that began, and those that began since.
	block        int32     // sections
	alive        [][]int32 // by block
	firstByBegin []int32   // by section: the first life that begins there or later

	neighbors []int32 // scratch: the placed lives that meet one
	bottoms   []edge  // scratch: where those begin
	tops      []edge  // and end
	counts    []int32
	sorted    []edge
}

// edge is an end of a placed life in addresses.
type edge struct {
	offset int64
	index  int32
	weight float64
}

const (
	ejectLooksPerRange = 300  // for each life: after so many it is given up
	ejectSteps         = 8    // tops on the way to the limit: each that is reached is kept
	maxExtraOut        = 30   // lives out beyond twice those that were at first, with which it goes nowhere
	minSlack           = 0.01 // the share of a section that may be empty before its bytes weigh less
)

// eject lowers the top of p towards its limit, a little at a time.
func eject(p *part, t target) (offsets []int64, top int64) {
	e, limit := newEjector(p, p.offsets, t.bound), t.limit(p)
	for top = p.top; top > limit; {
		if !e.lowerTo(max(top-max((top-t.bound)/ejectSteps, 1), limit), ejectLooksPerRange*len(p.ranges)) {
			break
		}
		offsets, top = slices.Clone(e.offset), topOf(p.ranges, e.offset)
	}
	return offsets, top
}

func newEjector(p *part, offsets []int64, goal int64) *ejector {
	e := &ejector{
		ranges: p.ranges, floor: p.floor, offset: slices.Clone(offsets), baseWeight: make([]float64, len(p.ranges)), ctx: p.ctx,
		block: 1, firstByBegin: firstByBegin(p.ranges, p.sections),
	}
	full := make([]float64, p.sections+1) // how nearly, of all sections before each
	for t, live := range liveBytes(p.ranges, p.sections) {
		full[t+1] = full[t] + 1/(minSlack+float64(goal-p.floor-live)/float64(goal))
	}
	length := 0 // of all lives
	for i, l := range p.ranges {
		e.baseWeight[i] = float64(l.size) * (full[l.end] - full[l.begin])
		length += int(l.end - l.begin)
	}
	e.weight = slices.Clone(e.baseWeight)
	for int(e.block)*4*len(p.ranges) < length { // so that most of those that were alive when a block began are throughout
		e.block *= 2
	}
	e.alive = make([][]int32, p.sections/e.block+1)
	for i, l := range p.ranges {
		for b := l.begin/e.block + 1; b*e.block < l.end; b++ {
			e.alive[b] = append(e.alive[b], int32(i))
		}
	}
	return e
}

// easier puts lives that are easier to place before others.
func (e *ejector) easierFirst(i, j int32) int {
	return cmp.Or(cmp.Compare(e.baseWeight[i], e.baseWeight[j]), cmp.Compare(i, j))
}

// beginsOf is, by section, the first of lives sorted by begin that begins there or later.
func firstByBegin(lives []liveRange, sections int32) (begins []int32) {
	begins = make([]int32, sections+1)
	for _, l := range lives {
		begins[l.begin+1]++
	}
	for t := range sections {
		begins[t+1] += begins[t]
	}
	return begins
}

// lower brings all lives to end at or below top.
func (e *ejector) lowerTo(top int64, looks int) bool {
	for i, l := range e.ranges {
		if e.offset[i]+l.size > top {
			if l.fixed != notFixed {
				return false
			}
			e.offset[i] = -1
			e.out = append(e.out, int32(i))
		}
	}
	slices.SortFunc(e.out, e.easierFirst)
	most := 2*len(e.out) + maxExtraOut
	for len(e.out) > 0 {
		if e.looks > looks || len(e.out) > most {
			return false
		}
		stop.Poll(e.ctx)
		last := len(e.out) - 1
		i := e.out[last]
		e.out = e.out[:last]
		at, cost := e.cheapestOffset(i, top)
		if at < 0 {
			return false
		}
		if cost > 0 {
			e.weight[i] += e.baseWeight[i]
			e.takeOut(at, at+e.ranges[i].size)
		}
		e.offset[i] = at
	}
	return true
}

// clear takes out what lies in [lo, hi) of the lives that spot looked at last.
func (e *ejector) takeOut(lo, hi int64) {
	before := len(e.out)
	for _, j := range e.neighbors {
		if e.offset[j] < hi && e.offset[j]+e.ranges[j].size > lo {
			e.offset[j] = -1
			e.out = append(e.out, j)
		}
	}
	slices.SortFunc(e.out[before:], e.easierFirst)
}

// spot is where life x drives out the least weight, the lowest of such places; below top, −1 if it is too large for that.
func (e *ejector) cheapestOffset(x int32, top int64) (at int64, cost float64) {
	l := e.ranges[x]
	e.findNeighbors(x)
	e.bottoms, e.tops = e.bottoms[:0], e.tops[:0]
	for _, j := range e.neighbors {
		e.bottoms = append(e.bottoms, edge{e.offset[j], j, e.weight[j]})
		e.tops = append(e.tops, edge{e.offset[j] + e.ranges[j].size, j, e.weight[j]})
	}
	e.sortEdges(e.bottoms, top)
	e.sortEdges(e.tops, top)
	e.looks += 4*len(e.neighbors) + 16 // so much however few are near

	at, cost = -1, math.Inf(1)
	met, above, below := 0, 0.0, 0.0 // of those that begin below the end and do not end below the begin of x
	stuck := 0                       // fixed ones of those
	low, end := 0, 0                 // what of lows and ends counts
	try := func(y int64) {
		if y < e.floor || y+l.size > top {
			return
		}
		for ; low < len(e.bottoms) && e.bottoms[low].offset < y+l.size; low++ {
			if e.ranges[e.bottoms[low].index].fixed != notFixed {
				stuck++
				continue
			}
			above += e.bottoms[low].weight
			met++
		}
		for ; end < len(e.tops) && e.tops[end].offset <= y; end++ {
			if e.ranges[e.tops[end].index].fixed != notFixed {
				stuck--
				continue
			}
			below += e.tops[end].weight
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
	try(alignUp(e.floor, l.align))
	for i, j := 0, 0; cost > 0 && (i < len(e.tops) || j < len(e.bottoms)); { // on top of one, or below one
		on, under := int64(infinity), int64(infinity)
		if i < len(e.tops) {
			on = alignUp(e.tops[i].offset, l.align)
		}
		if j < len(e.bottoms) {
			if under = max(e.bottoms[j].offset-l.size, -1); under > 0 {
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
func (e *ejector) findNeighbors(x int32) {
	l := e.ranges[x]
	before, from, to := e.alive[l.begin/e.block], e.firstByBegin[l.begin/e.block*e.block], e.firstByBegin[l.end]
	e.neighbors = e.neighbors[:0]
	for _, j := range before {
		if e.offset[j] >= 0 && e.ranges[j].end > l.begin {
			e.neighbors = append(e.neighbors, j)
		}
	}
	for j := from; j < to; j++ {
		if e.offset[j] >= 0 && e.ranges[j].end > l.begin {
			e.neighbors = append(e.neighbors, j)
		}
	}
	e.looks += len(before) + int(to-from)
}

// sort sorts edges, which lie between 0 and top, by address: first roughly, into as many buckets as there are edges.
func (e *ejector) sortEdges(edges []edge, top int64) {
	n := len(edges)
	e.counts = slices.Grow(e.counts[:0], n+2)[:n+2]
	e.sorted = slices.Grow(e.sorted[:0], n)[:n]
	clear(e.counts)
	scale := float64(n) / float64(top)
	for _, x := range edges {
		e.counts[min(int(float64(x.offset)*scale), n)+1]++
	}
	for k := range n {
		e.counts[k+1] += e.counts[k]
	}
	for _, x := range edges {
		k := min(int(float64(x.offset)*scale), n)
		e.sorted[e.counts[k]] = x
		e.counts[k]++
	}
	for i, x := range e.sorted {
		k := i
		for ; k > 0 && (edges[k-1].offset > x.offset || edges[k-1].offset == x.offset && edges[k-1].index > x.index); k-- {
			edges[k] = edges[k-1]
		}
		edges[k] = x
	}
}
