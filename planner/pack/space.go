package pack

import (
	"context"
	"math"
	"slices"

	"memopt/memopt/stop"
)

// space is the addresses that are taken at each time. It is a binary tree over the sections, kept as a heap: node 1 is
// all of them, nodes 2k and 2k+1 are the halves of node k, leaves are single sections. A life is the sum of a few
// nodes, its span. What it takes is noted in through of the nodes of its span, and in some of those and of all nodes
// above them. So what a life must keep clear of stands in few places however many lives it meets: in some of the nodes
// of its span, and in through of the nodes above. And as packing is dense, each of those is a few long runs. It is known before
// which lives may be placed, and where none of them will look nothing is noted.
type occupancy struct {
	leaves       int32           // a power of two
	throughout   []intervals     // by node: taken by lives that have the node in their span
	anywhere     []intervals     // by node: taken by lives that are alive in any of its sections, but for through of nodes above
	queried      []bool          // by node: whether it is in the span of a life to be placed, and some of it is noted
	aboveQueried []bool          // by node: whether such a node is below it, and through of it is noted
	cursors      []cursor        // what the life to be placed must keep clear of
	looks        int             // at runs and cursors so far: the work done, in a measure that is the same on every machine
	maxLooks     int             // looks that there are
	tooSlow      func() bool     // gives many lives up early; nil: never
	ctx          context.Context // polled at each look
	area         float64         // what is taken, in bytes times sections
	spare        intervals       // room for those that grow
}

// blankSpace is a space for p in which no life is expected yet.
func newOccupancy(p *part, most int) *occupancy {
	leaves := int32(1)
	for leaves < p.sections {
		leaves *= 2
	}
	return &occupancy{
		leaves: leaves, maxLooks: most, ctx: p.ctx,
		throughout: make([]intervals, 2*leaves), anywhere: make([]intervals, 2*leaves), queried: make([]bool, 2*leaves), aboveQueried: make([]bool, 2*leaves),
	}
}

// newSpace is one in which all lives of p are expected.
func newOccupancyForAll(p *part, most int) *occupancy {
	s := newOccupancy(p, most)
	for _, l := range p.ranges {
		s.expect(l)
	}
	return s
}

// expect makes l one of the lives that may be placed. That comes before anything is taken.
func (s *occupancy) expect(l liveRange) {
	for a, b := l.begin+s.leaves, l.end+s.leaves; a < b; a, b = (a+1)/2, b/2 {
		if a%2 == 1 {
			s.markQueried(a)
		}
		if b%2 == 1 {
			s.markQueried(b - 1)
		}
	}
}

// ask has some of a node noted, and through of those above it.
func (s *occupancy) markQueried(node int32) {
	s.queried[node] = true
	for node /= 2; node > 0 && !s.aboveQueried[node]; node /= 2 {
		s.aboveQueried[node] = true
	}
}

// empty takes everything out.
func (s *occupancy) reset() {
	for i := range s.anywhere {
		s.throughout[i], s.anywhere[i] = s.throughout[i][:0], s.anywhere[i][:0]
	}
	s.area = 0
}

// take notes that l is at an address.
func (s *occupancy) occupy(l liveRange, at int64) {
	s.area += float64(l.size) * float64(l.end-l.begin)
	s.occupyNode(1, 0, s.leaves, l.begin, l.end, interval{at, at + l.size})
}

func (s *occupancy) occupyNode(node, begin, end, l, r int32, taken interval) {
	if s.queried[node] {
		s.insert(&s.anywhere[node], taken)
	}
	if !s.aboveQueried[node] {
		return
	}
	if l <= begin && end <= r {
		s.insert(&s.throughout[node], taken)
		return
	}
	middle := begin + (end-begin)/2
	if l < middle {
		s.occupyNode(2*node, begin, middle, l, r, taken)
	}
	if middle < r {
		s.occupyNode(2*node+1, middle, end, l, r, taken)
	}
}

// look makes the sections of l those that free is asked about, from the lowest address on.
func (s *occupancy) query(l liveRange) {
	stop.Poll(s.ctx)
	s.cursors = s.cursors[:0]
	s.queryNode(1, 0, s.leaves, l.begin, l.end)
}

