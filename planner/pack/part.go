package pack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// part is a stretch of time that can be packed alone: lives that share nothing with any other part but the bytes below
// floor, which are taken.
type part struct {
	ranges      []liveRange // sections count from the part's own first
	sections    int32
	floor       int64
	offsets     []int64         // one a life: the best packing so far
	top         int64           // the end of its highest life
	by          string          // the pass that found it
	searchedTop int64           // the top that a search left; 0 if none was
	bound       int64           // proven: no packing ends below; 0 if nothing was
	ctx         context.Context // polled while it is packed
	copies      [][]liveRange   // the lives of parts that are the same at another time, and are packed as it is
}

// cuts is how often divide looks again for lives that can go to the bottom after a cut. Each level reads every life
// once; nested lives, of which a training step has thousands, would make that many levels.
const maxDivisions = 8

// divide places the lives that meet all others, in offsets, and cuts what remains into parts at the sections where
// nothing is alive. Neither costs height: the first take up all of the time anyway, and parts have their addresses to
// themselves. What is left of a part can be divided again.
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

// area is the bytes of all lives, times the sections they are alive in.
func (p *part) area() (sum float64) {
	for _, l := range p.ranges {
		sum += float64(float64(l.size) * float64(l.end-l.begin))
	}
	return sum
}

// settle puts the lives that meet every other life of p on its floor, and raises the floor over them. Those with the
// strictest alignment come first, where they leave the fewest bytes between each other. Where lives are fixed, all stay; of few lives
// also those that would leave the floor where some alignment does not want it.
func (p *part) placeThroughout(offsets []int64) {
	if p.hasFixed() {
		return
	}
	firstEnd, lastBegin := p.sections, int32(0)
	var aligns []int64
	for _, l := range p.ranges {
		firstEnd, lastBegin = min(firstEnd, l.end), max(lastBegin, l.begin)
		if len(p.ranges) <= fewRanges && !slices.Contains(aligns, l.align) {
			aligns = append(aligns, l.align)
		}
	}
	var low []liveRange
	rest := p.ranges[:0] // the lives are nobody else's
	for _, l := range p.ranges {
		odd := slices.ContainsFunc(aligns, func(a int64) bool { return l.size%a != 0 })
		if l.begin < firstEnd && lastBegin < l.end && (!odd || len(p.ranges) == 1) {
			low = append(low, l)
		} else {
			rest = append(rest, l)
		}
	}
	slices.SortStableFunc(low, func(a, b liveRange) int { return -cmp.Compare(a.align, b.align) })
	for _, l := range low {
		offsets[l.buffer] = alignUp(p.floor, l.align)
		p.floor = offsets[l.buffer] + l.size
	}
	p.ranges = rest
}

// cut is the parts of p that no life joins. A part without lives is none.
func (p *part) splitAtGaps() (parts []*part) {
	for begin := 0; begin < len(p.ranges); {
		first, end := p.ranges[begin].begin, p.ranges[begin].end
		n := begin + 1
		for ; n < len(p.ranges) && p.ranges[n].begin < end; n++ {
			end = max(end, p.ranges[n].end)
		}
		q := &part{ranges: p.ranges[begin:n:n], sections: end - first, floor: p.floor, top: math.MaxInt64, ctx: p.ctx}
		for i := range q.ranges {
			q.ranges[i].begin -= first
			q.ranges[i].end -= first
		}
		parts, begin = append(parts, q), n
	}
	return parts
}

// distinct is parts without those that another one before them is the same as, but for the time: that has their lives, too, so
// that what comes again and again is packed once.
func distinct(parts []*part) (some []*part) {
	type sum struct {
		lives    int
		sections int32
		floor    int64
		mixed    uint64
	}
	known := map[sum][]*part{}
	for _, p := range parts {
		x := sum{len(p.ranges), p.sections, p.floor, 0}
		for _, l := range p.ranges {
			for _, n := range [...]int64{int64(l.begin), int64(l.end), l.size, l.align} {
				x.mixed = (x.mixed + uint64(n)) * 0x9e3779b97f4a7c15
			}
		}
		if k := slices.IndexFunc(known[x], p.sameAs); k >= 0 {
			first := known[x][k]
			first.copies = append(first.copies, p.ranges)
			continue
		}
		known[x] = append(known[x], p)
		some = append(some, p)
	}
	return some
}

// repeats is whether p is the same as q but for the time.
func (p *part) sameAs(q *part) bool {
	return p.sections == q.sections && p.floor == q.floor && slices.EqualFunc(p.ranges, q.ranges, func(a, b liveRange) bool {
		return a.begin == b.begin && a.end == b.end && a.duration == b.duration && a.size == b.size && a.align == b.align && a.fixed == b.fixed
	})
}

// fixed is whether a life of p is.
func (p *part) hasFixed() bool {
	return slices.ContainsFunc(p.ranges, func(l liveRange) bool { return l.fixed != notFixed })
}

// topOf is the end of the highest of lives that stand at offsets.
func topOf(lives []liveRange, offsets []int64) (top int64) {
	for i, l := range lives {
		top = max(top, offsets[i]+l.size)
	}
	return top
}

// check panics if the packing of p is none; [Check] does the work.
func (p *part) check() {
	var q Problem
	for i, l := range p.ranges {
		q.Buffers = append(q.Buffers, Buffer{First: l.begin, Last: l.end, Size: l.size, Align: l.align})
		if l.fixed != notFixed {
			q.Fixed = append(q.Fixed, Fixed{i, l.fixed})
		}
		if p.offsets[i] < p.floor {
			panic(fmt.Sprintf("pack: by %s, life %d stands at %d, below the floor %d", p.by, i, p.offsets[i], p.floor))
		}
	}
	if err := Check(q, Solution{Offsets: p.offsets, Height: p.top}); err != nil {
		panic(fmt.Sprintf("pack: by %s: %v", p.by, err))
	}
}
