package pack

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"memopt/internal/stop"
)

const (
	looksPerPair   = 1 << 12 // looks of a search for few ranges, per pair of them, up to maxSearchLooks; see fullSearchLooks
	maxSearchLooks = 1 << 30 // of a search for few ranges; the hardest instances in testdata take a quarter
	largeLooks     = 1 << 29 // of a search for more, of which each look takes longer, as it misses the cache
	farShare       = 4       // a part of few ranges bound/4 above the bound gets all looks, a lower one less in proportion to its gap
	closeShare     = 16      // the same for more ranges, to which a skyline has come close
	overshoot      = 3       // both searches of lower together take up to so many times the looks that they are given
	minSharedLooks = 3000    // looks per range that the searches of a problem have at least; less would leave some without a run
	redealFactor   = 4       // a part that is the highest again gets so many times the looks it had; less repeats much of the work
)

// search looks for a packing of a part that ends at or below limit, after M. D. Moffitt, "MiniMalloc: A Lightweight Memory
// Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023. In any packing, ranges can be lowered until each lies on
// the floor or on another, and that packing can be built by rising offset. So it is enough to try each range as the next,
// again and again, at the lowest offset that those placed allow and not below the range placed last. The search backtracks
//
//   - when a section is bound to grow above limit: nothing more in it can begin below the lowest offset that one of its
//     ranges can have, nor below the range placed last, and all bytes to be placed in it come on top;
//   - when the next range would begin at or above the top that another could have: that one would fit below it, and the
//     packing with it there is found without this one;
//   - when equal offsets do not come in the order of rank: ranges at one offset do not overlap in time, so one order is enough.
//
// If the ranges to be placed fall into sets that do not overlap in time, each set is placed on its own: else a failure in one
// would be repeated for each packing of the others.
//
// The time depends on the rank, and is either short or beyond reach. So the search restarts often, with few tries a run, and
// ranks first what is alive in the sections that ended the branches of the runs before.
type search struct {
	ctx         context.Context // polled at each try
	ranges      []liveRange
	overlapping [][]int32    // by range: those that overlap it in time
	alive       [][]int32    // by section: ranges alive in it
	limit       int64        // the top that no range may be above
	rank        []int32      // by range: which to try first at one offset
	maxTries    int          // of a run
	tries       int          // of this run so far
	maxLooks    int          // looks that there are
	looks       int          // at ranges and sections so far
	cancel      *atomic.Bool // ends the search from another goroutine; nil: nobody does

	placed     []bool
	lowest     []int64   // by range: its offset, or the lowest that it can still have
	remaining  []int64   // by section: bytes to be placed
	undo       []change  // to be taken back, newest last
	candidates [][]int32 // by depth, scratch: ranges to try
	remainders [][]int32 // by depth, scratch: ranges to place after one of those
	failures   []int64   // by section: branches that it ended in this run
}

// change is the value that lowest had for a range; -1 for the placing of the range.
type change struct {
	index  int32
	lowest int64
}

// outcome is the result of a run.
type outcome int

const (
	unknown outcome = iota // its tries or looks were used up
	found
	impossible
)

// fullSearchLooks is the looks that a search for n ranges may take.
func fullSearchLooks(n int) int {
	if n > searchRanges {
		return largeLooks
	}
	return min(n*n*looksPerPair, maxSearchLooks)
}

// sharedLooks is the looks that all searches of a problem share: with few ranges as many as they want, however they are
// divided into parts; with more, less the more there are, down to minSharedLooks for each.
func sharedLooks(ranges int) int {
	if ranges <= searchRanges {
		return math.MaxInt
	}
	return max(fullSearchLooks(ranges)/ranges*searchRanges, minSharedLooks*ranges)
}

// searchFew searches for lower packings of the parts for which it pays.
func searchFew(parts []*part, t target) {
	searchParts(parts, t, func(p *part) bool { return searchPays(p, t) })
}

