package pack

// Whoever asks for a packing within a capacity, soon or not at all, has another problem to ask for if there is none. So
// nothing that is lower or higher than the capacity is looked for on the way, as a portfolio does.

// meshes say which lives wait at first, one after another. The first two are unlike each other: what a search does not get
// through as there are too many lives in it, the one lightens, and what finds no room beside those, the other takes in.
var meshes = [...]wait{{0.03, 0.3}, {0.01, 0.15}, {0.05, 0.4}}

// reach packs p up to near, if it finds out how with the quick means or with so many looks at its large lives; or else
// higher.
func (p *part) reach(goal, near int64, looks int) {
	p.unplaced()
	if len(p.lives) <= few {
		p.orders(strategies, p.space(patience*len(p.lives)), near)
	} else if p.nests(near) || p.rings(goal, near) || p.settles(near, never) {
		return
	}
	if p.top > near {
		p.keep(p.joins(goal, near))
	}
	if p.top <= near {
		return
	}
	c := newClimb(p, goal, goal/max(near-goal, 1)+1)
	s, _ := c.first()
	p.keep(p.from(s))
	for _, w := range meshes {
		if p.top <= near {
			return
		}
		x := &sift{part: p, goal: goal, best: *p, most: looks / (len(meshes) - 1)}
		x.join(x.large(w, goal), near)
		p.keep(x.best)
	}
}
