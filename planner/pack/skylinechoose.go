package pack

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	shortlist   = 16 // of the candidates, those that waste least are checked for overflow; more of them seldom change the choice
	belowWeight = 3  // how much more bytes lost to alignment below a range weigh than those that may be lost above it
)

// groups are the ranges of a part by center: the section of a range that the highest power of two divides. All ranges of a
// group overlap in its center. So which of them lie within a valley and cover a given section is a question about one end
// only, once it is known on which side of the center the section is.
type groups struct {
	firstByBegin []int32 // by section: the first range that begins there or later
	groupStart   []int32 // by center: the first position of its group, in both orders below
	byBegin      keyedRanges
	byEnd        keyedRanges
	extents      []extent // by range
}

// keyedRanges is the ranges of all groups, each group sorted by a key: the begin, or minus the end.
type keyedRanges struct {
	indices  []int32 // by position
	keys     []int32 // by position
	position []int32 // by range
}

func newKeyedRanges(n int) keyedRanges {
	return keyedRanges{make([]int32, n), make([]int32, n), make([]int32, n)}
}

func (k *keyedRanges) put(position, i, key int32) {
	k.indices[position], k.keys[position], k.position[i] = i, key, position
}

// extent is what is read most often of a range, packed closely for the cache.
type extent struct {
	begin, end  int32
	size, align int64
}

// newGroups sorts by counting, in linear time: the ranges are sorted by begin, and byEnd is made of them sorted by end.
func newGroups(p *part) *groups {
	n := len(p.ranges)
	g := &groups{
		firstByBegin: firstByBegin(p.ranges, p.sections), groupStart: make([]int32, p.sections+1),
		byBegin: newKeyedRanges(n), byEnd: newKeyedRanges(n), extents: make([]extent, n),
	}
	centers := make([]int32, n)
	next := make([]int32, p.sections+1) // by end: how many ranges end later, which is where those that end there go
	for i, r := range p.ranges {
		centers[i] = center(r.begin, r.end)
		g.extents[i] = extent{r.begin, r.end, r.size, r.align}
		g.groupStart[centers[i]+1]++
		next[r.end-1]++
	}
	for t := range p.sections {
		g.groupStart[t+1] += g.groupStart[t]
	}
	for t := p.sections - 1; t >= 0; t-- {
		next[t] += next[t+1]
	}
	lateFirst := make([]int32, n)
	for i, r := range p.ranges {
		lateFirst[next[r.end]] = int32(i)
		next[r.end]++
	}
	nextByBegin, nextByEnd := slices.Clone(g.groupStart), slices.Clone(g.groupStart)
	for i, r := range p.ranges {
		position := &nextByBegin[centers[i]]
		g.byBegin.put(*position, int32(i), r.begin)
		*position++
	}
	for _, i := range lateFirst {
		position := &nextByEnd[centers[i]]
		g.byEnd.put(*position, i, -p.ranges[i].end)
		*position++
	}
	return g
}

// center is the section of [begin, end) that the highest power of two divides; 0 counts as divided by none.
func center(begin, end int32) int32 {
	x, y := uint32(begin), uint32(end-1)
	if x == y {
		return begin
	}
	low := bits.Len32(x^y) - 1 // the highest bit in which they differ
	return int32(y >> low << low)
}

// covering adds to found the ranges to be placed that lie within [begin, end) and cover a section, up to most of each group.
// The centers of ranges that cover section t are, in binary, t, t without some of its lowest ones, and the next number above t
// with some of its lowest zeros made ones: O(log sections) groups.
func (s *skyline) covering(begin, end, section int32, most int, found []int32) []int32 {
	for c := section & (section - 1); c > 0 && c >= begin; c &= c - 1 {
		if s.pending[c] > 0 { // ends in (section, end], with a begin that is not before begin
			found = s.coveringInGroup(c, &s.byEnd, -end, -section-1, &s.beginByEnd, -begin, most, found)
		}
	}
	for c, ones := section, section; c < end; c, ones = ones+1, ones|(ones+1) {
		if s.pending[c] > 0 { // begins in [begin, section], with an end that is not behind end
			found = s.coveringInGroup(c, &s.byBegin, begin, section, &s.endByBegin, end, most, found)
		}
	}
	return found
}

// coveringInGroup adds to found up to most ranges of a group whose keys are in [low, high] and whose other ends are limit or
// less.
func (s *skyline) coveringInGroup(c int32, by *keyedRanges, low, high int32, others *minTree, limit int32, most int,
	found []int32) []int32 {
	from, to := s.groupStart[c], s.groupStart[c+1]
	below, _ := slices.BinarySearch(by.keys[from:to], low)
	for k := others.firstAtMost(from+int32(below), to, limit); k >= 0 && by.keys[k] <= high; k = others.firstAtMost(k+1, to, limit) {
		found = append(found, by.indices[k])
		if most--; most == 0 {
			break
		}
	}
	return found
}