// searchAgain searches for lower packings of all parts of few ranges but those that are as a search left them.
func searchAgain(parts []*part, t target) {
	searchParts(parts, t, func(p *part) bool {
		return len(p.ranges) <= fewRanges && p.top != p.searchedTop && !(t.quick && len(p.ranges) > searchRanges)
	})
}

// searchParts first searches for packings within the capacity if there is one. If that fails, or there is no capacity, it
// lowers the highest part again and again.
func searchParts(parts []*part, t target, eligible func(p *part) bool) {
	looks := t.looks
	if t.capped {
		looks = fitWithin(parts, t.enough, looks, eligible)
	}
	if !t.quick && highestPart(parts).top > t.enough {
		lowerHighest(parts, t.bound, looks, eligible)
	}
}

// highestPart is the first of the parts with the highest top.
func highestPart(parts []*part) *part {
	return slices.MaxFunc(parts, func(p, q *part) int { return cmp.Compare(p.top, q.top) })
}

// lowerHighest searches for lower packings of the highest part until that is at the bound, or cannot be lowered. The parts
// share sharedLooks. Each is dealt its share by number of ranges, what it does not use goes to the others, and a part that is
// the highest again is dealt more; maxLooks limits what one part gets.
func lowerHighest(parts []*part, bound int64, maxLooks int, eligible func(p *part) bool) {
	all, waiting := 0, 0 // ranges
	for _, p := range parts {
		all += len(p.ranges)
		if p.top > bound && eligible(p) {
			waiting += len(p.ranges)
		}
	}
	shared, used := sharedLooks(all), 0
	dealt := map[*part]int{}
	for p := highestPart(parts); p.top > bound && (dealt[p] > 0 || eligible(p)); p = highestPart(parts) {
		before, again := dealt[p]
		deal := min(redealFactor*before, shared-used)
		if !again {
			deal = (shared - used) / waiting * len(p.ranges)
			waiting -= len(p.ranges)
		}
		if deal = min(deal, overshoot*p.searchLooks(bound, maxLooks)); deal <= before {
			return
		}
		dealt[p] = deal
		used += p.lower(bound, deal/overshoot)
		p.searchedTop = p.top
	}
}

// fitWithin searches for packings of all parts above limit that end within it. It leaves all parts as they are as soon as it
// fails for one. It returns the looks that it left.
func fitWithin(parts []*part, limit int64, looks int, eligible func(p *part) bool) (left int) {
	fitting := map[*part][]int64{}
	for _, p := range parts {
		if p.top <= limit {
			continue
		}
		if !eligible(p) {
			return looks
		}
		s := newSearch(p)
		result := s.find(limit, min(fullSearchLooks(len(p.ranges))/2, looks), true)
		if looks = max(0, looks-s.looks); result == impossible {
			p.bound = limit + 1
		}
		if result != found {
			return looks
		}
		fitting[p] = s.lowest
	}
	for p, offsets := range fitting {
		p.offsets, p.top = offsets, topOf(p.ranges, offsets)
	}
	return looks
}

// searchLooks is the looks that a search for a lower packing of p may take: all, or maxLooks, if p is far above the bound; less
// in proportion if it is not.
func (p *part) searchLooks(bound int64, maxLooks int) int {
	looks := min(fullSearchLooks(len(p.ranges)), maxLooks)
	far := max(bound/farShare, 1)
	if len(p.ranges) > searchRanges {
		far = max(bound/closeShare, 1)
	}
	if p.top-bound < far {
		high, low := bits.Mul64(uint64(p.top-bound), uint64(looks))
		share, _ := bits.Div64(high, low, uint64(far))
		looks = int(share)
	}
	return looks
}

