package recompute

import (
	"math"
	"slices"
)

// change is one thing more to forget: at the border, or at another place.
type change struct {
	event
	border bool
	stale  float64 // what it was worth when it was measured last
	order  int32   // of the instance that it is about
}

// before puts first what was worth most.
func (a change) before(b change) bool {
	return a.stale > b.stale || a.stale == b.stale && a.order < b.order
}

// try tells what a change makes of a plan that was simulated last, or taken in
// by another try. It reports false if that costs as much as most.
func (x *search) try(p *plan, c event, more bool, most float64) bool {
	sim := x.sim
	if x.trial.walks != sim.walks {
		x.trial.prepare()
	}
	ok := x.trial.change(c, more, most)
	begun := 0
	if len(p.events) == 0 || p.events[0].at >= x.s.p.Border && c.at >= x.s.p.Border {
		begun = sim.border.launches
	}
	sim.work += int64(x.trial.launches-begun) + int64(x.trial.launches/4) + trialWork
	return ok
}

// trialWork is how many launches take as long as a trial however few it walks.
const trialWork = 128

// apply makes a change.
func (p *plan) apply(c event, border bool) {
	if border {
		p.gone[c.value] = true
		return
	}
	i, _ := p.search(c)
	p.events = slices.Insert(p.events, i, c)
}

// repair forgets values at the peak until it is within the limit, the most
// bytes over it for the least cost first. It reports false if that does not go,
// or costs more than most.
//
// What forgetting a value is worth is measured by simulation and changes slowly
// from one choice to the next: the last measure ranks, and measuring anew ends
// when the best of this choice beats the next one's last measure.
func (x *search) repair(p *plan, most float64) bool {
	if !x.sim.run(*p, x.limit) {
		return false
	}
	for x.sim.peak > x.limit {
		if x.sim.extra >= most || x.ended() {
			return false
		}
		x.options(p)
		area, extra := x.sim.area, x.sim.extra
		var best change
		bestWorth := 0.0
		for len(x.open) > 0 {
			c := x.open.pop()
			if bestWorth > 0 && bestWorth >= c.stale || x.ended() {
				break
			}
			worth := math.Inf(-1)
			if x.try(p, c.event, true, most) {
				worth = (area - x.trial.over) / max(x.trial.extra-extra, x.s.unit)
			}
			x.worth[c.value] = worth
			if worth > bestWorth {
				best, bestWorth = c, worth
			}
		}
		if bestWorth == 0 {
			return false
		}
		p.apply(best.event, best.border)
		if !x.sim.run(*p, x.limit) {
			return false
		}
	}
	return x.sim.extra < most
}

// options finds what can be forgotten at the peak.
func (x *search) options(p *plan) {
	sim, prob := x.sim, x.s.p
	worst := sim.worst
	sim.touched(x.used, worst)
	for _, v := range prob.Inputs.Of(sim.ops[worst]) {
		x.used[v] = -1
	}
	for _, v := range prob.Over.Of(sim.ops[worst]) {
		x.used[v] = sim.place[worst] // forgotten right behind, it may be written over
	}
	behind := sim.place[worst] >= prob.Border
	x.open = x.open[:0]
	lives := sim.lives[:sim.made[worst]] // what was made before
	for i := range lives {
		v := lives[i].value
		if lives[i].last <= worst || x.used[v] < 0 || !x.s.may(v) {
			continue
		}
		c := change{event: event{max(x.used[v]+1, prob.until(v)), v}, stale: x.worth[v], order: int32(i)}
		if c.at > sim.place[worst]+1 {
			continue // it stays
		}
		if behind && c.at <= prob.Border {
			if p.gone[v] {
				continue
			}
			c.border = true
		} else if _, known := p.search(c.event); known {
			continue
		}
		if x.tabued && c.value == x.tabu.value && (c.at == x.tabu.at || c.border && x.tabu.at == prob.Border) {
			continue
		}
		x.open.push(c)
	}
}