func (s *occupancy) queryNode(node, begin, end, l, r int32) {
	if l <= begin && end <= r {
		if len(s.anywhere[node]) > 0 {
			s.cursors = append(s.cursors, s.anywhere[node].newCursor())
		}
		return
	}
	if len(s.throughout[node]) > 0 {
		s.cursors = append(s.cursors, s.throughout[node].newCursor())
	}
	middle := begin + (end-begin)/2
	if l < middle {
		s.queryNode(2*node, begin, middle, l, r)
	}
	if middle < r {
		s.queryNode(2*node+1, middle, end, l, r)
	}
}

// free is the lowest multiple of align from x on at which size bytes are free, in the sections looked at, and where the
// free bytes end that begin there. x must not be below what was asked before.
func (s *occupancy) nextFree(x, size, align int64) (offset, end int64) {
	x = alignUp(x, align)
	meets, looks := s.cursors, 0
	for i, agreed := 0, 0; agreed < len(meets); agreed++ {
		looks++
		if c := &meets[i]; x+size > c.next {
			read := c.passed
			if y := c.nextFree(x, size, align); y > x {
				x, agreed = y, 0
			}
			looks += c.passed - read
		}
		if i++; i == len(meets) {
			i = 0
		}
	}
	s.looks += looks
	end = infinity
	for i := range meets {
		end = min(end, meets[i].next)
	}
	return x, end
}

// runs are taken addresses in rising order, with bytes between each other that are free.
type intervals []interval

const (
	minIntervals  = 4    // that a node has room for at first
	intervalBlock = 1024 // that room is made for at once, for many nodes
)

// run is the addresses in [lo, hi).
type interval struct{ lo, hi int64 }

// add takes r into runs, joining those that it touches.
func (s *occupancy) insert(rs *intervals, r interval) {
	old := *rs
	last := len(old) - 1
	if last < 0 || old[last].hi < r.lo {
		*rs = append(s.withRoom(old), r)
		return
	}
	if old[last].lo <= r.lo { // as most do that are not above all
		old[last].hi = max(old[last].hi, r.hi)
		return
	}
	first, end := 0, last // the first that ends at r.lo or above it
	for first < end {
		if middle := int(uint(first+end) / 2); old[middle].hi < r.lo {
			first = middle + 1
		} else {
			end = middle
		}
	}
	next := first
	for next <= last && old[next].lo <= r.hi {
		next++
	}
	if next == first {
		*rs = slices.Insert(s.withRoom(old), first, r)
		return
	}
	old[first] = interval{min(r.lo, old[first].lo), max(r.hi, old[next-1].hi)}
	if next > first+1 {
		*rs = append(old[:first+1], old[next:]...)
	}
}

// grown is runs with room for one more.
func (s *occupancy) withRoom(rs intervals) intervals {
	if len(rs) < cap(rs) {
		return rs
	}
	n := max(2*len(rs), minIntervals)
	if len(s.spare) < n {
		s.spare = make(intervals, max(n, intervalBlock))
	}
	more := append(s.spare[:0:n], rs...)
	s.spare = s.spare[n:]
	return more
}

// none is above all addresses.
const infinity = math.MaxInt64

// cursor reads runs upward.
type cursor struct {
	next      int64 // where the run begins that is next, or none after the last
	passed    int   // those before it, which end at or below the address given last
	intervals intervals
}

func (rs intervals) newCursor() cursor { return cursor{rs[0].lo, 0, rs} }

const skipAhead = 8 // runs that are passed at once if they end below what is asked for

// free is the lowest multiple of align from x, itself one, at which the runs leave size bytes free.
func (c *cursor) nextFree(x, size, align int64) int64 {
	runs, k := c.intervals, c.passed
	for k+skipAhead <= len(runs) && runs[k+skipAhead-1].hi <= x {
		k += skipAhead
	}
	for ; k < len(runs); k++ {
		r := &runs[k]
		if x+size <= r.lo {
			c.next, c.passed = r.lo, k
			return x
		}
		if x < r.hi {
			x = alignUp(r.hi, align)
		}
	}
	c.next, c.passed = infinity, k
	return x
}
