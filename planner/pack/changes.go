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
	s.placed, s.highest = o.placed, o.highest
	for _, c := range [...]*changes{&s.changes, &o.changes} {
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
	s.turns.become(&o.turns)
}
