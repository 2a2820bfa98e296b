package pack

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"memopt/memopt/stop"
)

// skyline packs a part from the bottom up, however many lives there are and however many of them meet. What is placed
// shows as a skyline over time: stretches of sections at one height each. Nothing is ever put below it, so the lowest
// stretch is looked at next, a valley between two walls. In it one section has the most bytes still to come; one of the
// lives that cover this section and fit between the walls is put there. If there is none, no life can use the section
// below the lower wall, and it is raised to that.
//
// Of the lives that fit, the one is taken that wastes least and leaves nothing beside it that is bound to grow too high:
// in what is left of the valley at each side of it, the section with the most to come must have a life that fits there,
// or be able to do without. A byte wasted weighs the more, the less its section has to spare.
type skyline struct {
	ranges   []liveRange
	sections int32
	floor    int64
	maxAlign int64       // of the alignments
	fixed    []liveRange // the lives that are fixed, lowest first: see fixed.go
	maxSize  int64       // size of the others

	params       skylineParams
	aim          int64 // what it wants to stay within for now
	ceiling      int64 // and in the end
	placed       int
	top          int64     // end of what is placed
	remaining    maxTree   // by section: bytes to be placed
	projected    []int64   // by section: how high it becomes at least, if no more is wasted
	weightBefore []float64 // by section: what a byte weighs in all sections before it
	pending      []int32   // by center: how many lives of its group are to be placed
	offsets      []int64
	ctx          context.Context // polled at each stretch

	*groups
	endByBegin minTree // by position in byBegin: the end
	beginByEnd minTree // by position in byEnd: minus the begin
	endOf      minTree // by life, as lives are sorted by begin: the end

	stretchEnd    []int32 // by begin of a stretch: its end
	stretchBefore []int32 // by begin of a stretch: the begin of the one before it, or -1
	stretchHeight []int64 // by begin of a stretch; -1 where none begins
	queue         turns   // of stretches, some of which are no more

	found      []int32     // scratch
	candidates []candidate // scratch: lives that may be next
}

// groups are the lives in two orders. Both are grouped by center: the section in a life's span that most powers of two
// divide. Within a group all lives meet, so that which of them lie between two walls and cover a section is a question
// about one end only, once it is known on which side of the center the section is.
type groups struct {
	firstByBegin []int32 // by section: the first life that begins there or later
	groupStart   []int32 // by center: the first position of its group
	byBegin      keyedRanges
	byEnd        keyedRanges
	extents      []extent // by life
}

// keyedLives is the lives of all groups, those of a group by a key: the begin, or minus the end.
type keyedRanges struct {
	indices  []int32 // by position
	keys     []int32 // by position
	position []int32 // by life: its position
}

// newKeyed has room for n lives.
func newKeyedRanges(n int) keyedRanges {
	return keyedRanges{make([]int32, n), make([]int32, n), make([]int32, n)}
}

// put gives a life its position.
func (o *keyedRanges) put(at, life, key int32) {
	o.indices[at], o.keys[at], o.position[life] = life, key, at
}

// span is what is asked most often of a life; many of them are near at hand.
type extent struct {
	begin, end  int32
	size, align int64
}

const (
	gone        = math.MaxInt32 // the end of a life that is placed
	shortlist   = 16            // of the lives that fit, those that waste least are looked at more closely
	belowWeight = 3             // how much more the bytes that alignment loses below a life weigh than those it may lose above it
)

