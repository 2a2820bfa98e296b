package pack

import "math/bits"

// cells find the lives that are near each other in time and address: those of some sections that begin between two addresses.
// Each life is in one cell for every block of sections that it is alive in.
type cells struct {
	lives []life
	block int32   // sections in a cell
	shift int     // of an address: which band of its block it is in
	bands int32   // in a block
	first []int32 // by cell: the first entry in it, or −1
	next  []int32 // by entry: the one behind it in its cell, or −1
	life  []int32 // by entry
	entry []int32 // by life: that for the first of its blocks, which those for the others follow
}

const company = 2 // lives at least that a cell is made for

// newCells are cells for lives that begin below top, with none in them yet.
func newCells(lives []life, sections, block int32, top int64) *cells {
	c := &cells{lives: lives, block: block, entry: make([]int32, len(lives))}
	entries := int32(0)
	for _, l := range lives {
		entries += (l.r-1)/block - l.l/block + 1
	}
	c.life = make([]int32, 0, entries)
	for i, l := range lives {
		c.entry[i] = int32(len(c.life))
		for b := l.l / block; b <= (l.r-1)/block; b++ {
			c.life = append(c.life, int32(i))
		}
	}
	blocks := (sections-1)/block + 1
	c.shift = bits.Len64(uint64(top / int64(len(c.life)/int(company*blocks)+1)))
	c.bands = int32(top>>c.shift) + 1
	c.next, c.first = make([]int32, len(c.life)), make([]int32, blocks*c.bands)
	for k := range c.first {
		c.first[k] = -1
	}
	return c
}

// cell is where those of a block are that begin at an address.
func (c *cells) cell(block int32, at int64) int32 { return block*c.bands + int32(at>>c.shift) }

// add puts in life i, which begins at an address.
func (c *cells) add(i int32, at int64) {
	l := &c.lives[i]
	e := c.entry[i]
	for b := l.l / c.block; b <= (l.r-1)/c.block; b++ {
		first := &c.first[c.cell(b, at)]
		c.next[e], *first = *first, e
		e++
	}
}

// move takes life i from one address to another.
func (c *cells) move(i int32, from, to int64) {
	if from>>c.shift != to>>c.shift {
		c.remove(i, from)
		c.add(i, to)
	}
}

// remove takes out life i, which begins at an address.
func (c *cells) remove(i int32, at int64) {
	l := &c.lives[i]
	e := c.entry[i]
	for b := l.l / c.block; b <= (l.r-1)/c.block; b++ {
		before := &c.first[c.cell(b, at)]
		for *before != e {
			before = &c.next[*before]
		}
		*before = c.next[e]
		e++
	}
}

// near are the lives that may meet l and begin in [from, to), some more than once, and some others.
func (c *cells) near(l *life, from, to int64) func(yield func(i int32) bool) {
	return func(yield func(i int32) bool) {
		for b := l.l / c.block; b <= (l.r-1)/c.block; b++ {
			for _, e := range c.first[c.cell(b, from) : c.cell(b, to-1)+1] {
				for ; e >= 0; e = c.next[e] {
					if !yield(c.life[e]) {
						return
					}
				}
			}
		}
	}
}
