package pack

import (
	"cmp"
	"math"
	"slices"
)

// Many lives of which a few hundred are large are hard to pack from the bottom up: a skyline leaves holes that are too small for
// the next large one. The search packs the large ones alone closer than that, if it comes to an end, and most of the others then
// find room between them. Those that find none are what it should have known of: they join the large ones for another search,
// until all are in.

// split is a part of lives that are packed first, and the others, in the order in which they are filled in.
type sizeSplit struct {
	largePart    *part
	large, small []int32
}

// share says which lives wait until the others are packed: short ones of few bytes, as long as those of one section together
// have no more bytes than a share of the goal and a share of what the section has to spare.
type smallShare struct{ bound, slack float64 }

// shares are tried one after another. More waiting lives make the search quicker, and find room less often.
var smallShares = [...]smallShare{{0.03, 0.3}, {0.01, 0.15}, {0.05, 0.4}}

// tops are, without a capacity, the shares of the goal above it that are tried, each if the one before was reached.
var aimShares = [...]int64{50, 100, 250, 1000}

const (
	looksPerSearch    = 3 << 20  // of one search
	looksPerRange     = 12 << 10 // of all searches, for each life, without a capacity
	maxTotalLooks     = 24 << 20 // of all searches at most, without a capacity
	fillLooksPerRange = 500      // that filling in is counted as, for each life, and an ejection
	maxEjected        = 50       // lives without room, and one of so many of all lives, more than which are not worth an ejection
)

// largeFirst is p packed from its large lives: with a capacity within that, or not at all; without, as low as it comes.
func packLargeFirst(p *part, t target) (offsets []int64, top int64) {
	f := &largeFirst{part: p, bound: t.bound, capped: t.capped, looks: min(t.looks/2, maxTotalLooks)}
	if !t.quick {
		f.looks = min(f.looks, looksPerRange*len(p.ranges))
	}
	limit := t.limit(p)
	top = p.top
	for _, share := range aimShares {
		aim := max(t.bound+t.bound/share, limit)
		if t.capped {
			aim = limit
		} else if len(p.ranges) > fewRanges {
			aim = t.bound + t.bound/101
		}
		for _, w := range smallShares {
			if top <= aim {
				break
			}
			if t.quick {
				f.looks = t.looks / (len(smallShares) - 1)
			}
			if found, end := f.packWithin(w, aim, top); found != nil {
				offsets, top = found, end
			}
		}
		if top > aim || aim == limit || len(p.ranges) > fewRanges {
			break
		}
	}
	return offsets, top
}

// filler packs a part from its large lives.
type largeFirst struct {
	*part
	bound  int64
	capped bool
	looks  int // looks
}

// within is p packed at or below aim, or else as low as it comes below a top.
func (f *largeFirst) packWithin(w smallShare, aim, below int64) (offsets []int64, top int64) {
	keep := func(at []int64) (done bool) {
		if end := topOf(f.ranges, at); end < below {
			offsets, below = at, end
		}
		return below <= aim
	}
	x := f.split(w)
	for fewest := maxEjected + 1; f.looks > 0 && len(x.large) > 0; {
		low := f.placeLarge(x.largePart, aim, below)
		f.looks -= fillLooksPerRange * len(f.ranges)
		if low == nil {
			break
		}
		at, out := f.fillIn(x, f.byDuration(x.small), low, aim)
		if len(out) > 0 {
			if others, left := f.fillIn(x, x.small, low, aim); len(left) < len(out) {
				at, out = others, left
			}
		}
		if keep(at) {
			break
		}
		if len(out) < fewest { // ejecting for more than before is not worth it either
			fewest = len(out)
			f.looks -= fillLooksPerRange * len(f.ranges)
			if e := newEjector(f.part, at, f.bound); e.lowerTo(aim, ejectLooksPerRange*len(f.ranges)) {
				keep(e.offset)
				break
			}
		}
		x = f.growLarge(x, out)
	}
	return offsets, below
}

