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
type space struct {
	leaves  int32           // a power of two
	through []runs          // by node: taken by lives that have the node in their span
	some    []runs          // by node: taken by lives that are alive in any of its sections, but for through of nodes above
	asked   []bool          // by node: whether it is in the span of a life to be placed, and some of it is noted
	passed  []bool          // by node: whether such a node is below it, and through of it is noted
	meets   []cursor        // what the life to be placed must keep clear of
	looks   int             // at runs and cursors so far: the work done, in a measure that is the same on every machine
	most    int             // looks that there are
	slow    func() bool     // gives many lives up early; nil: never
	ctx     context.Context // polled at each look
	filled  float64         // what is taken, in bytes times sections
	unused  runs            // room for those that grow
}

// blankSpace is a space for p in which no life is expected yet.
func blankSpace(p *part, most int) *space {
	leaves := int32(1)
	for leaves < p.sections {
		leaves *= 2
	}
	return &space{
		leaves: leaves, most: most, ctx: p.ctx,
		through: make([]runs, 2*leaves), some: make([]runs, 2*leaves), asked: make([]bool, 2*leaves), passed: make([]bool, 2*leaves),
	}
}

// newSpace is one in which all lives of p are expected.
func newSpace(p *part, most int) *space {
	s := blankSpace(p, most)
	for _, l := range p.lives {
		s.expect(l)
	}
	return s
}

// expect makes l one of the lives that may be placed. That comes before anything is taken.
func (s *space) expect(l life) {
	for a, b := l.l+s.leaves, l.r+s.leaves; a < b; a, b = (a+1)/2, b/2 {
		if a%2 == 1 {
			s.ask(a)
		}
		if b%2 == 1 {
			s.ask(b - 1)
		}
	}
}

// ask has some of a node noted, and through of those above it.
func (s *space) ask(node int32) {
	s.asked[node] = true
	for node /= 2; node > 0 && !s.passed[node]; node /= 2 {
		s.passed[node] = true
	}
}

// empty takes everything out.
func (s *space) empty() {
	for i := range s.some {
		s.through[i], s.some[i] = s.through[i][:0], s.some[i][:0]
	}
	s.filled = 0
}

// take notes that l is at an address.
func (s *space) take(l life, at int64) {
	s.filled += float64(l.size) * float64(l.r-l.l)
	s.note(1, 0, s.leaves, l.l, l.r, run{at, at + l.size})
}

func (s *space) note(node, begin, end, l, r int32, taken run) {
	if s.asked[node] {
		s.add(&s.some[node], taken)
	}
	if !s.passed[node] {
		return
	}
	if l <= begin && end <= r {
		s.add(&s.through[node], taken)
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

// look makes the sections of l those that free is asked about, from the lowest address on.
func (s *space) look(l life) {
	stop.Poll(s.ctx)
	s.meets = s.meets[:0]
	s.gather(1, 0, s.leaves, l.l, l.r)
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
	meets, looks := s.meets, 0
	for i, agreed := 0, 0; agreed < len(meets); agreed++ {
		looks++
		if c := &meets[i]; x+size > c.lo {
			read := c.read
			if y := c.free(x, size, align); y > x {
				x, agreed = y, 0
			}
			looks += c.read - read
		}
		if i++; i == len(meets) {
			i = 0
		}
	}
	s.looks += looks
	end = none
	for i := range meets {
		end = min(end, meets[i].lo)
	}
	return x, end
}

// runs are taken addresses in rising order, with bytes between each other that are free.
type runs []run

const (
	fewRuns  = 4    // that a node has room for at first
	manyRuns = 1024 // that room is made for at once, for many nodes
)

// run is the addresses in [lo, hi).
type run struct{ lo, hi int64 }

// add takes r into runs, joining those that it touches.
func (s *space) add(rs *runs, r run) {
	old := *rs
	last := len(old) - 1
	if last < 0 || old[last].hi < r.lo {
		*rs = append(s.grown(old), r)
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
		*rs = slices.Insert(s.grown(old), first, r)
		return
	}
	old[first] = run{min(r.lo, old[first].lo), max(r.hi, old[next-1].hi)}
	if next > first+1 {
		*rs = append(old[:first+1], old[next:]...)
	}
}

// grown is runs with room for one more.
func (s *space) grown(rs runs) runs {
	if len(rs) < cap(rs) {
		return rs
	}
	n := max(2*len(rs), fewRuns)
	if len(s.unused) < n {
		s.unused = make(runs, max(n, manyRuns))
	}
	more := append(s.unused[:0:n], rs...)
	s.unused = s.unused[n:]
	return more
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
