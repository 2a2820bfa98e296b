package pack

import (
	"context"
	"slices"

	"memopt/internal/stop"
)

const (
	minIntervals  = 4    // room of a list at first; less has to grow at once, more is mostly unused
	intervalBlock = 1024 // intervals allocated together, for many lists
	skipAhead     = 8    // intervals that a cursor skips at once if they lie below what is asked; more can be skipped less often
)

// occupancy is the addresses that are taken in each section: a segment tree over the sections, kept as a heap. Node 1 is all
// sections, nodes 2k and 2k+1 are the halves of node k, leaves are single sections. A live range is the union of O(log n)
// nodes, its cover.
//
// What a range takes is noted in throughout of the nodes of its cover, and in anywhere of those and of all nodes above. So
// a new range overlaps what anywhere says of the nodes of its cover, and what throughout says of the nodes above those:
// O(log n) lists, however many ranges it overlaps. Packings are dense, so each list is a few long intervals. Which ranges may
// be placed is announced before, and lists that none of them will read are not kept.
type occupancy struct {
	leaves       int32           // a power of two
	throughout   []intervals     // by node: taken by ranges that have the node in their cover
	anywhere     []intervals     // by node: taken in any of its sections, but for throughout of nodes above
	queried      []bool          // by node: it is in the cover of an expected range, so anywhere is kept
	aboveQueried []bool          // by node: such a node is below it, so throughout is kept
	cursors      []cursor        // one for each list that the range of the last query overlaps
	looks        int             // at intervals and cursors
	maxLooks     int             // looks that there are
	tooSlow      func() bool     // reports whether many ranges should be given up; nil: never
	area         float64         // bytes times sections that are taken
	ctx          context.Context // polled at each query
	spare        intervals       // room for lists that grow
}

// newOccupancy is an empty occupancy for p in which no range is expected.
func newOccupancy(p *part, maxLooks int) *occupancy {
	leaves := int32(1)
	for leaves < p.sections {
		leaves *= 2
	}
	return &occupancy{
		leaves: leaves, maxLooks: maxLooks, ctx: p.ctx, throughout: make([]intervals, 2*leaves), anywhere: make([]intervals, 2*leaves),
		queried: make([]bool, 2*leaves), aboveQueried: make([]bool, 2*leaves),
	}
}

// expect announces ranges that may be placed. That has to come before anything is occupied.
func (o *occupancy) expect(ranges ...liveRange) {
	for _, r := range ranges {
		for a, b := r.begin+o.leaves, r.end+o.leaves; a < b; a, b = (a+1)/2, b/2 {
			if a%2 == 1 {
				o.markQueried(a)
			}
			if b%2 == 1 {
				o.markQueried(b - 1)
			}
		}
	}
}

func (o *occupancy) markQueried(node int32) {
	o.queried[node] = true
	for node /= 2; node > 0 && !o.aboveQueried[node]; node /= 2 {
		o.aboveQueried[node] = true
	}
}

// reset takes everything out.
func (o *occupancy) reset() {
	for i := range o.anywhere {
		o.throughout[i], o.anywhere[i] = o.throughout[i][:0], o.anywhere[i][:0]
	}
	o.area = 0
}

// occupy notes that r is at offset.
func (o *occupancy) occupy(r liveRange, offset int64) {
	o.area += float64(r.size) * float64(r.end-r.begin)
	o.occupyNode(1, 0, o.leaves, r.begin, r.end, interval{offset, offset + r.size})
}

// occupyNode is occupy below a node, which is sections [first, last), for a range that is alive in [begin, end).
func (o *occupancy) occupyNode(node, first, last, begin, end int32, taken interval) {
	if o.queried[node] {
		o.insert(&o.anywhere[node], taken)
	}
	if !o.aboveQueried[node] {
		return
	}
	if begin <= first && last <= end {
		o.insert(&o.throughout[node], taken)
		return
	}
	middle := first + (last-first)/2
	if begin < middle {
		o.occupyNode(2*node, first, middle, begin, end, taken)
	}
	if middle < end {
		o.occupyNode(2*node+1, middle, last, begin, end, taken)
	}
}

