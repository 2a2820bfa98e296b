package pack

import (
	"slices"
	"sync/atomic"
)

// lane is one of the climbs in stages that are made side by side. Of few lives a stage is too short for two cores to share, and
// each core has a lane of its own; of many, both try the routes of one.
type lane struct {
	*climb
	trials  [tries]*skyline // what climbs: the same at the begin of each stage
	best    int             // the trial that the others follow
	at      int             // the stage that they are in
	behind  atomic.Int32    // those that do not stand where the best of the stage before has ended
	pressed [tries]float64
	focus   []focus  // what bytes weigh as the others follow it
	late    *skyline // the last climb from the floor, before its end
	ends    int      // how many more ends are to be tried from there
	turn    int      // which route comes next in a stage
	pace    int      // by how many routes the next stage starts elsewhere
	looks   int
}

// focus is what a byte weighs in all sections before each, on the routes that have a focus.
type focus struct {
	on   float64
	sums []float64
}

const alone = 8000 // lives that a core climbs alone, at most

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
		if t := &l.trials[l.best]; reached[i] && (*t).highest < best.highest {
			best, *t = *t, best
		}
	}
	c.looks += looks
	c.clock.share(looks)
	return best
}

// begin has l take the routes as no climb before.
func (l *lane) begin() {
	if l.scale.hard == nil {
		l.scale = newScale(l.goal)
	}
	l.turn, l.pace = 1+(len(routes)-1)*l.ups, l.ups/len(routes)
	l.ups++
}

// from is the stage from whose end l climbs next.
func (l *lane) from() int {
	if l.ends > 0 {
		return l.endsFrom()
	}
	return 0
}

// once climbs all the way up, unless that is sure to be higher than most or it is stopped.
func (l *lane) once(most int64, stopped func() bool) bool {
	from, start := l.from(), l.base
	if from > 0 {
		start = l.late
		l.ends--
	}
	for i := range l.trials[:l.tries] {
		if l.trials[i] == nil {
			l.trials[i] = start.twin()
		} else {
			l.trials[i].become(start)
		}
	}
	l.looks = 0
	c := newCrew(l.tries, len(l.lanes) == 1, l.trial)
	defer c.dismiss()
	for at := from + 1; at <= l.stages; at++ {
		l.try(c, at)
		l.turn += l.pace
		s := l.trials[l.best]
		if s.least() > most || stopped() {
			return false
		}
		if at == l.endsFrom() && from == 0 {
			if l.late == nil {
				l.late = l.base.twin()
			}
			l.late.become(s)
			l.ends = endings
		}
	}
	return true
}

// try takes the trials to the end of a stage, which begins where the best of the stage before has ended. That one is the last to
// begin, as the others follow it first.
func (l *lane) try(c *crew, at int) {
	trials := l.trials[:l.tries]
	last := len(trials) - 1
	trials[l.best], trials[last] = trials[last], trials[l.best]
	for _, t := range trials {
		t.route = routes[l.turn%len(routes)]
		t.weight = l.weights(t.route.focus)
		l.turn++
	}
	for _, f := range l.focus {
		trials[last].sumUp(f.sums[1:], f.on)
	}
	l.at, l.best = at, 0
	l.behind.Store(int32(last))
	c.each()
	for i, t := range trials {
		l.looks += t.looks
		if l.pressed[i] < l.pressed[l.best] {
			l.best = i
		}
	}
}

// trial takes one of the trials through a stage.
func (l *lane) trial(i int) {
	t, last := l.trials[i], l.tries-1
	if i < last {
		t.follow(l.trials[last])
		l.behind.Add(-1)
	} else {
		until(func() bool { return l.behind.Load() == 0 })
	}
	l.ascend(t, l.at, l.stages)
	l.pressed[i] = l.scale.pressed(t.sure)
}

// weights are those of a focus, which are to be brought up to date.
func (l *lane) weights(on float64) []float64 {
	k := slices.IndexFunc(l.focus, func(f focus) bool { return f.on == on })
	if k < 0 {
		k = len(l.focus)
		l.focus = append(l.focus, focus{on, make([]float64, l.base.sections+1)})
	}
	return l.focus[k].sums
}
