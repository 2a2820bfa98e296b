package pack

import "math"

// alternate packs p if no three of its lives meet, as the values of a chain of operations do that each read one and make one.
// A life lies at the bottom or at the top, whichever the one does not that it meets as it begins. No packing is lower, but
// for what alignments want. It reports false if three meet.
func (p *part) alternate() bool {
	const nobody = -1
	open := nobody // of those that have begun, the one that ends last
	above := make([]bool, len(p.lives))
	q := part{offsets: make([]int64, len(p.lives)), top: math.MinInt64, by: "alternate"}
	for i, l := range p.lives {
		low := up(p.floor, l.align)
		q.offsets[i] = low
		q.top = max(q.top, low+l.size)
		if open == nobody || p.lives[open].r <= l.l {
			open = i
			continue
		}
		o := p.lives[open]
		if above[i] = !above[open]; above[i] {
			q.top = max(q.top, up(q.offsets[open]+o.size, l.align)+l.size)
		} else {
			q.top = max(q.top, up(low+l.size, o.align)+o.size)
		}
		if i+1 < len(p.lives) && p.lives[i+1].l < min(o.r, l.r) {
			return false
		}
		if l.r > o.r {
			open = i
		}
	}
	for i, l := range p.lives {
		if above[i] {
			q.offsets[i] = (q.top - l.size) / l.align * l.align
		}
	}
	p.keep(q)
	return true
}
