package limits

import "math"

const (
	// smallArena is the most units of the alignment that the arena of a small program may have. In such an arena the
	// alignment of values takes more bytes than two limits of the grid differ by.
	smallArena = 64 * gridLimits
	wholeMost  = 128 // limits that are searched of a small program
)

// Small reports whether the program is searched as a whole.
func (l *Limits[P]) Small() bool {
	return l.Operators <= Small && l.Base.Height() <= smallArena*l.Align
}

// whole is all plans of a small program, highest first: each costs more than the one before it.
func (l *Limits[P]) whole() []P {
	if l.all == nil {
		for _, c := range l.each() {
			l.all = append(undercut(l.all, 0, c), c)
		}
	}
	return l.all
}

// undercut is plans, highest first, without those behind the first few that cost as much as a lower one or more.
func undercut[P Plan](all []P, keep int, lower P) []P {
	n := len(all)
	for n > keep && all[n-1].Cost() >= lower.Cost() {
		n--
	}
	return all[:n]
}

// each is what is found for limits from everything kept downwards, each plan with less arena than the one before.
func (l *Limits[P]) each() []P {
	all := []P{l.Trimmed(l.Base)}
	var passed P
	lowest := all[0].Height()
	width := max(lowest/wholeMost, 1)
	for next := lowest - 1; next > 0; {
		c := l.At(next, math.Inf(1), Usual)
		switch {
		case !none(c):
			c = l.Trimmed(c)
			lowest = c.Height()
			if low := all[len(all)-1]; lowest < low.Height() {
				if passed = c; c.Peak() <= low.Peak() {
					var no P
					all, passed = append(all, c), no
				}
			}
			next = min(next-width, lowest-1)
		case width == 0:
			next = 0
		default: // there may be one in between
			if width /= 2; width < l.Align {
				width = 0
			}
			next = lowest - 1 - width
		}
	}
	// Arenas of few bytes may fall while the bytes alive in them rise. Less of both comes first, but nothing comes
	// before a plan for what no other is within.
	if !none(passed) && passed.Peak() <= l.Base.Peak() {
		for all[len(all)-1].Peak() < passed.Peak() {
			all = all[:len(all)-1]
		}
		all = append(all, passed)
	}
	return all
}