// newSkyline is nothing but the floor.
func newSkyline(p *part, g *groups, r skylineParams, goal int64) *skyline {
	n, sections := len(p.ranges), p.sections
	s := &skyline{
		ranges: p.ranges, sections: sections, floor: p.floor, groups: g, ctx: p.ctx, params: r,
		ceiling: goal + goal/ceilingShare, aim: goal + goal/r.aimShare, weightBefore: make([]float64, sections+1),
		pending: make([]int32, sections), offsets: make([]int64, n),
		stretchEnd: make([]int32, sections), stretchBefore: make([]int32, sections), stretchHeight: make([]int64, sections),
	}
	s.endByBegin.init(n)
	s.beginByEnd.init(n)
	s.endOf.init(n)
	for i, l := range s.ranges {
		s.maxAlign = max(s.maxAlign, l.align)
		if l.fixed != notFixed {
			s.fixed = append(s.fixed, l)
			s.offsets[i], s.top = l.fixed, max(s.top, l.fixed+l.size)
			s.placed++
			continue
		}
		s.maxSize = max(s.maxSize, l.size)
		s.endByBegin.setLeaf(s.byBegin.position[i], l.end)
		s.beginByEnd.setLeaf(s.byEnd.position[i], -l.begin)
		s.endOf.setLeaf(int32(i), l.end)
		s.pending[center(l.begin, l.end)]++
	}
	slices.SortStableFunc(s.fixed, func(a, b liveRange) int { return cmp.Compare(a.fixed, b.fixed) })
	s.endByBegin.build()
	s.beginByEnd.build()
	s.endOf.build()
	s.projected = liveBytes(s.ranges, sections)
	s.remaining.build(s.projected)
	for t, live := range s.projected {
		s.projected[t] = s.floor + live
	}
	for t := range s.stretchHeight {
		s.stretchHeight[t] = -1
	}
	s.stretchHeight[0], s.stretchEnd[0], s.stretchBefore[0] = s.floor, sections, -1
	s.queue.push(stretch{s.floor, 0})
	return s
}

// newGroups sorts by counting: the lives come by begin, and late is them by end.
func newGroups(p *part) *groups {
	n := len(p.ranges)
	g := &groups{
		firstByBegin: firstByBegin(p.ranges, p.sections), groupStart: make([]int32, p.sections+1),
		byBegin: newKeyedRanges(n), byEnd: newKeyedRanges(n), extents: make([]extent, n),
	}
	centers := make([]int32, n)
	ends := make([]int32, p.sections+1) // by end: how many lives end later, and so where those that end here come
	for i, l := range p.ranges {
		centers[i] = center(l.begin, l.end)
		g.extents[i] = extent{l.begin, l.end, l.size, l.align}
		g.groupStart[centers[i]+1]++
		ends[l.end-1]++
	}
	for t := range p.sections {
		g.groupStart[t+1] += g.groupStart[t]
	}
	for t := p.sections - 1; t >= 0; t-- {
		ends[t] += ends[t+1]
	}
	late := make([]int32, n) // lives, those that end late first
	for i, l := range p.ranges {
		late[ends[l.end]] = int32(i)
		ends[l.end]++
	}
	next, nextEnd := slices.Clone(g.groupStart), slices.Clone(g.groupStart)
	for i := range p.ranges {
		byBegin, byEnd := int32(i), late[i]
		at, atEnd := &next[centers[byBegin]], &nextEnd[centers[byEnd]]
		g.byBegin.put(*at, byBegin, p.ranges[byBegin].begin)
		g.byEnd.put(*atEnd, byEnd, -p.ranges[byEnd].end)
		*at++
		*atEnd++
	}
	return g
}

// center is the section of [l, r) that the highest power of two divides; 0 counts as divided by none.
func center(l, r int32) int32 {
	x, y := uint32(l), uint32(r-1)
	if x == y {
		return r - 1
	}
	return int32(y >> (bits.Len32(x^y) - 1) << (bits.Len32(x^y) - 1))
}

