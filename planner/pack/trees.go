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

// add adds x to all of [l, r).
func (p *peaks) add(l, r int32, x int64) {
	a, b := l+p.leaves, r-1+p.leaves
	p.addTo(a, x)
	if a != b {
		p.addTo(b, x)
	}
	for ; a>>1 != b>>1; a, b = a>>1, b>>1 {
		if a&1 == 0 {
			p.addTo(a+1, x)
		}
		if b&1 == 1 {
			p.addTo(b-1, x)
		}
		p.see(a >> 1)
		p.see(b >> 1)
	}
	for a >>= 1; a > 0; a >>= 1 {
		p.see(a)
	}
}

// addTo adds x to all sections of a node.
func (p *peaks) addTo(node int32, x int64) {
	p.largest[node] += x
	p.added[node] += x
}

// see brings a node up to what its halves are.
func (p *peaks) see(node int32) {
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

// most is the largest number in [l, r), and the first section that has it. It comes up from both ends of the stretch to
// the node above both, and goes down again to what was largest.
func (p *peaks) most(l, r int32) (x int64, at int32) {
	a, b := l+p.leaves, r-1+p.leaves
	x, at = p.largest[a], a
	y, behind := p.largest[b], b
	for a>>1 != b>>1 {
		if next := a + 1; a&1 == 0 && p.largest[next] > x {
			x, at = p.largest[next], next
		}
		if next := b - 1; b&1 == 1 && p.largest[next] >= y {
			y, behind = p.largest[next], next
		}
		a, b = a>>1, b>>1
		x += p.added[a]
		y += p.added[b]
	}
	if y > x {
		x, at = y, behind
	}
	for a >>= 1; a > 0; a >>= 1 {
		x += p.added[a]
	}
	for plus := x - p.largest[at]; at < p.leaves; {
		plus += p.added[at]
		if at *= 2; p.largest[at]+plus != x {
			at++
		}
	}
	return x, at - p.leaves
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
