package recompute

import (
	"math"
	"slices"
)

// change is one value to drop, or a drop to undo: at the border, or before another place.
type change struct {
	event
	border bool
}

// candidate is a change that repair may make.
type candidate struct {
	change
	gain     float64 // when it was measured last
	instance int32   // that it is about
}

// before puts the highest gain first.
func (a candidate) Before(b candidate) bool {
	return a.gain > b.gain || a.gain == b.gain && a.instance < b.instance
}

// trialWork is counted for each change that is tried besides the launches of its walk.
const trialWork = 128

// try simulates a plan with a change; drop is false for a drop to undo. The plan must be the one that was simulated last.
// It reports false if the result costs as much as most, or has too many launches.
func (x *search) try(p *plan, c change, drop bool, most float64) bool {
	q := &x.changed
	q.gone, q.events = append(q.gone[:0], p.gone...), append(q.events[:0], p.events...)
	if drop {
		q.add(c)
	} else {
		q.remove(c)
	}
	ok := x.tried.run(*q, x.limit)
	begun := 0
	if len(p.events) == 0 || p.events[0].at >= x.s.p.Border && c.at >= x.s.p.Border {
		begun = x.sim.atBorder.launches
	}
	x.sim.work += int64(x.tried.launches-begun) + int64(x.tried.launches/4) + trialWork
	x.triedAt = x.sim.walks
	return ok && x.tried.extra < most
}

// add makes a change.
func (p *plan) add(c change) {
	if c.border {
		p.gone[c.value] = true
		return
	}
	i, _ := p.search(c.event)
	p.events = slices.Insert(p.events, i, c.event)
}

// remove undoes a change.
func (p *plan) remove(c change) {
	if c.border {
		p.gone[c.value] = false
	} else if i, known := p.search(c.event); known {
		p.events = slices.Delete(p.events, i, i+1)
	}
}

// repair drops values that are alive at the peak until the plan is within the limit, those first that save most bytes
// over the limit for their cost. It reports false if that fails or costs as much as most.
//
// The gain of dropping a value is measured by simulation, and changes little from one drop to the next. So candidates
// are measured by falling last gain, until the best of this round exceeds the last gain of the next.
func (x *search) repair(p *plan, most float64) bool {
	if !x.sim.run(*p, x.limit) {
		return false
	}
	for x.sim.peak > x.limit {
		if x.sim.extra >= most || x.ended() {
			return false
		}
		x.listCandidates(p)
		over, extra := x.sim.over, x.sim.extra
		var best change
		bestGain := 0.0
		for len(x.candidates) > 0 {
			c := x.candidates.Pop()
			if bestGain > 0 && bestGain >= c.gain || x.ended() {
				break
			}
			gain := math.Inf(-1)
			if x.try(p, c.change, true, most) {
				gain = (over - x.tried.over) / max(x.tried.extra-extra, x.s.unit)
			}
			x.gain[c.value] = gain
			if gain > bestGain {
				best, bestGain = c.change, gain
			}
		}
		if bestGain == 0 {
			return false
		}
		if p.add(best); !x.sim.run(*p, x.limit) {
			return false
		}
	}
	return x.sim.extra < most
}

// listCandidates lists the values that are alive at the peak, are not read there, and may be dropped before it.
func (x *search) listCandidates(p *plan) {
	sim, prob := x.sim, x.s.p
	worst := sim.peakLaunch
	sim.touched(x.touched, worst)
	for _, v := range prob.Inputs.Of(sim.ops[worst]) {
		x.touched[v] = -1
	}
	for _, v := range prob.Over.Of(sim.ops[worst]) {
		x.touched[v] = sim.place[worst] // dropped right after the launch, it may be written over
	}
	afterBorder := sim.place[worst] >= prob.Border
	x.candidates = x.candidates[:0]
	for i, l := range sim.ranges[:sim.firstMade[worst]] {
		v := l.value
		if l.last <= worst || x.touched[v] < 0 || !x.s.droppable(v) {
			continue
		}
		c := candidate{change{event{max(x.touched[v]+1, prob.until(v)), v}, false}, x.gain[v], int32(i)}
		if c.at > sim.place[worst]+1 {
			continue // it must be kept for longer
		}
		if afterBorder && c.at <= prob.Border {
			if p.gone[v] {
				continue
			}
			c.border = true
		} else if _, known := p.search(c.event); known {
			continue
		}
		x.candidates.Push(c)
	}
}
