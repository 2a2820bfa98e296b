package pack

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	looksOfFew  = 2048 // per range: after so many, no further order is begun for few ranges; later ones are seldom the lowest
	looksOfMany = 256  // per range: after so many, many ranges are given up; a skyline packs them sooner
)

// greedyOrder places the ranges of a part one after another, each at the offset that fit finds.
type greedyOrder struct {
	name  string
	order func(a, b liveRange) int
	fit   func(o *occupancy, r liveRange, floor int64) (offset int64)
}

// greedyOrders are tried from the top. Those that are the lowest on most training steps come first, each next to one that is
// unlike it.
var greedyOrders = []greedyOrder{
	{"size, first fit", bySize, firstFit},
	{"duration, best fit", byDuration, bestFit},
	{"area, first fit", byArea, firstFit},
	{"begin, first fit", byBeginDuration, firstFit},
	{"size, best fit", bySize, bestFit},
	{"begin, best fit", byBeginDuration, bestFit},
	{"duration, first fit", byDuration, firstFit},
	{"area, best fit", byArea, bestFit},
}

// tryOrders returns the lowest of the packings of all orders. Many ranges are placed in the first order only, and given up if
// that does not end within their limit: a skyline is lower then.
func tryOrders(p *part, t target) (offsets []int64, top int64) {
	many, tried := len(p.ranges) > fewRanges, greedyOrders
	o := newOccupancy(p, looksOfFew*len(p.ranges))
	o.expect(p.ranges...)
	top = p.top
	if many && sumsFit(p, t) {
		tried, top = tried[:1], min(top, t.limit(p)+1)
		o.maxLooks = looksOfMany * len(p.ranges)
		area := p.area()
		// What has not placed 1/4 of the area after 1/64 of the looks, or 3/4 after 1/8, does not get to the end.
		o.tooSlow = func() bool {
			return o.looks > o.maxLooks/64 && o.area < area/4 || o.looks > o.maxLooks/8 && o.area < area*3/4
		}
	}
	scratch := make([]int64, len(p.ranges))
	for _, g := range tried {
		if top <= t.enough || o.looks > o.maxLooks {
			break
		}
		if lower, ok := g.place(p, o, scratch, top); ok {
			if offsets == nil {
				offsets = make([]int64, len(p.ranges))
			}
			offsets, scratch, top = scratch, offsets, lower
		}
	}
	return offsets, top
}

// place packs p into an occupancy, which it empties first, and fills offsets. It gives up when a range would end at limit or
// above, or when many ranges take too long.
func (g greedyOrder) place(p *part, o *occupancy, offsets []int64, limit int64) (top int64, ok bool) {
	indices := indicesUpTo(len(p.ranges))
	slices.SortFunc(indices, func(i, j int32) int {
		return cmp.Or(g.order(p.ranges[i], p.ranges[j]), cmp.Compare(i, j))
	})
	o.reset()
	for _, i := range indices {
		r := p.ranges[i]
		o.query(r)
		offset := g.fit(o, r, p.floor)
		if offset+r.size >= limit || len(indices) > fewRanges && (o.looks > o.maxLooks || o.tooSlow != nil && o.tooSlow()) {
			return 0, false
		}
		o.occupy(r, offset)
		offsets[i], top = offset, max(top, offset+r.size)
	}
	return top, true
}

// bySize puts large ranges first, long before short where sizes are equal.
func bySize(a, b liveRange) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.duration, a.duration))
}

// byArea puts ranges first whose size times duration is large.
func byArea(a, b liveRange) int {
	aHigh, aLow := bits.Mul64(uint64(a.size), uint64(a.duration))
	bHigh, bLow := bits.Mul64(uint64(b.size), uint64(b.duration))
	return cmp.Or(cmp.Compare(bHigh, aHigh), cmp.Compare(bLow, aLow))
}

// byDuration puts long ranges first, large before small where durations are equal.
func byDuration(a, b liveRange) int {
	return cmp.Or(cmp.Compare(b.duration, a.duration), cmp.Compare(b.size, a.size))
}

// byBegin puts early ranges first, as an allocator at run time would meet them, large before small where they begin together.
func byBegin(a, b liveRange) int {
	return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.size, a.size))
}

// byBeginDuration is byBegin, and puts long ranges before short ones that equal them.
func byBeginDuration(a, b liveRange) int {
	return cmp.Or(byBegin(a, b), cmp.Compare(b.duration, a.duration))
}

// byEnd puts ranges that end late first, large before small where they end together.
func byEnd(a, b liveRange) int {
	return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(b.size, a.size))
}

// firstFit is the lowest offset at which r fits.
func firstFit(o *occupancy, r liveRange, floor int64) int64 {
	offset, _ := o.nextFree(floor, r.size, r.align)
	return offset
}

// bestFit is the offset in the gap of which r leaves the least, the lowest of equals; above everything only if r fits in no gap.
func bestFit(o *occupancy, r liveRange, floor int64) int64 {
	best, least := int64(-1), int64(infinity)
	for from := floor; ; {
		offset, end := o.nextFree(from, r.size, r.align)
		if end == infinity && best >= 0 {
			return best
		}
		if left := end - offset - r.size; best < 0 || left < least {
			best, least = offset, left
		}
		if end == infinity || least == 0 {
			return best
		}
		from = end
	}
}
