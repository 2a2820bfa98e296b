package pack

// lane is one of the climbs in stages that are made side by side. Of few lives a stage is too short for two cores to share, and
// each core has a lane of its own; of many, both try the routes of one.
type lane struct {
	*climb
	s      *skyline // what climbs
	trials [tries]*skyline
	late   *skyline // the last climb from the floor, before its end
	ends   int      // how many more ends are to be tried from there
	turn   int      // which route comes next in a stage
	pace   int      // by how many routes the next stage starts elsewhere
	looks  int
}

const alone = 8000 // lives that a core climbs alone, at most

// widen has climbs try all the routes that they can for a stage, anew from the floor.
func (c *climb) widen() {
	c.tries, c.ups = tries, 0
	for _, l := range c.lanes {
		l.ends = 0
	}
}

// another is the lower of best and of one more climb in each lane: from the floor, or another end of the last one from there.
func (c *climb) another(best *skyline, stopped func() bool) *skyline {
	var ups []attempt
	var reached [2]bool
	for i, l := range c.lanes {
		l.begin()
		ups = append(ups, func(func() bool) bool {
			reached[i] = l.once(best.highest-1, stopped)
			return false
		})
	}
	firstOf(ups...)
	looks := 0
	for i, l := range c.lanes {
		looks += l.looks
		if reached[i] && l.s.highest < best.highest {
			best, l.s = l.s, best
		}
	}
	c.looks += looks
	c.clock.share(looks)
	return best
}

// begin has l take the routes as no climb before.
func (l *lane) begin() {
	l.turn, l.pace = 1+(len(routes)-1)*l.ups, l.ups/len(routes)
	l.ups++
}

// from is the stage from whose end l climbs next.
func (l *lane) from() int {
	if l.ends > 0 {
		return late
	}
	return 0
}

// once climbs all the way up, unless that is sure to be higher than most or it is stopped.
func (l *lane) once(most int64, stopped func() bool) bool {
	if l.s == nil {
		l.s = l.base.twin()
	}
	for i := range l.tries {
		if l.trials[i] == nil {
			l.trials[i] = l.base.twin()
		}
	}
	l.looks = 0
	from := l.from()
	if from > 0 {
		l.s.become(l.late)
		l.ends--
	} else {
		l.s.become(l.base)
	}
	for at := from + 1; at <= stages; at++ {
		best := &l.trials[l.try(at)]
		l.s, *best = *best, l.s
		l.turn += l.pace
		if l.s.sure() > most || stopped() {
			return false
		}
		if at == late && from == 0 {
			if l.late == nil {
				l.late = l.base.twin()
			}
			l.late.become(l.s)
			l.ends = endings
		}
	}
	return true
}

// try takes the trials from where l is to the end of a stage, and says which presses least there.
func (l *lane) try(at int) (best int) {
	for _, t := range l.trials[:l.tries] {
		t.route = routes[l.turn%len(routes)]
		l.turn++
	}
	var pressed [tries]float64
	var ups [tries]attempt
	for i, t := range l.trials[:l.tries] {
		ups[i] = func(func() bool) bool {
			t.become(l.s)
			l.ascend(t, at)
			pressed[i] = t.pressed(l.goal)
			return false
		}
	}
	if len(l.lanes) > 1 {
		for _, up := range ups[:l.tries] {
			up(never)
		}
	} else {
		firstOf(ups[:l.tries]...)
	}
	for i, t := range l.trials[:l.tries] {
		l.looks += t.looks
		if pressed[i] < pressed[best] {
			best = i
		}
	}
	return best
}
