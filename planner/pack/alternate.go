package pack

// alternate packs p if no three of its lives meet, as the values of a chain of operations do that each read one and make one.
// A life lies at the bottom or on those at the bottom that it meets, whichever the one does not that it meets as it begins. No
// packing is lower, but for what alignments want. It reports false if three meet.
func (p *part) alternate() bool {
	if p.job.off("alternate") {
		return false
	}
	defer p.job.run("alternate", p)()
	open := nobody // of those that have begun, the one that ends last
	above := make([]bool, len(p.lives))
	at := make([]int64, len(p.lives))
	for i, l := range p.lives {
		at[i] = up(p.floor, l.align)
		if open == nobody || p.lives[open].r <= l.l {
			open = i
			continue
		}
		o := p.lives[open]
		if i+1 < len(p.lives) && p.lives[i+1].l < min(o.r, l.r) {
			return false
		}
		if above[i] = !above[open]; above[i] {
			at[i] = max(at[i], up(at[open]+o.size, l.align))
		} else {
			at[open] = max(at[open], up(at[i]+l.size, o.align))
		}
		if l.r > o.r {
			open = i
		}
	}
	p.keep(part{offsets: at, top: topOf(p.lives, at), by: "alternate"})
	return true
}
