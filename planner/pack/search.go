package pack

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"memopt/memopt/stop"
)

// search looks for a packing of a part that ends at or below top. It follows the idea of M. D. Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023: any packing can be let sink
// until each life lies on the floor or on another, and can then be built from the bottom up, by offset. So it is enough
// to try, again and again, which life is the next: it lies as low as what is placed lets it, and not below the one
// before it. A branch ends
//
//   - when a section is sure to grow too high: nothing more in it can begin below the lowest offset that one of its
//     lives can have, nor below the life placed last, and the bytes still to be placed in it come on top;
//   - when the next life would begin at or above the end that another could have: that one would fit below, and the
//     packing with it there is found without this one;
//   - when equal offsets do not come in the order of rank, since lives at one offset do not meet and can be swapped.
//
// Lives to be placed that no moment joins with the others are packed alone; otherwise a branch that fails among the one
// is repeated for each branch among the others.
//
// How long this takes hangs on the rank and is either next to nothing or no end. So a search runs again and again with
// few tries each, and a rank puts first what crosses the sections that stopped the runs before.
type search struct {
	ctx         context.Context // polled at each try
	ranges      []liveRange
	obstacles   [][]interval // by life: what fixed ones take; nil if none is
	overlapping [][]int32    // by life: those alive at a time when it is
	alive       [][]int32    // by section: those alive
	limit       int64
	rank        []int32 // by life: which to try first at one offset
	maxTries    int     // tries of a run
	tries       int     // of this run so far
	looks       int     // at lives and sections so far: the work done, in a measure that is the same on every machine
	maxLooks    int     // looks there are

	placed     []bool
	lowest     []int64      // by life: its offset, or the lowest that it can still have
	remaining  []int64      // by section: bytes to be placed
	cancel     *atomic.Bool // ends every run, if there is one
	undo       []change     // what to take back, newest last
	candidates [][]int32    // by depth, scratch: the lives to be tried
	remainders [][]int32    // by depth, scratch: the lives to be placed after one is
	failures   []int64      // by section: branches that it ended in this run
}

// raise is the offset that low had for a life; for one that was then placed it is negative.
type change struct {
	index  int32
	lowest int64
}

// outcome is what came of a run.
type outcome int

const (
	unknown outcome = iota // its tries or looks were used up
	found
	impossible
)

// effort is the looks that n lives are worth. Those of the hardest instances in testdata, which need up to a quarter of
// it, take about a second and a half.
func fullSearchLooks(n int) int {
	if n > searchRanges {
		return 1 << 29 // each look costs more there, in memory that is far away
	}
	return min(n*n<<12, 1<<30)
}

// purse is the looks that all searches of a problem of so many lives share. Few get what they are worth, however they are
// parted. The more there are beyond that the less they get, down to what each life is worth.
func sharedLooks(lives int) int {
	if lives <= searchRanges {
		return math.MaxInt
	}
	return max(fullSearchLooks(lives)/lives*searchRanges, minSharedLooks*lives)
}

const (
	overshoot      = 3    // by so much the looks of both searches for a part are more than those it is worth
	minSharedLooks = 3000 // looks that a search for any life is worth
	redealFactor   = 4    // by so much a part is dealt more that stays the highest
)

// searchHard searches for lower packings of those parts that are searchable, as searchAll does.
func searchFew(parts []*part, t target) {
	searchParts(parts, t, func(p *part) bool { return searchPays(p, t) })
}

// searchAll searches for lower packings of all parts but those of many lives and those that stand as a search left them.
func searchAgain(parts []*part, t target) {
	searchParts(parts, t, func(p *part) bool {
		return len(p.ranges) <= fewRanges && p.top != p.searchedTop && !(t.quick && len(p.ranges) > searchRanges)
	})
}

// searchThose looks, with a capacity, first for a packing of each part within it. If that is not found, or there is no capacity, it
// lowers the highest part again and again.
func searchParts(parts []*part, t target, those func(p *part) bool) {
	left := t.looks
	if t.capped {
		left = fitWithin(parts, t.enough, left, those)
	}
	if !t.quick && highestPart(parts).top > t.enough {
		lowerHighest(parts, t.bound, left, those)
	}
}

func highestPart(parts []*part) (p *part) {
	for _, q := range parts {
		if p == nil || q.top > p.top {
			p = q
		}
	}
	return p
}

