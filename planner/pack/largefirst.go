package pack

import (
	"cmp"
	"math"
	"slices"
)

// Many ranges of which a few hundred are large are hard to pack from the bottom up: a skyline leaves holes that are too small
// for the next large one. A search packs the large ones alone, more closely, if it comes to an end, and most of the small ones
// then fit between them. Those that do not fit join the large ones for another search, until all fit.

const (
	looksPerSearch    = 3 << 20  // of one search; one that takes longer seldom ends
	looksPerRange     = 12 << 10 // of all searches, per range; more lower few packings and delay all others
	maxTotalLooks     = 24 << 20 // of all searches, however many ranges
	fillLooksPerRange = 500      // what filling in, or an ejection, counts as, per range, so that rounds without a search end, too
	maxEjected        = 50       // up to so many small ranges that do not fit are placed by ejection; with more that seldom succeeds
	manyAim           = 101      // many ranges are to end bound/101 above the bound: just within largeFirstGap
)

// smallShare says which ranges are small. Ranges are small by rising size² × time while those in each section have no more
// bytes together than a share of the bound and a share of the section's slack, the bytes that are not alive.
type smallShare struct{ bound, slack float64 }

// smallShares are tried one after another. More small ranges make the search quicker, and fit less often.
var smallShares = [...]smallShare{{0.03, 0.3}, {0.01, 0.15}, {0.05, 0.4}}

// aimShares are the tops tried without a capacity, each if the one before was reached: bound/50 above the bound and so on.
var aimShares = [...]int64{50, 100, 250, 1000}

// packLargeFirst packs p from its large ranges: as low as the aims that it reaches, or with a capacity within that.
func packLargeFirst(p *part, t target) (offsets []int64, top int64) {
	f := &largeFirst{part: p, t: t, left: min(t.looks/2, maxTotalLooks)}
	if !t.quick {
		f.left = min(f.left, looksPerRange*len(p.ranges))
	}
	limit := t.limit(p)
	top = p.top
	for _, share := range aimShares {
		aim := max(t.bound+t.bound/share, limit)
		if t.capped {
			aim = limit
		} else if len(p.ranges) > fewRanges {
			aim = t.bound + t.bound/manyAim
		}
		for _, small := range smallShares {
			if top <= aim {
				break
			}
			if t.quick {
				f.left = t.looks / (len(smallShares) - 1)
			}
			if lower, lowerTop := f.packTo(aim, top, small); lower != nil {
				offsets, top = lower, lowerTop
			}
		}
		if top > aim || aim == limit || len(p.ranges) > fewRanges {
			break
		}
	}
	return offsets, top
}

// largeFirst packs a part from its large ranges.
type largeFirst struct {
	*part
	t    target
	left int // looks for searches
}

// sizeSplit is the large ranges of a part, as a part of their own, and the small ones, in the order in which they are filled in.
type sizeSplit struct {
	largePart    *part
	large, small []int32
}

// packTo returns a packing that ends at aim or below, or else the lowest that it comes across that ends below the top so far.
func (f *largeFirst) packTo(aim, topSoFar int64, small smallShare) (offsets []int64, top int64) {
	top = topSoFar
	keep := func(found []int64) (done bool) {
		if foundTop := topOf(f.ranges, found); foundTop < top {
			offsets, top = found, foundTop
		}
		return top <= aim
	}
	x := f.split(small)
	for fewestOut := maxEjected + 1; f.left > 0 && len(x.large) > 0; {
		large := f.placeLarge(x.largePart, aim, top)
		f.left -= fillLooksPerRange * len(f.ranges)
		if large == nil {
			break
		}
		found, out := f.fillIn(x, f.longFirst(x.small), large, aim)
		if len(out) > 0 {
			if other, otherOut := f.fillIn(x, x.small, large, aim); len(otherOut) < len(out) {
				found, out = other, otherOut
			}
		}
		if keep(found) {
			break
		}
		if len(out) < fewestOut { // with as many as in an ejection that failed, another would fail, too
			fewestOut = len(out)
			f.left -= fillLooksPerRange * len(f.ranges)
			if e := newEjector(f.part, found, f.t.bound); e.lowerTo(aim) {
				keep(e.offset)
				break
			}
		}
		x = f.growLarge(x, out)
	}
	return offsets, top
}