// lower lowers p to the bound, or as far as it can. It returns the looks that it took, which may be overshoot times those it
// was given.
//
// Two searches run side by side: one looks for a packing at the bound, the other lowers the top step by step. Each has its
// own looks, and a packing at the bound is taken whatever the other has found, so their speeds make no difference.
func (p *part) lower(bound int64, looks int) (used int) {
	if n := len(p.ranges); looks < 4*n*n {
		return 0 // enough for a run or two
	}
	stepwise, atBound := *p, newSearch(p)
	stepwise.offsets = slices.Clone(p.offsets)
	down := newSearch(p)
	down.cancel = new(atomic.Bool)
	usedDown := 0
	wait := stop.Go(func() { usedDown = stepwise.searchDown(down, bound, min(2*looks, 3*fullSearchLooks(fewRanges)/2)) })
	defer wait()
	result := atBound.find(bound, looks/2, true)
	if result == found {
		down.cancel.Store(true)
		wait()
		atBound.store(p)
		return 2 * atBound.looks // not usedDown, which depends on speed
	}
	wait()
	used = atBound.looks + usedDown
	if *p = stepwise; result == impossible {
		p.bound = max(p.bound, bound+1)
	}
	return used
}

// searchDown lowers the top of p, but not to the bound. It bisects between the top and the highest limit at which it failed,
// each time with a third of the looks left; when the two meet, it starts over with what is left. It returns the looks it took.
func (p *part) searchDown(s *search, bound int64, looks int) (used int) {
	step := int64(0) // all tops are multiples of it
	for _, r := range p.ranges {
		step = gcd(gcd(step, r.size), r.align)
	}
	for p.top-bound >= 2*step {
		for failed := bound; p.top-failed >= 2*step; {
			if s.looks > looks || s.cancelled() {
				return s.looks
			}
			limit := failed + (p.top-failed)/2/step*step
			switch s.find(limit, max((looks-s.looks)/3, 1), true) {
			case found:
				s.store(p)
			case impossible:
				bound, failed = limit, limit
				p.bound = limit + 1
			default:
				failed = limit
			}
		}
	}
	return s.looks
}

// store copies the packing that s found to p, and takes it back in s.
func (s *search) store(p *part) {
	copy(p.offsets, s.lowest)
	p.top = topOf(p.ranges, p.offsets)
	s.undoTo(0)
}

func newSearch(p *part) *search {
	n := len(p.ranges)
	s := &search{
		ctx: p.ctx, ranges: p.ranges, overlapping: make([][]int32, n), alive: make([][]int32, p.sections),
		placed: make([]bool, n), lowest: make([]int64, n), remaining: make([]int64, p.sections),
		candidates: make([][]int32, n), remainders: make([][]int32, n), failures: make([]int64, p.sections),
	}
	for i, a := range s.ranges {
		for j := i + 1; j < n && s.ranges[j].begin < a.end; j++ {
			s.overlapping[i] = append(s.overlapping[i], int32(j))
			s.overlapping[j] = append(s.overlapping[j], int32(i))
		}
		s.lowest[i] = alignUp(p.floor, a.align)
		for t := a.begin; t < a.end; t++ {
			s.alive[t] = append(s.alive[t], int32(i))
			s.remaining[t] += a.size
		}
	}
	return s
}

// find does runs of different ranks until one is decided, or the looks are used up. Runs are short; if deep, some are longer
// and longer, which can prove that there is no packing. After found, the packing is in lowest; else s is as it was.
func (s *search) find(limit int64, looks int, deep bool) (result outcome) {
	s.maxLooks = s.looks + looks
	short, long, used := 2*len(s.ranges), 4*len(s.ranges), 0 // tries
	orders := s.orders()
	if !deep { // those that most often succeed with hardly any backtracking
		orders = []func(i, j int32) int{orders[2], orders[0], orders[1]}
		short = len(s.ranges) * 3 / 2
	}
	heat := make([][]int64, len(orders)) // by order and section: failures, those of recent runs above all
	for i := range heat {
		heat[i] = make([]int64, len(s.remaining))
	}
	for run := 0; result == unknown && s.looks <= s.maxLooks && !s.cancelled(); run++ {
		k := run % len(orders)
		rank := s.rankBy(orders[k], heat[k])
		if deep && used > 4*long {
			result = s.run(limit, rank, long)
			long *= 2
		} else {
			result = s.run(limit, rank, short)
			s.addHeat(heat[k], short)
		}
		used += s.tries
	}
	return result
}

