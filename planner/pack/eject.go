package pack

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/internal/stop"
)

const (
	ejectLooksPerRange = 300  // looks of an ejector, per range; more seldom turn a failure into a success
	ejectSteps         = 8    // a step lowers the top by 1/8 of its distance to the bound; smaller steps fail later and take longer
	maxExtraOut        = 30   // a step fails with so many ranges out beyond twice those it began with; larger repairs seldom end
	minSlack           = 0.01 // share of the bound added to the slack of a section in its weight; less lets full sections dominate
)

// ejector lowers a packing to a given top. Ranges that end above the top are taken out. Each is put back where it overlaps
// the least weight of others, which are taken out in turn and put back in the same way, until none is out. Ranges that are
// hard to place weigh more: bytes in sections that are nearly full do, and a range gains its first weight again each time
// that it ejects others. That is the guided ejection search of Y. Nagata and O. Bräysy, "A powerful route minimization
// heuristic for the vehicle routing problem with time windows", 2009. Few ranges move, so it works on packings that are too
// high in few places.
type ejector struct {
	ranges     []liveRange
	floor      int64
	offset     []int64   // by range; -1 while it is out
	baseWeight []float64 // by range
	weight     []float64 // by range: baseWeight, and once more for each time that it ejected others
	out        []int32   // ranges to be put back, the next one last
	looks      int
	ctx        context.Context // polled for each range that is put back

	// Neighbors of a range are among the ranges alive when the block that it begins in began, and those that began since.
	block        int32     // sections of a block
	alive        [][]int32 // by block: ranges alive at its begin that began before
	firstByBegin []int32   // by section: the first range that begins there or later

	neighbors []int32 // scratch: placed ranges that overlap one in time
	bottoms   []edge  // scratch: of the neighbors, sorted
	tops      []edge  // scratch: of the neighbors, sorted
	starts    []int32 // scratch: of buckets
	bucketed  []edge  // scratch
}

// edge is the bottom or the top of a placed range.
type edge struct {
	address int64
	index   int32
}

// eject lowers the top of p towards its limit in steps, and returns the packing of the last step that succeeded.
func eject(p *part, t target) (offsets []int64, top int64) {
	e, limit := newEjector(p, p.offsets, t.bound), t.limit(p)
	for top = p.top; top > limit; {
		if !e.lowerTo(max(top-max((top-t.bound)/ejectSteps, 1), limit)) {
			break
		}
		offsets, top = slices.Clone(e.offset), topOf(p.ranges, e.offset)
	}
	return offsets, top
}

func newEjector(p *part, offsets []int64, bound int64) *ejector {
	e := &ejector{
		ranges: p.ranges, floor: p.floor, offset: slices.Clone(offsets), baseWeight: make([]float64, len(p.ranges)), ctx: p.ctx,
		block: 1, firstByBegin: firstByBegin(p.ranges, p.sections),
	}
	weightBefore := make([]float64, p.sections+1) // by section: what a byte weighs in all sections before it
	for t, live := range liveBytes(p.ranges, p.sections) {
		weightBefore[t+1] = weightBefore[t] + 1/(minSlack+float64(bound-p.floor-live)/float64(bound))
	}
	sections := 0 // of all ranges
	for i, r := range p.ranges {
		e.baseWeight[i] = float64(r.size) * (weightBefore[r.end] - weightBefore[r.begin])
		sections += int(r.end - r.begin)
	}
	e.weight = slices.Clone(e.baseWeight)
	for int(e.block)*4*len(p.ranges) < sections { // a quarter of the mean range: most that are alive at its begin outlive a block
		e.block *= 2
	}
	e.alive = make([][]int32, p.sections/e.block+1)
	for i, r := range p.ranges {
		for b := r.begin/e.block + 1; b*e.block < r.end; b++ {
			e.alive[b] = append(e.alive[b], int32(i))
		}
	}
	return e
}

// lowerTo moves ranges until all end at or below top. It reports whether it succeeded; if not, some ranges are still out.
func (e *ejector) lowerTo(top int64) bool {
	for i, r := range e.ranges {
		if e.offset[i]+r.size > top {
			e.offset[i] = -1
			e.out = append(e.out, int32(i))
		}
	}
	slices.SortFunc(e.out, e.lightFirst)
	maxOut := 2*len(e.out) + maxExtraOut
	for len(e.out) > 0 {
		if e.looks > ejectLooksPerRange*len(e.ranges) || len(e.out) > maxOut {
			return false
		}
		stop.Poll(e.ctx)
		last := len(e.out) - 1
		i := e.out[last]
		e.out = e.out[:last]
		offset, weight := e.cheapestOffset(i, top)
		if offset < 0 {
			return false
		}
		if weight > 0 {
			e.weight[i] += e.baseWeight[i]
			e.takeOut(offset, offset+e.ranges[i].size)
		}
		e.offset[i] = offset
	}
	return true
}

