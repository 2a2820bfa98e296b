package pack

import (
	"cmp"

	"math/bits"
	"slices"
)

// order places the lives of a part one after another, each in a gap that suits it.
type greedyOrder struct {
	name string
	less func(a, b liveRange) int
	fit  func(s *occupancy, l liveRange, floor int64) (offset int64)
}

// rows are the orders, from the top. Those that do best on training steps come first, each next to one unlike it.
var greedyOrders = []greedyOrder{
	{"size, first fit", bySize, firstFit},
	{"span, best fit", bySpan, bestFit},
	{"area, first fit", byArea, firstFit},
	{"start, first fit", byStartDuration, firstFit},
	{"size, best fit", bySize, bestFit},
	{"start, best fit", byStartDuration, bestFit},
	{"span, first fit", bySpan, firstFit},
	{"area, best fit", byArea, bestFit},
}

// Looks at the space, for each life.
const (
	looksOfFew  = 2048 // few lives: no further order is begun after so many
	looksOfMany = 256  // many lives: the first order gives up after so many, or earlier if it is slow to fill what there is
)

// orders is the lowest of what the orders make of p. Many lives get the first one only, and only up to their limit: a skyline
// is lower than any order that is not.
func tryOrders(p *part, t target) (offsets []int64, top int64) {
	many, rows := len(p.ranges) > fewRanges, greedyOrders
	s := newOccupancyForAll(p, looksOfFew*len(p.ranges))
	top = p.top
	if many && t.bound <= maxSummed {
		rows, top = rows[:1], min(top, t.limit(p)+1)
		s.maxLooks = looksOfMany * len(p.ranges)
		all := p.area()
		// What does not fill a quarter with a 64th of the looks, or three quarters with an eighth, does not come to an end.
		s.tooSlow = func() bool {
			return s.looks > s.maxLooks/64 && s.area < all/4 || s.looks > s.maxLooks/8 && s.area < all*3/4
		}
	}
	scratch := make([]int64, len(p.ranges))
	for _, o := range rows {
		if top <= t.enough || s.looks > s.maxLooks {
			break
		}
		if end, ok := o.place(p, s, scratch, top); ok {
			if offsets == nil {
				offsets = make([]int64, len(p.ranges))
			}
			offsets, scratch, top = scratch, offsets, end
		}
	}
	return offsets, top
}

// place packs p into the empty space s and fills offsets. It gives up when a life comes to end at or above limit, or when
// the looks of many lives are used up.
func (o greedyOrder) place(p *part, s *occupancy, offsets []int64, limit int64) (top int64, ok bool) {
	in := make([]int32, len(p.ranges))
	for i := range in {
		in[i] = int32(i)
	}
	slices.SortFunc(in, func(i, j int32) int {
		a, b := p.ranges[i], p.ranges[j]
		return cmp.Or(cmp.Compare(min(b.fixed, 0), min(a.fixed, 0)), o.less(a, b), cmp.Compare(i, j))
	})
	s.reset()
	for _, i := range in {
		l := p.ranges[i]
		offset := l.fixed
		if offset == notFixed {
			s.query(l)
			offset = o.fit(s, l, p.floor)
		}
		end := offset + l.size
		if end >= limit || len(in) > fewRanges && (s.looks > s.maxLooks || s.tooSlow != nil && s.tooSlow()) {
			return 0, false
		}
		s.occupy(l, offset)
		offsets[i], top = offset, max(top, end)
	}
	return top, true
}

// bySize puts large lives before small ones, long before short where they are as large.
func bySize(a, b liveRange) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.duration, a.duration))
}

// byArea puts lives that are large for long before others.
func byArea(a, b liveRange) int {
	aHigh, aLow := bits.Mul64(uint64(a.size), uint64(a.duration))
	bHigh, bLow := bits.Mul64(uint64(b.size), uint64(b.duration))
	return cmp.Or(cmp.Compare(bHigh, aHigh), cmp.Compare(bLow, aLow))
}

// bySpan puts long lives before short ones, large before small where they are as long.
func bySpan(a, b liveRange) int {
	return cmp.Or(cmp.Compare(b.duration, a.duration), cmp.Compare(b.size, a.size))
}

// byStart puts early lives before late ones, as an allocator that runs along would meet them; large before small where
// they are as early.
func byStart(a, b liveRange) int {
	return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.size, a.size))
}

// byTurn is byStart, and puts long lives before short ones where they are as early and as large.
func byStartDuration(a, b liveRange) int {
	return cmp.Or(byStart(a, b), cmp.Compare(b.duration, a.duration))
}

// byEnd puts late lives before early ones; large before small where they are as late.
func byEnd(a, b liveRange) int {
	return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(b.size, a.size))
}

// firstFit is the lowest gap that holds l.
func firstFit(s *occupancy, l liveRange, floor int64) int64 {
	offset, _ := s.nextFree(floor, l.size, l.align)
	return offset
}

// bestFit is the gap that l fills best, the lowest of equals; above everything only if there is no gap.
func bestFit(s *occupancy, l liveRange, floor int64) int64 {
	best, least := int64(-1), int64(infinity)
	for from := floor; ; {
		offset, end := s.nextFree(from, l.size, l.align)
		if end == infinity && best >= 0 {
			return best
		}
		if spare := end - offset - l.size; best < 0 || spare < least {
			best, least = offset, spare
		}
		if end == infinity || least == 0 {
			return best
		}
		from = end
	}
}
