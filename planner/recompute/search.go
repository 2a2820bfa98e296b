package recompute

import (
	"math"
	"slices"
)

// search improves plans for a limit by exact simulation. Each stage of it has work of its own.
type search struct {
	s      *Solver
	sim    *simulator
	trial  *trial
	walked int // walks of the simulator when it had walked the plan that is being restored
	limit  int64
	work   int64 // of which stages have parts
	begun  int64 // work of the simulator when the stage began
	until  int64 // and when it ends
	worth  []float64
	scrape []event
	open   heap[change] // what can be forgotten at the peak and was not measured yet
	used   []int32      // by value: the last place that touched it, up to the peak
	best   plan
	extra  float64 // of best
	enough float64 // a plan for this need not be improved
	most   float64 // nor one for this
	seen   []plan  // starts that were followed whatever they cost
	tabu   event   // not to be forgotten, if tabued
	tabued bool
}

// patience is how many walks of the whole program are simulated beyond the work of a stage
// while there is no plan at all.
const patience = 64

func (s *Solver) newSearch(limit, work int64) *search {
	x := &search{s: s, sim: s.sim, trial: s.trial, limit: limit, work: work,
		worth: make([]float64, len(s.p.Bytes)), used: make([]int32, len(s.p.Bytes)), extra: math.Inf(1)}
	x.forgetWorth()
	x.stage(1)
	return x
}

// forgetWorth has every change measured anew.
func (x *search) forgetWorth() {
	for v := range x.worth {
		x.worth[v] = math.Inf(1)
	}
}

// stage begins a stage that may take a part of the work.
func (x *search) stage(part float64) {
	x.begun = x.sim.work
	x.until = x.begun + int64(float64(x.work)*part)
}

// ended reports whether the stage has had its work. Until there is a plan, it may take some more.
func (x *search) ended() bool {
	return x.sim.work >= x.until && (x.best.gone != nil || x.sim.work >= x.begun+x.work/2+patience*int64(len(x.s.p.Cost)))
}

func (x *search) done() bool { return x.ended() || x.extra <= max(x.enough, x.most) }

// offer makes a plan the best if it is cheaper than that.
func (x *search) offer(p plan, extra float64) {
	if extra < x.extra {
		x.best, x.extra = p, extra
	}
}

// descend repairs and improves plans, and remembers the best. far follows also what costs more
// than the best before it is improved.
func (x *search) descend(starts []func() plan, far bool, part float64) {
	x.stage(part)
	for _, start := range starts {
		if x.done() {
			return
		}
		p, most := start(), x.extra
		if far {
			if slices.ContainsFunc(x.seen, p.equal) {
				continue
			}
			x.seen = append(x.seen, p.clone())
			x.forgetWorth()
			most = math.Inf(1)
		}
		if x.repair(&p, most) {
			if x.best.gone == nil { // a plan at all: restoring is within the work from here on
				x.best, x.extra = p.clone(), x.sim.extra
			}
			extra := x.restore(&p)
			x.offer(p, extra)
		}
	}
}

// exchangeBest improves the best plan by exchanges.
func (x *search) exchangeBest(part float64) {
	x.stage(part)
	if x.best.gone != nil { // even if it costs as much: events that nothing follows from are no longer there
		x.best, x.extra = x.exchange(x.best, x.extra)
	}
}

// explore improves every start by exchanges of its own.
func (x *search) explore(starts []func() plan, part float64) {
	x.stage(part)
	for _, start := range starts {
		if x.done() {
			return
		}
		if p := start(); x.repair(&p, math.Inf(1)) {
			extra := x.restore(&p)
			x.offer(x.exchange(p, extra))
		}
	}
}

// exchange keeps something that does not fit, and forgets what is cheaper to lose instead,
// as long as that pays.
func (x *search) exchange(p plan, extra float64) (plan, float64) {
	for better := true; better && !x.done(); {
		better = false
		for _, c := range x.savings(&p) {
			q := p.clone()
			q.remove(c)
			x.tabu, x.tabued = c.event, true
			repaired := x.repair(&q, extra)
			x.tabued = false
			if repaired {
				if e := x.restore(&q); e < extra {
					p, extra, better = q, e, true
					break
				}
			}
			if x.done() {
				break
			}
		}
	}
	return p, extra
}
