package pack

import (
	"math"
	"math/bits"
	"slices"
)

// peaks is a number for each section, and the largest of any stretch of them. It is a binary tree kept as a heap.
type peaks struct {
	leaves  int32
	largest []int64 // by node: the largest of its sections, but for what is added to all of a node above
	added   []int64 // by node: to all of its sections
	plus    []int64 // scratch, by node: what is added to all of those above it
}

func (p *peaks) build(values []int64) {
	p.leaves = 1
	for int(p.leaves) < len(values) {
		p.leaves *= 2
	}
	p.largest = slices.Grow(p.largest[:0], int(2*p.leaves))[:2*p.leaves]
	p.added = slices.Grow(p.added[:0], int(2*p.leaves))[:2*p.leaves]
	clear(p.added)
	for i := range p.leaves {
		p.largest[p.leaves+i] = math.MinInt64 / 2
	}
	copy(p.largest[p.leaves:], values)
	for i := p.leaves - 1; i > 0; i-- {
		p.largest[i] = max(p.largest[2*i], p.largest[2*i+1])
	}
}

// become makes p the same as o.
func (p *peaks) become(o *peaks) {
	p.leaves = o.leaves
	p.largest = append(p.largest[:0], o.largest...)
	p.added = append(p.added[:0], o.added...)
}

func (p *peaks) add(l, r int32, x int64) { p.addTo(1, 0, p.leaves, l, r, x) }

func (p *peaks) addTo(node, begin, end, l, r int32, x int64) {
	if l <= begin && end <= r {
		p.largest[node] += x
		p.added[node] += x
		return
	}
	middle := begin + (end-begin)/2
	if l < middle {
		p.addTo(2*node, begin, middle, l, r, x)
	}
	if middle < r {
		p.addTo(2*node+1, middle, end, l, r, x)
	}
	p.largest[node] = max(p.largest[2*node], p.largest[2*node+1]) + p.added[node]
}

// values are the numbers of the first n sections, until p changes.
func (p *peaks) values(n int32) []int64 {
	p.plus = slices.Grow(p.plus[:0], int(2*p.leaves))[:2*p.leaves]
	p.plus[1] = 0
	for i := int32(1); i < p.leaves; i++ {
		p.plus[2*i] = p.plus[i] + p.added[i]
		p.plus[2*i+1] = p.plus[2*i]
	}
	for i := p.leaves; i < p.leaves+n; i++ {
		p.plus[i] += p.largest[i]
	}
	return p.plus[p.leaves : p.leaves+n]
}

// most is the largest number in [l, r), and the first section that has it.
func (p *peaks) most(l, r int32) (x int64, at int32) {
	in := p.among(1, 0, p.leaves, l, r, 0)
	for plus := in.x - p.largest[in.node]; in.end-in.begin > 1; {
		middle := in.begin + (in.end-in.begin)/2
		plus += p.added[in.node]
		if in.node *= 2; p.largest[in.node]+plus == in.x {
			in.end = middle
		} else {
			in.node++
			in.begin = middle
		}
	}
	return in.x, in.begin
}

// peak is the largest number of a node, which is for sections [begin, end).
type peak struct {
	node, begin, end int32
	x                int64
}

// among is the largest number in those of [l, r) that a node is for; plus is what the nodes above add.
func (p *peaks) among(node, begin, end, l, r int32, plus int64) peak {
	if l <= begin && end <= r {
		return peak{node, begin, end, p.largest[node] + plus}
	}
	plus += p.added[node]
	middle := begin + (end-begin)/2
	switch {
	case r <= middle:
		return p.among(2*node, begin, middle, l, r, plus)
	case l >= middle:
		return p.among(2*node+1, middle, end, l, r, plus)
	}
	low, high := p.among(2*node, begin, middle, l, r, plus), p.among(2*node+1, middle, end, l, r, plus)
	if high.x > low.x {
		return high
	}
	return low
}

// firsts is a list of numbers in which the first that is small enough can be found.
type firsts struct {
	leaves int32
	least  []int32
}

func (f *firsts) reset(n int) {
	f.leaves = 1
	for int(f.leaves) < n {
		f.leaves *= 2
	}
	f.least = slices.Grow(f.least[:0], int(2*f.leaves))[:2*f.leaves]
	for i := range f.least {
		f.least[i] = gone
	}
}

// become makes f the same as o.
func (f *firsts) become(o *firsts) {
	f.leaves = o.leaves
	f.least = append(f.least[:0], o.least...)
}

func (f *firsts) leaf(i, x int32) { f.least[f.leaves+i] = x }

func (f *firsts) build() {
	for i := f.leaves - 1; i > 0; i-- {
		f.least[i] = min(f.least[2*i], f.least[2*i+1])
	}
}

func (f *firsts) set(i, x int32) {
	k := f.leaves + i
	f.least[k] = x
	for k /= 2; k > 0; k /= 2 {
		f.least[k] = min(f.least[2*k], f.least[2*k+1])
	}
}

// first is the first position in [from, to) with a number of at most x, or -1.
func (f *firsts) first(from, to, x int32) int32 {
	for k := from + f.leaves; from < to; {
		if f.least[k] > x { // on to what lies right of it
			width := f.leaves >> (bits.Len32(uint32(k)) - 1)
			from += width
			if k++; k&(k-1) == 0 {
				return -1
			}
			for k&1 == 0 && f.least[k/2] > x {
				k /= 2
			}
			continue
		}
		if k >= f.leaves {
			return from
		}
		k *= 2
	}
	return -1
}