func (e *ejector) lightFirst(i, j int32) int {
	return cmp.Or(cmp.Compare(e.baseWeight[i], e.baseWeight[j]), cmp.Compare(i, j))
}

// takeOut takes out the neighbors that have addresses in [lo, hi).
func (e *ejector) takeOut(lo, hi int64) {
	before := len(e.out)
	for _, j := range e.neighbors {
		if e.offset[j] < hi && e.offset[j]+e.ranges[j].size > lo {
			e.offset[j] = -1
			e.out = append(e.out, j)
		}
	}
	slices.SortFunc(e.out[before:], e.lightFirst)
}

// cheapestOffset is the offset at which range i ends at or below top and overlaps the least weight of others, the
// lowest of equals, and that weight; -1 if there is none. It sweeps upward over offsets on top of a neighbor and
// right below one: the weight only changes there.
func (e *ejector) cheapestOffset(i int32, top int64) (offset int64, weight float64) {
	r := e.ranges[i]
	e.findNeighbors(i)
	e.bottoms, e.tops = e.bottoms[:0], e.tops[:0]
	for _, j := range e.neighbors {
		e.bottoms = append(e.bottoms, edge{e.offset[j], j})
		e.tops = append(e.tops, edge{e.offset[j] + e.ranges[j].size, j})
	}
	e.sortEdges(e.bottoms, top)
	e.sortEdges(e.tops, top)
	e.looks += 4*len(e.neighbors) + 16

	offset, weight = -1, math.Inf(1)
	bottoms, tops := e.bottoms, e.tops // that the sweep has not passed
	entered, left := 0.0, 0.0          // weight of the neighbors whose bottom, and whose top, it has passed
	overlapping := 0                   // neighbors between the two
	try := func(x int64) {
		if x < e.floor || x+r.size > top {
			return
		}
		for ; len(bottoms) > 0 && bottoms[0].address < x+r.size; bottoms = bottoms[1:] {
			entered += e.weight[bottoms[0].index]
			overlapping++
		}
		for ; len(tops) > 0 && tops[0].address <= x; tops = tops[1:] {
			left += e.weight[tops[0].index]
			overlapping--
		}
		switch {
		case overlapping == 0: // entered - left may not be 0, as it is rounded
			offset, weight = x, 0
		case entered-left < weight:
			offset, weight = x, entered-left
		}
	}
	try(alignUp(e.floor, r.align))
	for a, b := 0, 0; weight > 0 && (a < len(e.tops) || b < len(e.bottoms)); {
		above, below := int64(infinity), int64(infinity)
		if a < len(e.tops) {
			above = alignUp(e.tops[a].address, r.align)
		}
		if b < len(e.bottoms) {
			if below = max(e.bottoms[b].address-r.size, -1); below > 0 {
				below -= below % r.align
			}
		}
		if above <= below {
			try(above)
			a++
		} else {
			try(below)
			b++
		}
	}
	if highest := top - r.size; weight > 0 && highest >= 0 {
		try(highest - highest%r.align)
	}
	return offset, weight
}

// sortEdges sorts edges, whose addresses are in [0, top], in linear time if they are spread evenly: into a bucket each, and
// then by insertion. With slices.Sort, an ejection takes three times as long.
func (e *ejector) sortEdges(edges []edge, top int64) {
	n := len(edges)
	e.starts = slices.Grow(e.starts[:0], n+2)[:n+2]
	e.bucketed = slices.Grow(e.bucketed[:0], n)[:n]
	clear(e.starts)
	scale := float64(n) / float64(top)
	bucket := func(x edge) int { return min(int(float64(x.address)*scale), n) }
	for _, x := range edges {
		e.starts[bucket(x)+1]++
	}
	for k := range n {
		e.starts[k+1] += e.starts[k]
	}
	for _, x := range edges {
		start := &e.starts[bucket(x)]
		e.bucketed[*start] = x
		*start++
	}
	for k, x := range e.bucketed {
		for ; k > 0 && (edges[k-1].address > x.address || edges[k-1].address == x.address && edges[k-1].index > x.index); k-- {
			edges[k] = edges[k-1]
		}
		edges[k] = x
	}
}

// findNeighbors sets neighbors to the placed ranges that overlap range i, which is out, in time.
func (e *ejector) findNeighbors(i int32) {
	r := e.ranges[i]
	block := r.begin / e.block
	before, from, to := e.alive[block], e.firstByBegin[block*e.block], e.firstByBegin[r.end]
	e.neighbors = e.neighbors[:0]
	for _, j := range before {
		if e.offset[j] >= 0 && e.ranges[j].end > r.begin {
			e.neighbors = append(e.neighbors, j)
		}
	}
	for j := from; j < to; j++ {
		if e.offset[j] >= 0 && e.ranges[j].end > r.begin {
			e.neighbors = append(e.neighbors, j)
		}
	}
	e.looks += len(before) + int(to-from)
}
