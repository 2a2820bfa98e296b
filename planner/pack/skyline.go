package pack

import (
	"context"
	"math"
	"slices"

	"memopt/internal/stop"
)

const (
	skylineStages = 64            // after each, weights are updated and a packing that is too high ends; more stages take longer
	ceilingShare  = 200           // the ceiling is bound/200 above the bound; a higher one makes skylines fill more valleys
	gone          = math.MaxInt32 // the end of a range that is placed
)

// skylineParams are what a skyline chooses by.
type skylineParams struct {
	candidates    int     // ranges of each group to look at for a place: more find better ones and take longer
	durationValue float64 // what a range that lasts as long as the valley is worth, against bytes wasted beside it
	fillBias      float64 // how readily a valley is filled up to its wall instead of used; 0: never
	aimShare      int64   // choices that keep the height within bound/aimShare above the bound are preferred
	slackScale    float64 // a section with this share of the ceiling as slack weighs half of one without; 0: all weigh the same
}

// paramSets are tried in turn until a skyline ends low enough.
var paramSets = [...]skylineParams{
	{16, 1, 0, 256, 0}, // packs without loss, or is given up soon
	{16, 1, 1, 256, 0.003},
	{16, 1, 2, 256, 0.01},
}

// trySkylines returns the lowest of the packings of all paramSets, or the first that ends within the limit.
func trySkylines(p *part, t target) (offsets []int64, top int64) {
	limit := t.limit(p)
	top = p.top
	g := newGroups(p)
	for k, params := range paramSets {
		s := newSkyline(p, g, params, t.bound)
		maxTop := func(int) int64 { return top - 1 }
		if k == 0 { // of what may be lost, each stage gets an equal share
			maxTop = func(stage int) int64 { return min(top-1, t.bound+(limit-t.bound)/skylineStages*int64(stage)) }
		}
		if s.build(t.bound, maxTop) {
			offsets, top = s.offsets, s.top
		}
		if top <= limit {
			break
		}
	}
	return offsets, top
}

// skyline packs a part from the bottom up, in a time that hardly depends on how many ranges overlap. The tops of what is
// placed form a skyline over time: stretches of sections of one height each. Nothing is placed below it, so the lowest
// stretch is the next to be filled; it is a valley between two walls. Of the sections of the valley, the one with the most
// bytes still to be placed decides: a range that is alive in it and fits between the walls is placed. If there is none, no
// range can use the bytes below the lower wall in that section, and it is raised to the wall.
//
// Of several ranges, the one is placed that wastes the least and leaves no part of the valley, beside it, that would have to
// become too high: the section of each part with the most bytes to be placed must have a range that fits there, or have
// enough slack to lose the bytes up to the wall. A wasted byte weighs the more, the less slack its section has.
type skyline struct {
	ranges   []liveRange
	sections int32
	floor    int64
	maxAlign int64
	params   skylineParams
	aim      int64           // height that choices should keep to
	ceiling  int64           // height that slack is measured from
	ctx      context.Context // polled at each stretch

	offsets      []int64
	top          int64     // of what is placed
	placed       int       // ranges
	remaining    maxTree   // by section: bytes to be placed
	projected    []int64   // by section: its height at the end if no more is wasted
	weightBefore []float64 // by section: what a byte weighs in all sections before it

	*groups
	pending    []int32 // by center: ranges of its group to be placed
	endByBegin minTree // by position in byBegin: the end
	beginByEnd minTree // by position in byEnd: minus the begin
	endOf      minTree // by range: the end

	stretchEnd    []int32 // by begin of a stretch: its end
	stretchBefore []int32 // by begin of a stretch: the begin of the one before it, or -1
	stretchHeight []int64 // by begin of a stretch; -1 where none begins
	queue         stretchHeap

	found      []int32     // scratch: ranges that covering found
	candidates []candidate // scratch: ranges that may be placed next
}