// query has nextFree answer for the sections of r, from the lowest address on.
func (o *occupancy) query(r liveRange) {
	stop.Poll(o.ctx)
	o.cursors = o.cursors[:0]
	o.queryNode(1, 0, o.leaves, r.begin, r.end)
}

func (o *occupancy) queryNode(node, first, last, begin, end int32) {
	if begin <= first && last <= end {
		if len(o.anywhere[node]) > 0 {
			o.cursors = append(o.cursors, o.anywhere[node].newCursor())
		}
		return
	}
	if len(o.throughout[node]) > 0 {
		o.cursors = append(o.cursors, o.throughout[node].newCursor())
	}
	middle := first + (last-first)/2
	if begin < middle {
		o.queryNode(2*node, first, middle, begin, end)
	}
	if middle < end {
		o.queryNode(2*node+1, middle, last, begin, end)
	}
}

// nextFree is the lowest multiple of align from x on at which size bytes are free in the sections of the last query, and
// the address at which the free bytes that begin there end. x must not be below that of the call before.
func (o *occupancy) nextFree(x, size, align int64) (offset, end int64) {
	x = alignUp(x, align)
	cursors, looks := o.cursors, 0
	for i, agreed := 0, 0; agreed < len(cursors); agreed++ { // agreed: cursors in a row at which x is free
		looks++
		if c := &cursors[i]; x+size > c.next {
			passed := c.passed
			if y := c.nextFree(x, size, align); y > x {
				x, agreed = y, 0
			}
			looks += c.passed - passed
		}
		if i++; i == len(cursors) {
			i = 0
		}
	}
	o.looks += looks
	end = infinity
	for i := range cursors {
		end = min(end, cursors[i].next)
	}
	return x, end
}

// interval is the addresses in [lo, hi).
type interval struct{ lo, hi int64 }

// intervals are taken addresses, by rising address, with free bytes between any two.
type intervals []interval

// insert adds x to a list and joins it with those that it touches.
func (o *occupancy) insert(list *intervals, x interval) {
	old := *list
	last := len(old) - 1
	if last < 0 || old[last].hi < x.lo {
		*list = append(o.withRoom(old), x)
		return
	}
	if old[last].lo <= x.lo { // the most frequent case but for the one above
		old[last].hi = max(old[last].hi, x.hi)
		return
	}
	first, end := 0, last // finds the first that ends at x.lo or above
	for first < end {
		if middle := int(uint(first+end) / 2); old[middle].hi < x.lo {
			first = middle + 1
		} else {
			end = middle
		}
	}
	next := first // the first that begins above x.hi
	for next <= last && old[next].lo <= x.hi {
		next++
	}
	if next == first {
		*list = slices.Insert(o.withRoom(old), first, x)
		return
	}
	old[first] = interval{min(x.lo, old[first].lo), max(x.hi, old[next-1].hi)}
	if next > first+1 {
		*list = append(old[:first+1], old[next:]...)
	}
}

// withRoom is a list with room for one more. Lists are many and short, so they are cut from blocks.
func (o *occupancy) withRoom(list intervals) intervals {
	if len(list) < cap(list) {
		return list
	}
	n := max(2*len(list), minIntervals)
	if len(o.spare) < n {
		o.spare = make(intervals, max(n, intervalBlock))
	}
	grown := append(o.spare[:0:n], list...)
	o.spare = o.spare[n:]
	return grown
}

// cursor reads a list upward.
type cursor struct {
	next   int64 // where the next interval begins, or infinity after the last
	passed int   // intervals before that; they end at or below the last answer
	list   intervals
}

func (list intervals) newCursor() cursor { return cursor{list[0].lo, 0, list} }

// nextFree is the lowest multiple of align from x on, itself one, at which the list leaves size bytes free.
func (c *cursor) nextFree(x, size, align int64) int64 {
	list, k := c.list, c.passed
	for k+skipAhead <= len(list) && list[k+skipAhead-1].hi <= x {
		k += skipAhead
	}
	for ; k < len(list); k++ {
		taken := &list[k]
		if x+size <= taken.lo {
			c.next, c.passed = taken.lo, k
			return x
		}
		if x < taken.hi {
			x = alignUp(taken.hi, align)
		}
	}
	c.next, c.passed = infinity, k
	return x
}