// advance places lives until the lowest stretch is at level.
func (s *skyline) buildTo(level int64) {
	for s.placed < len(s.ranges) && s.queue.more() && s.queue.first().height < level {
		stop.Poll(s.ctx)
		next := s.queue.take()
		a := next.begin
		if s.stretchHeight[a] != next.height {
			continue
		}
		b := s.stretchEnd[a]
		wall := s.lowerWall(a, b)
		roofed := false // by a block that a life may reach
		if len(s.fixed) > 0 {
			if s.passFixed(a, b) {
				continue
			}
			reach := min(next.height, infinity-s.maxSize-s.maxAlign) + s.maxSize + s.maxAlign
			roof := s.lowestFixed(a, b, next.height, max(wall, reach))
			wall, roofed = min(wall, roof), roof < reach
		}
		if !s.hasRangeWithin(a, b) {
			s.fill(a, a, b, wall)
			continue
		}
		left, among := s.remaining.maxOf(a, b)
		t := s.remaining.find(among)
		i := s.choose(a, b, t, left, roofed)
		if i < 0 {
			s.fill(a, t, t+1, wall)
			continue
		}
		if s.worthFilling(next.height, wall, left) {
			s.fill(a, a, b, wall)
			continue
		}
		l := s.extents[i]
		at := alignUp(next.height, l.align)
		s.addWaste(l.begin, l.end, next.height, at)
		s.offsets[i] = at
		s.top = max(s.top, at+l.size)
		s.remaining.add(l.begin, l.end, -l.size)
		s.endByBegin.set(s.byBegin.position[i], gone)
		s.beginByEnd.set(s.byEnd.position[i], gone)
		s.endOf.set(i, gone)
		s.pending[center(l.begin, l.end)]--
		s.raise(a, l.begin, l.end, at+l.size)
		s.placed++
	}
}

// even is whether a valley is better filled up to its lower wall than used, as the two are nearly even: lives can then
// lie across both. It is if that wastes no more than the route's ease of what the fullest section of the valley, with so
// much left, could waste on a life as large as those that may be next, were it to waste the same on every byte to come.
func (s *skyline) worthFilling(height, wall, left int64) bool {
	if s.params.fillBias == 0 || wall == infinity {
		return false
	}
	sum := int64(0)
	for _, f := range s.candidates {
		sum += s.extents[f.index].size
	}
	size := s.params.fillBias * float64(sum) / float64(len(s.candidates))
	above := float64(s.ceiling - height)
	return float64(wall-height)*above < size*(above-float64(left))
}

// walls is how high the walls of the valley [a, b) are.
func (s *skyline) wallHeights(a, b int32) (before, behind int64) {
	before, behind = infinity, infinity
	if s.stretchBefore[a] >= 0 {
		before = s.stretchHeight[s.stretchBefore[a]]
	}
	if b < s.sections {
		behind = s.stretchHeight[b]
	}
	return before, behind
}

// wall is the height of the lower one.
func (s *skyline) lowerWall(a, b int32) int64 {
	before, behind := s.wallHeights(a, b)
	return min(before, behind)
}

// give brings sections [l, r) of the stretch that begins with a to a height, with nothing below it.
func (s *skyline) fill(a, l, r int32, height int64) {
	s.addWaste(l, r, s.stretchHeight[a], height)
	s.raise(a, l, r, height)
}

// lose notes that nothing comes to lie between two heights in sections [l, r), those of them in which something is to come.
func (s *skyline) addWaste(l, r int32, from, to int64) {
	if from == to {
		return
	}
	sure := s.projected[l:r]
	for t, height := range sure {
		if height > from {
			sure[t] = height + to - from
		}
	}
}

// raise brings sections [l, r) of the stretch that begins with a to a height.
func (s *skyline) raise(a, l, r int32, height int64) {
	b, old, before := s.stretchEnd[a], s.stretchHeight[a], s.stretchBefore[a]
	begin, end := l, r
	if l > a {
		s.stretchEnd[a] = l
		s.queue.push(stretch{old, a})
		before = a
	} else if before >= 0 && s.stretchHeight[before] == height {
		begin = before
		before = s.stretchBefore[begin]
		s.stretchHeight[a] = -1
	}
	if r < b {
		s.stretchHeight[r], s.stretchEnd[r] = old, b
		s.queue.push(stretch{old, r})
		if b < s.sections {
			s.stretchBefore[b] = r
		}
	} else if b < s.sections && s.stretchHeight[b] == height {
		end = s.stretchEnd[b]
		s.stretchHeight[b] = -1
	}
	if begin == l { // else it has its turn already
		s.queue.push(stretch{height, begin})
	}
	s.stretchHeight[begin], s.stretchEnd[begin], s.stretchBefore[begin] = height, end, before
	if end < s.sections {
		s.stretchBefore[end] = begin
	}
}