// lowest searches for a lower packing of the highest part, until that is no higher than goal or cannot be lowered. Each
// part may take so many looks at most, and all together what is in the purse. A part is dealt the share that it has of the
// lives not searched yet, and what it leaves goes to the others; if it stays the highest then, it is dealt more.
func lowerHighest(parts []*part, goal int64, most int, those func(p *part) bool) {
	all, lives := 0, 0
	for _, p := range parts {
		all += len(p.ranges)
		if p.top > goal && those(p) {
			lives += len(p.ranges)
		}
	}
	purse, used := sharedLooks(all), 0
	dealt := map[*part]int{}
	for p := highestPart(parts); p.top > goal && (dealt[p] > 0 || those(p)); p = highestPart(parts) {
		before, again := dealt[p]
		deal := min(redealFactor*before, purse-used)
		if !again {
			deal = (purse - used) / lives * len(p.ranges)
			lives -= len(p.ranges)
		}
		if deal = min(deal, overshoot*p.searchLooks(goal, most)); deal <= before {
			return
		}
		dealt[p] = deal
		used += p.lower(goal, deal/overshoot)
		p.searchedTop = p.top
	}
}

// within packs parts above goal up to it, in so many looks, or leaves all as they are as soon as one cannot be. It says how many
// looks it left.
func fitWithin(parts []*part, goal int64, most int, those func(p *part) bool) (left int) {
	fit := map[*part][]int64{}
	for _, p := range parts {
		if p.top <= goal {
			continue
		}
		if !those(p) {
			return most
		}
		s := newSearch(p)
		result := s.find(goal, min(fullSearchLooks(len(p.ranges))/2, most), true)
		if most = max(0, most-s.looks); result == impossible {
			p.bound = goal + 1
		}
		if result != found {
			return most
		}
		fit[p] = s.lowest
	}
	for p, low := range fit {
		p.offsets, p.top = low, topOf(p.ranges, low)
	}
	return most
}

// worth is the looks that p is worth, most of them at most: all if much of the goal is at stake; else less, as the gap is less.
func (p *part) searchLooks(goal int64, most int) int {
	looks := min(fullSearchLooks(len(p.ranges)), most)
	much := max(goal/4, 1)
	if len(p.ranges) > searchRanges {
		much = max(goal/16, 1) // a skyline has come near
	}
	if p.top-goal < much {
		high, low := bits.Mul64(uint64(p.top-goal), uint64(looks))
		share, _ := bits.Div64(high, low, uint64(much))
		looks = int(share)
	}
	return looks
}

// lower brings the top of p to goal if it can, and as near as it can if not. Looks say what that is worth; it says how many
// it took, which may be a few times as many.
//
// Two searches run side by side: one looks for the goal and nothing else, the other comes down from what there is. Each
// has its own looks to use up, and the goal wins wherever the other has come to, so their speeds do not tell.
func (p *part) lower(goal int64, looks int) (used int) {
	if n := len(p.ranges); looks < 4*n*n {
		return 0 // a run or two would be all
	}
	high, low := *p, newSearch(p)
	high.offsets = slices.Clone(p.offsets)
	down := newSearch(p)
	down.cancel = new(atomic.Bool)
	came := 0
	wait := stop.Go(func() { came = high.searchDown(down, goal, min(2*looks, 3*fullSearchLooks(fewRanges)/2)) })
	defer wait()
	result := low.find(goal, looks/2, true)
	if result == found {
		down.cancel.Store(true)
		wait()
		low.store(p)
		return 2 * low.looks // wherever the other has come to
	}
	wait()
	used = low.looks + came
	if *p = high; result == impossible {
		p.bound = max(p.bound, goal+1)
	}
	return used
}

// descend lowers the top of p, but not to goal. It tries half way between the highest top that failed and what there is,
// each time with a third of the looks that are left; when the two have met, it starts over with those. It says how many it
// used up.
func (p *part) searchDown(s *search, goal int64, looks int) (used int) {
	step := int64(0) // between tops that a packing can have
	for _, l := range p.ranges {
		step = gcd(gcd(step, l.size), l.align)
		if l.fixed != notFixed {
			step = gcd(step, l.fixed)
		}
	}
	for p.top-goal >= 2*step {
		for failed := goal; p.top-failed >= 2*step; {
			if s.looks > looks || s.cancelled() {
				return s.looks
			}
			top := failed + (p.top-failed)/2/step*step
			switch s.find(top, max((looks-s.looks)/3, 1), true) {
			case found:
				s.store(p)
			case impossible:
				goal, failed = top, top
				p.bound = top + 1
			default:
				failed = top
			}
		}
	}
	return s.looks
}

// give makes the packing that was found that of p, and takes it back.
func (s *search) store(p *part) {
	p.top = 0
	copy(p.offsets, s.lowest)
	for i, l := range p.ranges {
		p.top = max(p.top, p.offsets[i]+l.size)
	}
	s.undoTo(0)
}