// addHeat adds the failures of a run of so many tries to the heat of those before, which cools.
func (s *search) addHeat(heat []int64, tries int) {
	for t, n := range s.failures {
		heat[t] = heat[t]*3/4 + n<<20/int64(tries)
	}
}

// run searches with one rank until it is decided, or has taken maxTries, or the looks are used up.
func (s *search) run(limit int64, rank []int32, maxTries int) outcome {
	s.limit, s.rank, s.maxTries, s.tries = limit, rank, maxTries, 0
	clear(s.failures)
	switch {
	case s.placeAll(0, indicesUpTo(len(s.ranges)), 0, -1):
		return found
	case s.exhausted():
		return unknown
	}
	return impossible
}

// exhausted reports whether the run has to end.
func (s *search) exhausted() bool {
	return s.tries > s.maxTries || s.looks > s.maxLooks || s.cancelled()
}

func (s *search) cancelled() bool { return s.cancel != nil && s.cancel.Load() }

// orders are the orders by which ranges of equal heat are ranked: what is hard to place comes first.
func (s *search) orders() []func(i, j int32) int {
	mostAlive := make([]int64, len(s.ranges)) // the most bytes alive while a range is
	for i, r := range s.ranges {
		mostAlive[i] = slices.Max(s.remaining[r.begin:r.end])
	}
	crowded := func(order func(a, b liveRange) int) func(i, j int32) int {
		return func(i, j int32) int {
			return cmp.Or(cmp.Compare(mostAlive[j], mostAlive[i]), order(s.ranges[i], s.ranges[j]))
		}
	}
	plain := func(order func(a, b liveRange) int) func(i, j int32) int {
		return func(i, j int32) int { return order(s.ranges[i], s.ranges[j]) }
	}
	return []func(i, j int32) int{
		crowded(byDuration), plain(byBegin), crowded(byArea), plain(byDuration), plain(byEnd),
	}
}

// rankBy ranks ranges by the heat of their sections, and by order where that is equal.
func (s *search) rankBy(order func(i, j int32) int, heat []int64) (rank []int32) {
	heatBefore := make([]int64, len(heat)+1) // by section: the heat of all sections before it
	for t, h := range heat {
		heatBefore[t+1] = heatBefore[t] + h
	}
	heatOf := func(i int32) int64 { return heatBefore[s.ranges[i].end] - heatBefore[s.ranges[i].begin] }
	indices := indicesUpTo(len(s.ranges))
	slices.SortStableFunc(indices, func(i, j int32) int {
		return cmp.Or(cmp.Compare(heatOf(j), heatOf(i)), order(i, j))
	})
	rank = make([]int32, len(indices))
	for k, i := range indices {
		rank[i] = int32(k)
	}
	return rank
}

// placeAll places ranges, which are sorted by begin, at or above offset last; those at last itself must rank after lastRank.
func (s *search) placeAll(depth int, ranges []int32, last int64, lastRank int32) bool {
	mark := len(s.undo)
	for from := 0; from < len(ranges); {
		end, to := s.ranges[ranges[from]].end, from+1
		for ; to < len(ranges) && s.ranges[ranges[to]].begin < end; to++ {
			end = max(end, s.ranges[ranges[to]].end)
		}
		if !s.placeConnected(depth, ranges[from:to], end, last, lastRank) {
			s.undoTo(mark)
			return false
		}
		from = to
	}
	return true
}

// placeConnected is placeAll for ranges of which one is alive in each section up to end.
func (s *search) placeConnected(depth int, ranges []int32, end int32, last int64, lastRank int32) bool {
	if len(ranges) == 1 {
		return s.place(ranges[0])
	}
	stop.Poll(s.ctx)
	if s.tries++; s.exhausted() {
		return false
	}
	mark := len(s.undo)
	s.candidates[depth] = s.findCandidates(s.candidates[depth][:0], ranges, end, last, lastRank)
	for k := range s.candidates[depth] {
		i := s.takeBest(s.candidates[depth][k:])
		if !s.place(i) {
			continue
		}
		others := s.remainders[depth][:0]
		for _, j := range ranges {
			if j != i {
				others = append(others, j)
			}
		}
		s.remainders[depth] = others
		if s.placeAll(depth+1, others, s.lowest[i], s.rank[i]) {
			return true
		}
		s.undoTo(mark)
		if s.exhausted() {
			return false
		}
	}
	return false
}

