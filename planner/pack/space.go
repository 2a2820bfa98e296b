package pack

import "math"

// space is the addresses that are taken at each time. It is a binary tree over the sections, kept as a heap: node 1 is
// all of them, nodes 2k and 2k+1 are the halves of node k, leaves are single sections. A life is the sum of a few
// nodes, its span. What it takes is noted in through of the nodes of its span, and in some of those and of all nodes
// above them. So what a life must keep clear of stands in few places however many lives it meets: in some of the nodes
// of its span, and in through of the nodes above. And as packing is dense, each of those is a few long runs.
type space struct {
	leaves  int32    // a power of two
	through []runs   // by node: taken by lives that have the node in their span
	some    []runs   // by node: taken by lives that are alive in any of its sections, but for through of nodes above
	meets   []cursor // what the life to be placed must keep clear of
	looks   int      // at runs and cursors so far: the work done, in a measure that is the same on every machine
	most    int      // looks that there are
	stopped func() bool
	filled  float64 // what is taken, in bytes times sections
}

func newSpace(sections int32, most int) *space {
	leaves := int32(1)
	for leaves < sections {
		leaves *= 2
	}
	return &space{leaves: leaves, most: most, stopped: never, through: make([]runs, 2*leaves), some: make([]runs, 2*leaves)}
}

// empty takes everything out.
func (s *space) empty() {
	for i := range s.some {
		s.through[i], s.some[i] = s.through[i][:0], s.some[i][:0]
	}
	s.filled = 0
}

// take notes that [lo, hi) is taken in sections [l, r).
func (s *space) take(l, r int32, lo, hi int64) {
	s.filled += float64(hi-lo) * float64(r-l)
	s.note(1, 0, s.leaves, l, r, run{lo, hi})
}

func (s *space) note(node, begin, end, l, r int32, taken run) {
	s.some[node].add(taken)
	if l <= begin && end <= r {
		s.through[node].add(taken)
		return
	}
	middle := begin + (end-begin)/2
	if l < middle {
		s.note(2*node, begin, middle, l, r, taken)
	}
	if middle < r {
		s.note(2*node+1, middle, end, l, r, taken)
	}
}

// look makes sections [l, r) those that free is asked about, from the lowest address on.
func (s *space) look(l, r int32) {
	s.meets = s.meets[:0]
	s.gather(1, 0, s.leaves, l, r)
}

func (s *space) gather(node, begin, end, l, r int32) {
	if l <= begin && end <= r {
		if len(s.some[node]) > 0 {
			s.meets = append(s.meets, s.some[node].begin())
		}
		return
	}
	if len(s.through[node]) > 0 {
		s.meets = append(s.meets, s.through[node].begin())
	}
	middle := begin + (end-begin)/2
	if l < middle {
		s.gather(2*node, begin, middle, l, r)
	}
	if middle < r {
		s.gather(2*node+1, middle, end, l, r)
	}
}

// free is the lowest multiple of align from x on at which size bytes are free, in the sections looked at, and where the
// free bytes end that begin there. x must not be below what was asked before.
func (s *space) free(x, size, align int64) (offset, end int64) {
	x = up(x, align)
	meets := s.meets
	for i, agreed := 0, 0; agreed < len(meets); agreed++ {
		s.looks++
		if c := &meets[i]; x+size > c.lo {
			read := c.read
			if y := c.free(x, size, align); y > x {
				x, agreed = y, 0
			}
			s.looks += c.read - read
		}
		if i++; i == len(meets) {
			i = 0
		}
	}
	end = none
	for i := range meets {
		end = min(end, meets[i].lo)
	}
	return x, end
}

// runs are taken addresses in rising order, with bytes between each other that are free.
type runs []run

// run is the addresses in [lo, hi).
type run struct{ lo, hi int64 }

// add takes r into the runs, joining those that it touches.
func (rs *runs) add(r run) {
	s := *rs
	if n := len(s); n == 0 || s[n-1].hi < r.lo {
		*rs = append(s, r)
		return
	}
	first, end := 0, len(s) // the first that ends at r.lo or above it
	for first < end {
		if middle := int(uint(first+end) / 2); s[middle].hi < r.lo {
			first = middle + 1
		} else {
			end = middle
		}
	}
	last := first
	for last < len(s) && s[last].lo <= r.hi {
		last++
	}
	if last == first {
		s = append(s, run{})
		copy(s[first+1:], s[first:])
		s[first] = r
		*rs = s
		return
	}
	s[first] = run{min(r.lo, s[first].lo), max(r.hi, s[last-1].hi)}
	if last > first+1 {
		*rs = append(s[:first+1], s[last:]...)
	}
}

// none is above all addresses.
const none = math.MaxInt64

// cursor reads runs upward.
type cursor struct {
	lo   int64 // where the run begins that is next, or none after the last
	read int   // those before it, which end at or below the address given last
	runs runs
}

func (rs runs) begin() cursor { return cursor{rs[0].lo, 0, rs} }

const stride = 8 // runs that are passed at once if they end below what is asked for

// free is the lowest multiple of align from x, itself one, at which the runs leave size bytes free.
func (c *cursor) free(x, size, align int64) int64 {
	runs, k := c.runs, c.read
	for k+stride <= len(runs) && runs[k+stride-1].hi <= x {
		k += stride
	}
	for ; k < len(runs); k++ {
		r := &runs[k]
		if x+size <= r.lo {
			c.lo, c.read = r.lo, k
			return x
		}
		if x < r.hi {
			x = up(r.hi, align)
		}
	}
	c.lo, c.read = none, k
	return x
}