// pack is where the lives stand that are packed first: by a search at aim, or if there are too many for that, or it does not find
// one, by a skyline below a top, which with a capacity is that.
func (f *largeFirst) placeLarge(first *part, aim, below int64) (offsets []int64) {
	if len(first.ranges) <= searchRanges {
		s := newSearch(first)
		found := s.find(aim, looksPerSearch, false) == found
		if f.looks -= s.looks; found {
			return s.lowest
		}
	}
	if first.top = below; f.capped {
		first.top = min(below, aim+1)
	}
	offsets, _ = trySkylines(first, target{bound: f.bound, enough: aim, capped: true})
	return offsets
}

// fill is where all lives stand if those packed first stand at low, and each of the rest in the lowest gap that holds it. Those that
// would end above top are out, and come last.
func (f *largeFirst) fillIn(x sizeSplit, rest []int32, low []int64, top int64) (offsets []int64, out []int32) {
	offsets = make([]int64, len(f.ranges))
	for k, i := range x.large {
		offsets[i] = low[k]
	}
	rising := slices.Clone(x.large) // what is taken above all others takes least time to note
	slices.SortStableFunc(rising, func(i, j int32) int { return cmp.Compare(offsets[i], offsets[j]) })
	s := newOccupancy(f.part, math.MaxInt)
	for _, i := range x.small {
		s.expect(f.ranges[i])
	}
	for _, i := range rising {
		s.occupy(f.ranges[i], offsets[i])
	}
	for _, i := range rest {
		l := f.ranges[i]
		s.query(l)
		if offsets[i] = firstFit(s, l, f.floor); offsets[i]+l.size > top {
			out = append(out, i)
		} else {
			s.occupy(l, offsets[i])
		}
	}
	for _, i := range out {
		l := f.ranges[i]
		s.query(l)
		offsets[i] = firstFit(s, l, f.floor)
		s.occupy(l, offsets[i])
	}
	return offsets, out
}

// split is p in the lives that do not wait and those that do, the largest first.
func (f *largeFirst) split(w smallShare) sizeSplit {
	over := liveBytes(f.ranges, f.sections) // by section: by how many bytes too much waits
	for t, live := range over {
		over[t] = -int64(float64(w.bound*float64(f.bound)) + float64(w.slack*float64(f.bound-f.floor-live)))
	}
	var most maxTree
	most.build(over)
	order := make([]int32, len(f.ranges)) // what finds room in most places first: short lives, and above all of few bytes
	for i := range order {
		order[i] = int32(i)
	}
	weight := func(i int32) float64 {
		l := &f.ranges[i]
		return float64(float64(l.end-l.begin)*float64(l.size)) * float64(l.size)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(weight(i), weight(j)) })
	var in, rest []int32
	for _, i := range order {
		l := f.ranges[i]
		if x, _ := most.maxOf(l.begin, l.end); x+l.size <= 0 {
			most.add(l.begin, l.end, l.size)
			rest = append(rest, i)
		} else {
			in = append(in, i)
		}
	}
	slices.Sort(in)
	slices.Reverse(rest)
	return f.newSplit(in, rest)
}

// joined is x with some of the rest among those that are packed first.
func (f *largeFirst) growLarge(x sizeSplit, some []int32) sizeSplit {
	in := append(slices.Clone(x.large), some...)
	slices.Sort(in)
	return f.newSplit(in, slices.DeleteFunc(slices.Clone(x.small), func(i int32) bool { return slices.Contains(some, i) }))
}

func (f *largeFirst) newSplit(in, rest []int32) sizeSplit {
	q := &part{ranges: make([]liveRange, 0, len(in)), floor: f.floor, ctx: f.ctx}
	for _, i := range in {
		q.ranges = append(q.ranges, f.ranges[i])
	}
	q.sections = compressTime(q.ranges)
	return sizeSplit{q, in, rest}
}

// longest is lives, the longest first.
func (f *largeFirst) byDuration(lives []int32) (order []int32) {
	order = slices.Clone(lives)
	slices.SortStableFunc(order, func(i, j int32) int {
		return cmp.Compare(f.ranges[j].end-f.ranges[j].begin, f.ranges[i].end-f.ranges[i].begin)
	})
	return order
}