// placeLarge returns offsets of the large ranges: by a search up to aim, or if they are too many for that or it finds none, by
// a skyline that ends below top; with a capacity, that has to end at aim, too.
func (f *largeFirst) placeLarge(large *part, aim, top int64) (offsets []int64) {
	if len(large.ranges) <= searchRanges {
		s := newSearch(large)
		result := s.find(aim, looksPerSearch, false)
		if f.left -= s.looks; result == found {
			return s.lowest
		}
	}
	if large.top = top; f.t.capped {
		large.top = min(top, aim+1)
	}
	offsets, _ = trySkylines(large, target{bound: f.t.bound, enough: aim, capped: true})
	return offsets
}

// fillIn places small ranges, in this order, at the lowest offset that is free, with the large ones at their offsets. Those
// that would end above top are returned as out, and placed after the others.
func (f *largeFirst) fillIn(x sizeSplit, small []int32, large []int64, top int64) (offsets []int64, out []int32) {
	offsets = make([]int64, len(f.ranges))
	for k, i := range x.large {
		offsets[i] = large[k]
	}
	bottomUp := slices.Clone(x.large) // an interval above all others is noted soonest
	slices.SortStableFunc(bottomUp, func(i, j int32) int { return cmp.Compare(offsets[i], offsets[j]) })
	o := newOccupancy(f.part, math.MaxInt)
	for _, i := range x.small {
		o.expect(f.ranges[i])
	}
	for _, i := range bottomUp {
		o.occupy(f.ranges[i], offsets[i])
	}
	place := func(i int32, top int64) (fits bool) {
		r := f.ranges[i]
		o.query(r)
		offsets[i] = firstFit(o, r, f.floor)
		if fits = offsets[i]+r.size <= top; fits {
			o.occupy(r, offsets[i])
		}
		return fits
	}
	for _, i := range small {
		if !place(i, top) {
			out = append(out, i)
		}
	}
	for _, i := range out {
		place(i, infinity)
	}
	return offsets, out
}

// split divides the ranges of f into large and small ones.
func (f *largeFirst) split(small smallShare) sizeSplit {
	over := liveBytes(f.ranges, f.sections) // by section: bytes of small ranges, less what there may be
	for t, live := range over {
		slack := f.t.bound - f.floor - live
		over[t] = -int64(float64(small.bound*float64(f.t.bound)) + float64(small.slack*float64(slack)))
	}
	var tree maxTree
	tree.build(over)
	order := indicesUpTo(len(f.ranges))
	weight := func(i int32) float64 {
		r := &f.ranges[i]
		return float64(float64(r.end-r.begin)*float64(r.size)) * float64(r.size)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(weight(i), weight(j)) })
	var large, rest []int32
	for _, i := range order {
		r := f.ranges[i]
		if most, _ := tree.maxOf(r.begin, r.end); most+r.size <= 0 {
			tree.add(r.begin, r.end, r.size)
			rest = append(rest, i)
		} else {
			large = append(large, i)
		}
	}
	slices.Reverse(rest)
	return f.newSplit(large, rest)
}

// growLarge is x with some of the small ranges among the large ones.
func (f *largeFirst) growLarge(x sizeSplit, some []int32) sizeSplit {
	small := slices.DeleteFunc(slices.Clone(x.small), func(i int32) bool { return slices.Contains(some, i) })
	return f.newSplit(append(slices.Clone(x.large), some...), small)
}

func (f *largeFirst) newSplit(large, small []int32) sizeSplit {
	slices.Sort(large)
	q := &part{ranges: make([]liveRange, 0, len(large)), floor: f.floor, ctx: f.ctx}
	for _, i := range large {
		q.ranges = append(q.ranges, f.ranges[i])
	}
	q.sections = compressTime(q.ranges)
	return sizeSplit{q, large, small}
}

// longFirst is indices of ranges, the longest first.
func (f *largeFirst) longFirst(indices []int32) (order []int32) {
	sections := func(i int32) int32 { return f.ranges[i].end - f.ranges[i].begin }
	order = slices.Clone(indices)
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(sections(j), sections(i)) })
	return order
}
