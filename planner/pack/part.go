package pack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// maxDivisions is how often divide looks again, after a split, for ranges that can go to the bottom. Each time reads every
// range once; in the thousands of nested ranges of a training step it could go on for as many times.
const maxDivisions = 8

// part is a stretch of time that can be packed on its own: ranges that share with other parts only the bytes below floor,
// which are taken.
type part struct {
	ranges      []liveRange // sections count from the first of the part
	sections    int32
	floor       int64
	offsets     []int64         // by range: the lowest packing so far
	top         int64           // of that packing
	by          string          // the pass that found it
	bound       int64           // proven: no packing of the part is lower; 0: nothing is proven
	searchedTop int64           // the top that the last search left; 0: there was none
	copies      [][]liveRange   // the ranges of equal parts at other times, which get the same offsets
	ctx         context.Context // polled while the part is packed
}

// divide places the ranges that overlap all others, writes their offsets, and splits the rest into parts at sections where
// nothing is alive. Neither raises the height: the first take up their bytes at every time anyway, and parts have all
// addresses to themselves. Each part is divided again.
func divide(p *part, offsets []int64) []*part {
	todo := []*part{p}
	for range maxDivisions {
		var next []*part
		for _, p := range todo {
			p.placeThroughout(offsets)
			next = append(next, p.splitAtGaps()...)
		}
		if len(next) == len(todo) {
			return next
		}
		todo = next
	}
	return todo
}

// placeThroughout puts the ranges that overlap every other range of p on its floor, coarse alignments first so that they
// leave the fewest bytes between them, and raises the floor above them. In a part of few ranges, it leaves out ranges whose size is not a multiple of all alignments: those above would lose bytes.
func (p *part) placeThroughout(offsets []int64) {
	firstEnd, lastBegin := p.sections, int32(0)
	var aligns []int64
	for _, r := range p.ranges {
		firstEnd, lastBegin = min(firstEnd, r.end), max(lastBegin, r.begin)
		if len(p.ranges) <= fewRanges && !slices.Contains(aligns, r.align) {
			aligns = append(aligns, r.align)
		}
	}
	var throughout []liveRange
	rest := p.ranges[:0] // p owns its ranges
	for _, r := range p.ranges {
		odd := slices.ContainsFunc(aligns, func(a int64) bool { return r.size%a != 0 })
		if r.begin < firstEnd && lastBegin < r.end && (!odd || len(p.ranges) == 1) {
			throughout = append(throughout, r)
		} else {
			rest = append(rest, r)
		}
	}
	slices.SortStableFunc(throughout, func(a, b liveRange) int { return -cmp.Compare(a.align, b.align) })
	for _, r := range throughout {
		offsets[r.buffer] = alignUp(p.floor, r.align)
		p.floor = offsets[r.buffer] + r.size
	}
	p.ranges = rest
}

// splitAtGaps is p split where no range is alive; none without ranges.
func (p *part) splitAtGaps() (parts []*part) {
	for from := 0; from < len(p.ranges); {
		begin, end := p.ranges[from].begin, p.ranges[from].end
		to := from + 1
		for ; to < len(p.ranges) && p.ranges[to].begin < end; to++ {
			end = max(end, p.ranges[to].end)
		}
		q := &part{ranges: p.ranges[from:to:to], sections: end - begin, floor: p.floor, top: math.MaxInt64, ctx: p.ctx}
		for i := range q.ranges {
			q.ranges[i].begin -= begin
			q.ranges[i].end -= begin
		}
		parts, from = append(parts, q), to
	}
	return parts
}

// distinct is parts without those that equal one before them; that one gets their ranges as copies.
func distinct(parts []*part) (some []*part) {
	type hash struct {
		ranges   int
		sections int32
		floor    int64
		mixed    uint64
	}
	known := map[hash][]*part{}
	for _, p := range parts {
		h := hash{len(p.ranges), p.sections, p.floor, 0}
		for _, r := range p.ranges {
			for _, n := range [...]int64{int64(r.begin), int64(r.end), r.size, r.align} {
				h.mixed = (h.mixed + uint64(n)) * 0x9e3779b97f4a7c15
			}
		}
		if k := slices.IndexFunc(known[h], p.equal); k >= 0 {
			first := known[h][k]
			first.copies = append(first.copies, p.ranges)
			continue
		}
		known[h] = append(known[h], p)
		some = append(some, p)
	}
	return some
}

// equal reports whether p and q differ only in when they are.
func (p *part) equal(q *part) bool {
	return p.sections == q.sections && p.floor == q.floor && slices.EqualFunc(p.ranges, q.ranges, func(a, b liveRange) bool {
		a.buffer = b.buffer
		return a == b
	})
}

// area is the sizes of all ranges times the sections they are alive in.
func (p *part) area() (sum float64) {
	for _, r := range p.ranges {
		sum += float64(float64(r.size) * float64(r.end-r.begin))
	}
	return sum
}

// topOf is the top of the highest of ranges at offsets.
func topOf(ranges []liveRange, offsets []int64) (top int64) {
	for i, r := range ranges {
		top = max(top, offsets[i]+r.size)
	}
	return top
}

// check panics if the packing of p is not valid according to [Check].
func (p *part) check() {
	var q Problem
	for i, r := range p.ranges {
		q.Buffers = append(q.Buffers, Buffer{First: r.begin, Last: r.end, Size: r.size, Align: r.align})
		if p.offsets[i] < p.floor {
			panic(fmt.Sprintf("pack: by %s, range %d is at %d, below the floor %d", p.by, i, p.offsets[i], p.floor))
		}
	}
	if err := Check(q, Solution{Offsets: p.offsets, Height: p.top}); err != nil {
		panic(fmt.Sprintf("pack: by %s: %v", p.by, err))
	}
}