// newSkyline is the floor.
func newSkyline(p *part, g *groups, params skylineParams, bound int64) *skyline {
	n, sections := len(p.ranges), p.sections
	s := &skyline{
		ranges: p.ranges, sections: sections, floor: p.floor, groups: g, ctx: p.ctx, params: params,
		ceiling: bound + bound/ceilingShare, aim: bound + bound/params.aimShare, weightBefore: make([]float64, sections+1),
		pending: make([]int32, sections), offsets: make([]int64, n), projected: liveBytes(p.ranges, sections),
		stretchEnd: make([]int32, sections), stretchBefore: make([]int32, sections), stretchHeight: make([]int64, sections),
	}
	ends, begins, endOf := make([]int32, n), make([]int32, n), make([]int32, n)
	for i, r := range s.ranges {
		s.maxAlign = max(s.maxAlign, r.align)
		s.pending[center(r.begin, r.end)]++
		ends[g.byBegin.position[i]], begins[g.byEnd.position[i]], endOf[i] = r.end, -r.begin, r.end
	}
	s.endByBegin.build(ends)
	s.beginByEnd.build(begins)
	s.endOf.build(endOf)
	s.remaining.build(s.projected)
	for t := range s.projected {
		s.projected[t] += s.floor
		s.stretchHeight[t] = -1
	}
	s.stretchHeight[0], s.stretchEnd[0], s.stretchBefore[0] = s.floor, sections, -1
	s.queue.push(stretch{s.floor, 0})
	return s
}

// build places all ranges, in stages. It gives up after a stage when the height will be above maxTop of it.
func (s *skyline) build(bound int64, maxTop func(stage int) int64) bool {
	for stage := 1; stage <= skylineStages; stage++ {
		s.updateWeights()
		height := int64(math.MaxInt64)
		if stage < skylineStages {
			height = s.floor + (bound-s.floor)/skylineStages*int64(stage)
		}
		if s.buildTo(height); max(s.top, slices.Max(s.projected)) > maxTop(stage) {
			return false
		}
	}
	return true
}

// buildTo places ranges until the lowest stretch is at height or above.
func (s *skyline) buildTo(height int64) {
	for s.placed < len(s.ranges) && len(s.queue) > 0 && s.queue[0].height < height {
		stop.Poll(s.ctx)
		lowest := s.queue.pop()
		begin := lowest.begin
		if s.stretchHeight[begin] != lowest.height {
			continue // it was raised or joined since
		}
		end := s.stretchEnd[begin]
		before, after := s.wallHeights(begin, end)
		wall := min(before, after)
		if !s.hasRangeWithin(begin, end) {
			s.fill(begin, begin, end, wall)
			continue
		}
		most, place := s.remaining.maxOf(begin, end)
		section := s.remaining.find(place)
		i := s.choose(begin, end, section, most)
		if i < 0 {
			s.fill(begin, section, section+1, wall)
			continue
		}
		if s.worthFilling(lowest.height, wall, most) {
			s.fill(begin, begin, end, wall)
			continue
		}
		s.place(i, begin)
	}
}

// place puts range i on the stretch that begins at begin.
func (s *skyline) place(i, begin int32) {
	r, height := s.extents[i], s.stretchHeight[begin]
	offset := alignUp(height, r.align)
	s.addWaste(r.begin, r.end, height, offset)
	s.offsets[i] = offset
	s.top = max(s.top, offset+r.size)
	s.remaining.add(r.begin, r.end, -r.size)
	s.endByBegin.set(s.byBegin.position[i], gone)
	s.beginByEnd.set(s.byEnd.position[i], gone)
	s.endOf.set(i, gone)
	s.pending[center(r.begin, r.end)]--
	s.raise(begin, r.begin, r.end, offset+r.size)
	s.placed++
}

// worthFilling reports whether to fill a valley up to its lower wall, which lets ranges lie across both. It is so if that
// wastes less than fillBias times what the fullest section of the valley, with so many bytes to be placed, could waste on a
// range of the mean size of the candidates, if its slack were spread evenly over those bytes.
func (s *skyline) worthFilling(height, wall, remaining int64) bool {
	if s.params.fillBias == 0 || wall == infinity {
		return false
	}
	sum := int64(0)
	for _, c := range s.candidates {
		sum += s.extents[c.index].size
	}
	size := s.params.fillBias * float64(sum) / float64(len(s.candidates))
	above := float64(s.ceiling - height)
	return float64(wall-height)*above < size*(above-float64(remaining))
}