// holds is whether a life to be placed lies within [a, b).
func (s *skyline) hasRangeWithin(a, b int32) bool {
	return s.endOf.firstAtMost(s.firstByBegin[a], s.firstByBegin[b], b) >= 0
}

// covering adds to fits lives to be placed that lie within [a, b) and cover section t, up to so many of each group. Their
// centers, in binary, are t, or t without some of its lowest ones, or the next above t with some of its lowest noughts made ones.
func (s *skyline) covering(a, b, t int32, most int, fits []int32) []int32 {
	for m := t & (t - 1); m > 0 && m >= a; m &= m - 1 {
		if s.pending[m] > 0 { // the ends in (t, b], with a begin that is not before a
			fits = s.coveringInGroup(m, &s.byEnd, -b, -t-1, &s.beginByEnd, -a, most, fits)
		}
	}
	for m, filled := t, t; m < b; m, filled = filled+1, filled|(filled+1) {
		if s.pending[m] > 0 { // the begins in [a, t], with an end that is not behind b
			fits = s.coveringInGroup(m, &s.byBegin, a, t, &s.endByBegin, b, most, fits)
		}
	}
	return fits
}

// ofGroup adds to fits lives of a group whose keys in an order are in [low, high] and whose other ends are at most at limit.
func (s *skyline) coveringInGroup(m int32, in *keyedRanges, low, high int32, others *minTree, limit int32, most int, fits []int32) []int32 {
	to := s.groupStart[m+1]
	for from := firstAbove(in.keys, s.groupStart[m], to, low-1); from >= 0 && from < to; {
		end := min(from|(fan-1)+1, to)
		fits = slices.Grow(fits, fan)
		room := (*[fan]int32)(fits[len(fits):][:fan])
		n, more := selectEnding(room, in.indices[from:end], in.keys[from:end], others.min[from:end], high, limit)
		if n >= most || !more {
			return fits[:len(fits)+min(n, most)]
		}
		fits = fits[:len(fits)+n]
		most -= n
		from = others.firstAtMost(end, to, limit)
	}
	return fits
}

// fitting puts into room those of up to fan lives with keys up to high whose other ends are at most at limit: how many they are,
// and whether keys went no higher. Which they are is anyone's guess, and a branch would be guessed wrong.
func selectEnding(room *[fan]int32, lives, keys, ends []int32, high, limit int32) (n int, more bool) {
	lives, ends = lives[:len(keys)], ends[:len(keys)]
	for i, key := range keys {
		if key > high {
			return n, false
		}
		room[n&(fan-1)] = lives[i]
		fits := 0
		if ends[i] <= limit {
			fits = 1
		}
		n += fits
	}
	return n, true
}

// after is the first position in [from, to) of rising keys with one above x, or to.
func firstAbove(keys []int32, from, to, x int32) int32 {
	if from == to || keys[from] > x {
		return from
	}
	if keys[to-1] <= x {
		return to
	}
	for n := to - from; n > 1; { // what is sought is in (from, from+n]
		half := n / 2
		if keys[from+half] <= x {
			from += half
		}
		n -= half
	}
	return from + 1
}

// fit is a life that may be placed next, and what it wastes.
type candidate struct {
	index int32
	waste float64
}

// choose is the life to put into the valley [a, b) at section t, which has the most left to come, or -1 if none fits. A block may be
// in its way where the valley is roofed.
func (s *skyline) choose(a, b, t int32, left int64, roofed bool) int32 {
	h := s.stretchHeight[a]
	if roofed {
		s.found = s.covering(a, b, t, candidatesNearFixed, s.found[:0])
		s.found = s.dropBlocked(s.found, h)
	} else {
		s.found = s.covering(a, b, t, s.params.candidates, s.found[:0])
	}
	if len(s.found) == 0 {
		return -1
	}
	before, behind := s.wallHeights(a, b)
	s.rate(a, b, min(before, infinity/2)-h, min(behind, infinity/2)-h)
	if roofed {
		for k := range s.candidates {
			f := &s.candidates[k]
			f.waste += s.gapWaste(s.ranges[f.index], h)
		}
	}
	best, least := int32(-1), int64(math.MaxInt64)
	for k := range min(len(s.candidates), shortlist) {
		f := &s.candidates[k]
		for j := k + 1; j < len(s.candidates); j++ {
			if s.better(&s.candidates[j], f) {
				s.candidates[j], *f = *f, s.candidates[j]
			}
		}
		l := s.extents[f.index]
		end := alignUp(h, l.align) + l.size
		if end+left <= s.aim {
			return f.index
		}
		over := max(0, s.overflow(a, l.begin, min(before, end)), s.overflow(l.end, b, min(behind, end)))
		if over < least {
			best, least = f.index, over
		}
		if least == 0 {
			break
		}
	}
	return best
}