func newSearch(p *part) *search {
	n := len(p.ranges)
	s := &search{
		ctx:         p.ctx,
		ranges:      p.ranges,
		obstacles:   obstaclesOf(p.ranges),
		overlapping: make([][]int32, n),
		alive:       make([][]int32, p.sections),
		placed:      make([]bool, n),
		lowest:      make([]int64, n),
		remaining:   make([]int64, p.sections),
		candidates:  make([][]int32, n),
		remainders:  make([][]int32, n),
		failures:    make([]int64, p.sections),
	}
	for i, a := range s.ranges {
		if a.fixed != notFixed {
			s.placed[i], s.lowest[i] = true, a.fixed
			continue
		}
		for j := i + 1; j < n && s.ranges[j].begin < a.end; j++ {
			if s.ranges[j].fixed == notFixed {
				s.overlapping[i] = append(s.overlapping[i], int32(j))
				s.overlapping[j] = append(s.overlapping[j], int32(i))
			}
		}
		s.lowest[i] = s.clearOfFixed(int32(i), p.floor)
		for t := a.begin; t < a.end; t++ {
			s.alive[t] = append(s.alive[t], int32(i))
			s.remaining[t] += a.size
		}
	}
	return s
}

// seek runs with one rank after another until one run is done or so many looks are used. Most runs are short. If it may go deep, a
// few are longer and longer, which is how it comes to see that there is nothing to be found. After found the packing is in low;
// otherwise s is as it was.
func (s *search) find(top int64, looks int, deep bool) (result outcome) {
	s.maxLooks = s.looks + looks
	short, long, used := 2*len(s.ranges), 4*len(s.ranges), 0
	ranks := s.ranks()
	if !deep { // those that come to an end with hardly a step back more often than the others
		ranks = []func(i, j int32) int{ranks[2], ranks[0], ranks[1]}
		short = len(s.ranges) * 3 / 2
	}
	heat := make([][]int64, len(ranks)) // by rank and section: blame, that of late runs above all
	for i := range heat {
		heat[i] = make([]int64, len(s.remaining))
	}
	for run := 0; result == unknown && s.looks <= s.maxLooks && !s.cancelled(); run++ {
		which := run % len(ranks)
		rank := s.rankBy(ranks[which], heat[which])
		if deep && used > 4*long {
			result = s.run(top, rank, long)
			long *= 2
		} else {
			result = s.run(top, rank, short)
			s.addHeat(heat[which], short)
		}
		used += s.tries
	}
	return result
}

// learn adds the blame of a run of so many tries to the heat of those before, which cools.
func (s *search) addHeat(heat []int64, tries int) {
	for t, n := range s.failures {
		heat[t] = heat[t]*3/4 + n<<20/int64(tries)
	}
}

// run is one try after another until it is done or has reached the limit, or the budget is spent.
func (s *search) run(top int64, rank []int32, limit int) outcome {
	s.limit, s.rank, s.maxTries, s.tries = top, rank, limit, 0
	clear(s.failures)
	all := make([]int32, 0, len(s.ranges))
	for i, l := range s.ranges {
		if l.fixed == notFixed {
			all = append(all, int32(i))
		}
	}
	switch {
	case s.placeAll(0, all, 0, -1):
		return found
	case s.exhausted():
		return unknown
	}
	return impossible
}

// spent is whether a run has to end.
func (s *search) exhausted() bool {
	return s.tries > s.maxTries || s.looks > s.maxLooks || s.cancelled()
}

func (s *search) cancelled() bool { return s.cancel != nil && s.cancel.Load() }

// ranks are the ways to rank lives that share the heat of their sections: what is hard to place comes first.
func (s *search) ranks() []func(i, j int32) int {
	crowd := make([]int64, len(s.ranges)) // the most bytes alive while a life is
	for i, a := range s.ranges {
		crowd[i] = slices.Max(s.remaining[a.begin:a.end])
	}
	crowded := func(order func(a, b liveRange) int) func(i, j int32) int {
		return func(i, j int32) int {
			return cmp.Or(cmp.Compare(crowd[j], crowd[i]), order(s.ranges[i], s.ranges[j]))
		}
	}
	plain := func(order func(a, b liveRange) int) func(i, j int32) int {
		return func(i, j int32) int { return order(s.ranges[i], s.ranges[j]) }
	}
	return []func(i, j int32) int{
		crowded(bySpan), plain(byStart), crowded(byArea), plain(bySpan), plain(byEnd),
	}
}

// rankBy ranks lives by the heat they cross, and by order where that is the same.
func (s *search) rankBy(order func(i, j int32) int, heat []int64) (rank []int32) {
	below := make([]int64, len(heat)+1) // the heat of all sections before each
	for t, h := range heat {
		below[t+1] = below[t] + h
	}
	crossed := func(i int32) int64 { return below[s.ranges[i].end] - below[s.ranges[i].begin] }
	first := make([]int32, len(s.ranges))
	for i := range first {
		first[i] = int32(i)
	}
	slices.SortStableFunc(first, func(i, j int32) int {
		return cmp.Or(cmp.Compare(crossed(j), crossed(i)), order(i, j))
	})
	rank = make([]int32, len(first))
	for at, i := range first {
		rank[i] = int32(at)
	}
	return rank
}