// wallHeights is the heights of the stretches before and after the valley [begin, end).
func (s *skyline) wallHeights(begin, end int32) (before, after int64) {
	before, after = infinity, infinity
	if s.stretchBefore[begin] >= 0 {
		before = s.stretchHeight[s.stretchBefore[begin]]
	}
	if end < s.sections {
		after = s.stretchHeight[end]
	}
	return before, after
}

// fill raises sections [from, to) of the stretch that begins at begin to a height, and wastes the bytes below it.
func (s *skyline) fill(begin, from, to int32, height int64) {
	s.addWaste(from, to, s.stretchHeight[begin], height)
	s.raise(begin, from, to, height)
}

// addWaste notes that nothing will lie between two heights in sections [begin, end). That costs sections in which nothing
// remains to be placed nothing.
func (s *skyline) addWaste(begin, end int32, from, to int64) {
	if from == to {
		return
	}
	projected := s.projected[begin:end]
	for t, height := range projected {
		if height > from {
			projected[t] = height + to - from
		}
	}
}

// raise sets sections [from, to) of the stretch that begins at begin to a height, and joins them with the stretches before
// and after if those have that height.
func (s *skyline) raise(begin, from, to int32, height int64) {
	end, old, before := s.stretchEnd[begin], s.stretchHeight[begin], s.stretchBefore[begin]
	newBegin, newEnd := from, to
	if from > begin {
		s.stretchEnd[begin] = from
		s.queue.push(stretch{old, begin})
		before = begin
	} else if before >= 0 && s.stretchHeight[before] == height {
		newBegin = before
		before = s.stretchBefore[newBegin]
		s.stretchHeight[begin] = -1
	}
	if to < end {
		s.stretchHeight[to], s.stretchEnd[to] = old, end
		s.queue.push(stretch{old, to})
		if end < s.sections {
			s.stretchBefore[end] = to
		}
	} else if end < s.sections && s.stretchHeight[end] == height {
		newEnd = s.stretchEnd[end]
		s.stretchHeight[end] = -1
	}
	if newBegin == from { // else it is in the queue
		s.queue.push(stretch{height, newBegin})
	}
	s.stretchHeight[newBegin], s.stretchEnd[newBegin], s.stretchBefore[newBegin] = height, newEnd, before
	if newEnd < s.sections {
		s.stretchBefore[newEnd] = newBegin
	}
}

// hasRangeWithin reports whether a range to be placed lies within [begin, end).
func (s *skyline) hasRangeWithin(begin, end int32) bool {
	return s.endOf.firstAtMost(s.firstByBegin[begin], s.firstByBegin[end], end) >= 0
}

// stretch is a stretch of a skyline in its queue: its height and its first section.
type stretch struct {
	height int64
	begin  int32
}

func (a stretch) before(b stretch) bool {
	return a.height < b.height || a.height == b.height && a.begin < b.begin
}

// stretchHeap is a heap of stretches, the lowest first, with up to four below each, without container/heap's calls by interface.
type stretchHeap []stretch

func (h *stretchHeap) push(x stretch) {
	*h = append(*h, x)
	q, i := *h, len(*h)-1
	for ; i > 0 && x.before(q[(i-1)/4]); i = (i - 1) / 4 {
		q[i] = q[(i-1)/4]
	}
	q[i] = x
}

func (h *stretchHeap) pop() (first stretch) {
	q := *h
	last := len(q) - 1
	first, x := q[0], q[last]
	q = q[:last]
	*h = q
	i := 0
	for below := 1; below < last; below = 4*i + 1 {
		least := below
		for k := below + 1; k < min(below+4, last); k++ {
			if q[k].before(q[least]) {
				least = k
			}
		}
		if !q[least].before(x) {
			break
		}
		q[i], i = q[least], least
	}
	if last > 0 {
		q[i] = x
	}
	return first
}