// better is whether x is to be placed rather than y.
func (s *skyline) better(x, y *candidate) bool {
	return x.waste < y.waste || x.waste == y.waste && s.winsTie(x.index, y.index)
}

// longer is whether life i is to be placed rather than j, which wastes the same.
func (s *skyline) winsTie(i, j int32) bool {
	return cmp.Or(bySpan(s.ranges[i], s.ranges[j]), cmp.Compare(i, j)) < 0
}

// weigh brings weight up to date.
func (s *skyline) updateWeights() {
	sums, focus, ceiling, sum := s.weightBefore[1:], s.params.slackScale, float64(s.ceiling), 0.0
	for t, height := range s.projected {
		one := 1.0
		if focus > 0 {
			one = focus / (focus + float64(max(0, s.ceiling-height))/ceiling)
		}
		sum += one
		sums[t] = sum
	}
}

// waste makes fits of the rest. A life wastes so many bytes, for each that it has itself, as it would leave beside it up to its
// end or the walls, which are so much higher than the valley [a, b), if nothing came to lie there; less what its length is
// worth. All products are rounded, so that no machine joins them with sums to its own numbers.
func (s *skyline) rate(a, b int32, lower, upper int64) {
	s.candidates = slices.Grow(s.candidates[:0], len(s.found))[:len(s.found)]
	w, spans, fits, worth, height := s.weightBefore, s.extents, s.candidates, s.params.durationValue, s.stretchHeight[a]
	before, behind := w[a], w[b]
	width := behind - before
	for k, i := range s.found {
		l := spans[i]
		begin, end := w[l.begin], w[l.end]
		beside := float64((begin-before)*float64(min(lower, l.size))) + float64((behind-end)*float64(min(upper, l.size)))
		length := end - begin
		waste := beside/(length*float64(l.size)) - float64(worth*length)/width
		if s.maxAlign > 1 {
			waste += s.alignWaste(l, height)
		}
		fits[k] = candidate{i, waste}
	}
}

// padding is what alignment wastes, for each byte that a life has, if it is put on a height: below it, which is lost for sure,
// and above it, if the coarsest alignment comes next.
func (s *skyline) alignWaste(l extent, height int64) float64 {
	at := alignUp(height, l.align)
	end := at + l.size
	return (float64(belowWeight*float64(at-height)) + float64(alignUp(end, s.maxAlign)-end)) / float64(l.size)
}

// over is how far the section of [a, b) with the most to come would grow too high if what lies there had to wait for
// height, or 0 if some life fits there.
func (s *skyline) overflow(a, b int32, height int64) int64 {
	if a == b {
		return 0
	}
	left, among := s.remaining.maxOf(a, b)
	if left == 0 || height+left <= s.aim {
		return 0
	}
	if loss := s.overflowAt(a, b, s.remaining.find(among), left, height); loss > 0 || b-a == 1 {
		return loss
	}
	for _, u := range [...]int32{a, b - 1} {
		if left, _ := s.remaining.maxOf(u, u+1); left > 0 {
			if loss := s.overflowAt(a, b, u, left, height); loss > 0 {
				return loss
			}
		}
	}
	return 0
}

// loss is over for one section of [a, b), t, with so much to come.
func (s *skyline) overflowAt(a, b, t int32, left, height int64) int64 {
	if height+left <= s.aim {
		return 0
	}
	if s.found = s.covering(a, b, t, 1, s.found[:0]); len(s.found) > 0 {
		return 0
	}
	return height + left - s.aim
}