// findCandidates adds to candidates the ranges that can be placed next.
func (s *search) findCandidates(candidates, ranges []int32, end int32, last int64, lastRank int32) []int32 {
	begin := s.ranges[ranges[0]].begin
	s.looks += 2*len(ranges) + int(end-begin)
	highest := s.limit - slices.Max(s.remaining[begin:end]) // offset of the next
	for _, i := range ranges {
		highest = min(highest, s.lowest[i]+s.ranges[i].size-1)
	}
	for _, i := range ranges {
		offset, rank := s.lowest[i], s.rank[i]
		if offset > highest || offset < last || offset == last && rank < lastRank {
			continue
		}
		candidates = append(candidates, i)
	}
	return candidates
}

// takeBest moves the best of the candidates to the front, by offset and then by rank. Most of the others are never asked for,
// so they are not sorted.
func (s *search) takeBest(candidates []int32) int32 {
	i := candidates[0]
	for k, j := range candidates {
		if s.lowest[j] < s.lowest[i] || s.lowest[j] == s.lowest[i] && s.rank[j] < s.rank[i] {
			i, candidates[0], candidates[k] = j, j, i
		}
	}
	return i
}

// place puts range i at its lowest offset, and raises that of those it overlaps. If a section is then bound to grow above the
// limit, it undoes that and returns false.
func (s *search) place(i int32) bool {
	a := s.ranges[i]
	top := s.lowest[i] + a.size
	if top > s.limit {
		return false
	}
	for t := a.begin; t < a.end; t++ {
		if left := s.remaining[t] - a.size; left > 0 && top+left > s.limit {
			s.failures[t]++
			return false
		}
	}
	mark := len(s.undo)
	for t := a.begin; t < a.end; t++ {
		s.remaining[t] -= a.size
	}
	s.placed[i] = true
	s.undo = append(s.undo, change{i, -1})

	begin, end, highest := a.begin, a.end, top // sections of raised ranges, and the highest offset of those
	for _, j := range s.overlapping[i] {
		if s.placed[j] || s.lowest[j] >= top {
			continue
		}
		b := s.ranges[j]
		s.undo = append(s.undo, change{j, s.lowest[j]})
		s.lowest[j] = alignUp(top, b.align)
		begin, end, highest = min(begin, b.begin), max(end, b.end), max(highest, s.lowest[j])
	}
	s.looks += len(s.overlapping[i]) + int(a.end-a.begin+end-begin)
	for t := begin; t < end; t++ {
		// The first comparison is quick and mostly enough: no offset was raised above highest.
		if left := s.remaining[t]; left > 0 && highest+left > s.limit && s.lowestUnplaced(t)+left > s.limit {
			s.failures[t]++
			s.undoTo(mark)
			return false
		}
	}
	return true
}

// lowestUnplaced is the lowest offset that a range to be placed in section t can have.
func (s *search) lowestUnplaced(t int32) int64 {
	s.looks += len(s.alive[t])
	lowest := int64(infinity)
	for _, i := range s.alive[t] {
		if !s.placed[i] {
			lowest = min(lowest, s.lowest[i])
		}
	}
	return lowest
}

// undoTo undoes all but the first mark changes.
func (s *search) undoTo(mark int) {
	for n := len(s.undo) - 1; n >= mark; n-- {
		c := s.undo[n]
		if c.lowest >= 0 {
			s.lowest[c.index] = c.lowest
			continue
		}
		s.placed[c.index] = false
		r := s.ranges[c.index]
		for t := r.begin; t < r.end; t++ {
			s.remaining[t] += r.size
		}
	}
	s.undo = s.undo[:mark]
}
