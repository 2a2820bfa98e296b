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

// search improves plans by exact simulation.
type search struct {
	s      *Solver
	sim    *simulator
	trial  *trial
	walked int // walks of the simulator when it had walked what is being taken back from
	limit  int64
	begin  int64 // work of the simulator when it began
	work   int64 // what it may take of that
	until  int64
	stage  int64 // work when the stage began
	worth  []float64
	scrape []event
	open   heap[change] // what can be forgotten at the peak and was not measured yet
	used   []int32      // by value: the last place that touched it, up to the peak
	best   plan
	extra  float64 // of best
	enough float64 // a plan for this need not be improved
	most   float64 // nor one for this
	ways   []way
	tabu   event // not to be forgotten, if tabued
	tabued bool
	// thorough measures every change for every choice.
	thorough bool
}

func (s *Solver) newSearch(limit, work int64) *search {
	x := &search{s: s, sim: s.sim, trial: s.trial, limit: limit, begin: s.sim.work, work: work, until: s.sim.work + work,
		worth: make([]float64, len(s.p.Bytes)), used: make([]int32, len(s.p.Bytes)), extra: math.Inf(1)}
	x.forgetWorth()
	return x
}

// forgetWorth has every change measured anew.
func (x *search) forgetWorth() {
	for v := range x.worth {
		x.worth[v] = math.Inf(1)
	}
}

// ended reports whether a stage has had its work. Until there is a plan, each
// stage may take some more.
func (x *search) ended() bool {
	return x.sim.work >= x.until && (x.best.gone != nil || x.sim.work >= x.stage+x.work/2+patience*int64(len(x.s.p.Cost)))
}

// patience is how many walks of the whole program are simulated beyond the work
// for a limit while there is no plan at all.
const patience = 64

// offer makes a plan the best if it is cheaper than that.
func (x *search) offer(p plan, extra float64) {
	if extra < x.extra {
		x.best, x.extra = p, extra
	}
}

// share sets the part of the work by which a stage ends.
func (x *search) share(part float64) {
	x.until, x.stage = x.begin+int64(float64(x.work)*part), x.sim.work
}

// beside does something whose work is not that of other stages.
func (x *search) beside(stage func()) {
	before := x.sim.work
	stage()
	x.begin += x.sim.work - before
}

// within does something beside other stages that has some work to itself.
func (x *search) within(work int64, stage func()) {
	x.beside(func() {
		begin, all := x.begin, x.work
		x.begin, x.work = x.sim.work, work
		stage()
		x.begin, x.work = begin, all
	})
}

func (x *search) done() bool { return x.ended() || x.extra <= max(x.enough, x.most) }

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
			if bestWorth > 0 && bestWorth >= c.stale && !x.thorough || x.ended() {
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
