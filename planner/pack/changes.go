package pack

// changes are what has changed of a skyline since it was the same as others that it will follow, or that will follow it.
type changes struct {
	lives  []int32   // that were placed
	begins []int32   // of stretches that are others, or no more
	lost   []stretch // that will be higher
	passed []stretch // that came to the top of a block
}

// stretch is sections [l, r).
type stretch struct{ l, r int32 }

// forget is for skylines that are the same again.
func (c *changes) forget() {
	c.lives, c.begins, c.lost, c.passed = c.lives[:0], c.begins[:0], c.lost[:0], c.passed[:0]
}

// follow makes s the same as o. Both were the same when they last forgot their changes; only what is among those is copied, as
// climbs in short stages change little between.
func (s *skyline) follow(o *skyline) {
	s.redo(o, &o.changes)
	s.back(o)
}

// back is follow for an o that has not changed.
func (s *skyline) back(o *skyline) {
	s.redo(o, &s.changes)
	s.changes.forget()
	s.placed, s.highest = o.placed, o.highest
	s.turns.become(&o.turns)
}

// redo copies from o what has changed.
func (s *skyline) redo(o *skyline, c *changes) {
	for _, i := range c.lives {
		l := &s.spans[i]
		s.offsets[i] = o.offsets[i]
		s.open[center(l.l, l.r)] = o.open[center(l.l, l.r)]
		s.left.follow(&o.left, l.l, l.r)
		s.firstEnd.follow(&o.firstEnd, s.byBegin.at[i])
		s.lastHead.follow(&o.lastHead, s.byEnd.at[i])
		s.anywhere.follow(&o.anywhere, i)
	}
	for _, a := range c.begins {
		s.end[a], s.before[a], s.height[a] = o.end[a], o.before[a], o.height[a]
	}
	for _, x := range c.passed {
		s.left.follow(&o.left, x.l, x.r)
	}
	for _, x := range c.lost {
		copy(s.sure[x.l:x.r], o.sure[x.l:x.r])
	}
}