// pack places rest, which are sorted by begin, at or above last; those at last itself must rank after lastRank.
func (s *search) placeAll(depth int, rest []int32, last int64, lastRank int32) bool {
	mark := len(s.undo)
	for begin := 0; begin < len(rest); {
		end, n := s.ranges[rest[begin]].end, begin+1
		for ; n < len(rest) && s.ranges[rest[n]].begin < end; n++ {
			end = max(end, s.ranges[rest[n]].end)
		}
		if !s.placeConnected(depth, rest[begin:n], end, last, lastRank) {
			s.undoTo(mark)
			return false
		}
		begin = n
	}
	return true
}

// packJoined is pack for lives that no moment parts; the last of them ends with section end.
func (s *search) placeConnected(depth int, rest []int32, end int32, last int64, lastRank int32) bool {
	if len(rest) == 1 {
		return s.place(rest[0])
	}
	stop.Poll(s.ctx)
	if s.tries++; s.exhausted() {
		return false
	}
	mark := len(s.undo)
	s.candidates[depth] = s.findCandidates(s.candidates[depth][:0], rest, end, last, lastRank)
	for k := range s.candidates[depth] {
		i := s.takeBest(s.candidates[depth][k:])
		if !s.place(i) {
			continue
		}
		others := s.remainders[depth][:0]
		for _, j := range rest {
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

// choices are the lives of rest that can be placed next.
func (s *search) findCandidates(next, rest []int32, end int32, last int64, lastRank int32) []int32 {
	s.looks += 2*len(rest) + int(end-s.ranges[rest[0]].begin)
	highest := s.limit // that the next can begin at
	for _, left := range s.remaining[s.ranges[rest[0]].begin:end] {
		highest = min(highest, s.limit-left)
	}
	for _, i := range rest {
		highest = min(highest, s.lowest[i]+s.ranges[i].size-1)
	}
	for _, i := range rest {
		low, rank := s.lowest[i], s.rank[i]
		if low > highest || low < last || low == last && rank < lastRank {
			continue
		}
		next = append(next, i)
	}
	return next
}

// first brings the first of the lives that can be placed next to the front, by offset and then by rank. Most of the others
// are never asked for, so they are not sorted.
func (s *search) takeBest(next []int32) int32 {
	i := next[0]
	for k, j := range next {
		if s.lowest[j] < s.lowest[i] || s.lowest[j] == s.lowest[i] && s.rank[j] < s.rank[i] {
			i, next[0], next[k] = j, j, i
		}
	}
	return i
}

// place puts life i as low as it can be, and raises those above it. If a section is sure to grow too high then, it does
// nothing.
func (s *search) place(i int32) bool {
	a := s.ranges[i]
	end := s.lowest[i] + a.size
	if end > s.limit {
		return false
	}
	for t := a.begin; t < a.end; t++ {
		if left := s.remaining[t] - a.size; left > 0 && end+left > s.limit {
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

	first, last, highest := a.begin, a.end, end // of the raised
	for _, j := range s.overlapping[i] {
		if s.placed[j] || s.lowest[j] >= end {
			continue
		}
		b := s.ranges[j]
		s.undo = append(s.undo, change{j, s.lowest[j]})
		s.lowest[j] = s.clearOfFixed(j, end)
		first, last, highest = min(first, b.begin), max(last, b.end), max(highest, s.lowest[j])
	}
	s.looks += len(s.overlapping[i]) + int(a.end-a.begin+last-first)
	for t := first; t < last; t++ {
		// No lowest offset has come to be above highest, so this saves most sections the longer look.
		if left := s.remaining[t]; left > 0 && highest+left > s.limit && s.lowestUnplaced(t)+left > s.limit {
			s.failures[t]++
			s.undoTo(mark)
			return false
		}
	}
	return true
}

// floor is the lowest offset that a life to be placed in section t can have.
func (s *search) lowestUnplaced(t int32) int64 {
	s.looks += len(s.alive[t])
	low := int64(infinity)
	for _, i := range s.alive[t] {
		if !s.placed[i] {
			low = min(low, s.lowest[i])
		}
	}
	return low
}

// takeBack undoes all but the first mark changes.
func (s *search) undoTo(mark int) {
	for n := len(s.undo) - 1; n >= mark; n-- {
		c := s.undo[n]
		if c.lowest >= 0 {
			s.lowest[c.index] = c.lowest
			continue
		}
		s.placed[c.index] = false
		a := s.ranges[c.index]
		for t := a.begin; t < a.end; t++ {
			s.remaining[t] += a.size
		}
	}
	s.undo = s.undo[:mark]
}