// candidate is a range that may be placed next, and what it wastes, per byte of its own.
type candidate struct {
	index int32
	waste float64
}

// choose returns the range to place into the valley [begin, end) at a section, which has the most bytes to be placed; -1 if
// none fits.
func (s *skyline) choose(begin, end, section int32, remaining int64) int32 {
	height := s.stretchHeight[begin]
	s.found = s.covering(begin, end, section, s.params.candidates, s.found[:0])
	if len(s.found) == 0 {
		return -1
	}
	before, after := s.wallHeights(begin, end)
	s.rate(begin, end, min(before, infinity/2)-height, min(after, infinity/2)-height)
	best, least := int32(-1), int64(infinity) // the range with the least overflow
	for k := range min(len(s.candidates), shortlist) {
		c := &s.candidates[k]
		for j := k + 1; j < len(s.candidates); j++ { // selection sort: the first mostly wins
			if s.better(&s.candidates[j], c) {
				s.candidates[j], *c = *c, s.candidates[j]
			}
		}
		r := s.extents[c.index]
		top := alignUp(height, r.align) + r.size
		if top+remaining <= s.aim {
			return c.index
		}
		overflow := max(0, s.overflow(begin, r.begin, min(before, top)), s.overflow(r.end, end, min(after, top)))
		if overflow < least {
			best, least = c.index, overflow
		}
		if least == 0 {
			break
		}
	}
	return best
}

// better reports whether x is to be placed rather than y.
func (s *skyline) better(x, y *candidate) bool {
	return x.waste < y.waste || x.waste == y.waste &&
		cmp.Or(byDuration(s.ranges[x.index], s.ranges[y.index]), cmp.Compare(x.index, y.index)) < 0
}

// updateWeights recomputes weightBefore: the less slack a section has, the more a byte of it weighs.
func (s *skyline) updateWeights() {
	sums, scale, ceiling, sum := s.weightBefore[1:], s.params.slackScale, float64(s.ceiling), 0.0
	for t, height := range s.projected {
		weight := 1.0
		if scale > 0 {
			weight = scale / (scale + float64(max(0, s.ceiling-height))/ceiling)
		}
		sum += weight
		sums[t] = sum
	}
}

// rate turns found into candidates. A range wastes the bytes of the valley [begin, end) beside it, up to its own top or the
// walls, which are so much above the valley; less what its duration is worth. Products are rounded, so that no machine fuses
// them with sums.
func (s *skyline) rate(begin, end int32, toBefore, toAfter int64) {
	s.candidates = slices.Grow(s.candidates[:0], len(s.found))[:len(s.found)]
	weights, extents, candidates := s.weightBefore, s.extents, s.candidates
	value, height := s.params.durationValue, s.stretchHeight[begin]
	first, last := weights[begin], weights[end]
	for k, i := range s.found {
		r := extents[i]
		from, to := weights[r.begin], weights[r.end]
		beside := float64((from-first)*float64(min(toBefore, r.size))) + float64((last-to)*float64(min(toAfter, r.size)))
		waste := beside/((to-from)*float64(r.size)) - float64(value*(to-from))/(last-first)
		if s.maxAlign > 1 {
			waste += s.alignWaste(r, height)
		}
		candidates[k] = candidate{i, waste}
	}
}

// alignWaste is the bytes that alignment costs a range at a height, per byte of its own: those below it are lost, those above
// it are if the coarsest alignment comes next.
func (s *skyline) alignWaste(r extent, height int64) float64 {
	offset := alignUp(height, r.align)
	top := offset + r.size
	return (float64(belowWeight*float64(offset-height)) + float64(alignUp(top, s.maxAlign)-top)) / float64(r.size)
}

// overflow is by how much [begin, end) would end above the aim if nothing could be placed there below height, judged by the
// section with the most bytes to be placed and by those at both ends; 0 if some range fits there.
func (s *skyline) overflow(begin, end int32, height int64) int64 {
	if begin == end {
		return 0
	}
	most, place := s.remaining.maxOf(begin, end)
	if most == 0 || height+most <= s.aim {
		return 0
	}
	if over := s.overflowAt(begin, end, s.remaining.find(place), most, height); over > 0 || end-begin == 1 {
		return over
	}
	for _, t := range [...]int32{begin, end - 1} {
		if most, _ := s.remaining.maxOf(t, t+1); most > 0 {
			if over := s.overflowAt(begin, end, t, most, height); over > 0 {
				return over
			}
		}
	}
	return 0
}

// overflowAt is overflow judged by one section, with so many bytes to be placed.
func (s *skyline) overflowAt(begin, end, section int32, remaining, height int64) int64 {
	if height+remaining <= s.aim {
		return 0
	}
	if s.found = s.covering(begin, end, section, 1, s.found[:0]); len(s.found) > 0 {
		return 0
	}
	return height + remaining - s.aim
}
