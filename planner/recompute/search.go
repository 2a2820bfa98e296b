package recompute

import (
	"math"
	"slices"

	"memopt/planner/internal/numbers"
)

// search improves plans for one limit by exact simulation. Its moves:
//
//   - repair drops values at the peak until the plan is within the limit (repair.go);
//   - restore keeps again what turned out to fit (restore.go);
//   - exchange keeps one value that does not fit, repairs and restores;
//   - anneal changes the plan at random (anneal.go).
//
// Work is counted in simulated launches. Each stage of a search may take a share of it.
type search struct {
	s     *Solver
	sim   *simulator // of the current plan
	tried *simulator // of a change of it
	limit int64
	work  int64 // for all stages together
	begun int64 // work of the simulator when the stage began
	until int64 // … and when it ends

	best   plan // no gone: none was found
	extra  float64
	bound  float64 // no plan costs less
	enough float64 // a plan of this cost need not be improved
	most   float64 // nor one of this, which the caller accepts

	gain       []float64               // by value: bytes over the limit saved for each unit of cost when dropping it was measured last
	candidates numbers.Heap[candidate] // what may be dropped at the peak and was not measured yet
	touched    []int32                 // by value: the last place that touched it before the peak, or reran its maker
	changed    plan                    // a buffer: what tried simulates
	events     []event                 // a buffer
	triedAt    int                     // the count of walks of sim when a change was tried last
	restored   int                     // the simulator's count of walks when it had walked the plan that is being restored
	begunWith  []plan                  // by followAll
}

// patience is how many walks of the whole program a stage may take beyond its work while there is no plan at all.
const patience = 64

func (s *Solver) newSearch(limit, work int64) *search {
	if s.tried == nil {
		s.tried = s.sim.another()
	}
	x := &search{s: s, sim: s.sim, tried: s.tried, limit: limit, work: work,
		gain: make([]float64, len(s.p.Bytes)), touched: make([]int32, len(s.p.Bytes)), extra: math.Inf(1)}
	x.measureAnew()
	x.stage(1)
	return x
}

// measureAnew discards what dropping each value gained.
func (x *search) measureAnew() {
	for v := range x.gain {
		x.gain[v] = math.Inf(1)
	}
}

// stage begins a stage with a share of the work.
func (x *search) stage(share float64) {
	x.begun = x.sim.work
	x.until = x.begun + int64(float64(x.work)*share)
}

// ended reports whether the stage has used its work. While there is no plan it may take some more.
func (x *search) ended() bool {
	return x.sim.work >= x.until && (x.best.gone != nil || x.sim.work >= x.begun+x.work/2+patience*int64(len(x.s.p.Cost)))
}

// done reports whether the stage has ended, or the best plan need not be improved.
func (x *search) done() bool { return x.ended() || x.extra <= max(x.enough, x.most) }

// offer makes a plan the best if it is cheaper.
func (x *search) offer(p plan, extra float64) {
	if extra < x.extra {
		x.best, x.extra = p, extra
	}
}

// method is how improve treats the plans that it begins with: it repairs each while that costs less than most, restores
// it, and offers the result.
type method struct {
	most     func(x *search) float64
	anew     bool // measure what dropping each value gains anew
	once     bool // skip plans that a method with once began with before
	early    bool // the first plan within the limit is offered before it is restored, so that restoring is within the stage's work
	exchange bool // exchange as well
}

var (
	followCheaper = method{most: func(x *search) float64 { return x.extra }, early: true}
	followAll     = method{most: anyCost, anew: true, once: true, early: true}
	followNear    = method{most: func(x *search) float64 { return x.extra + max(0, x.extra-x.bound) }, anew: true} // as far above the best plan as that is above the bound
	exchangeEach  = method{most: anyCost, exchange: true}
)

func anyCost(*search) float64 { return math.Inf(1) }

// improve improves plans by a method.
func (x *search) improve(starts []func() plan, m *method) {
	for _, start := range starts {
		if x.done() {
			return
		}
		p := start()
		if m.once {
			if slices.ContainsFunc(x.begunWith, p.equal) {
				continue
			}
			x.begunWith = append(x.begunWith, p.clone())
		}
		if m.anew {
			x.measureAnew()
		}
		if !x.repair(&p, m.most(x)) {
			continue
		}
		if m.early && x.best.gone == nil {
			x.best, x.extra = p.clone(), x.sim.extra
		}
		extra := x.restore(&p)
		if m.exchange {
			p, extra = x.exchange(p, extra)
		}
		x.offer(p, extra)
	}
}

// exchangeBest exchanges in the best plan. The result replaces it even at the same cost: it has no events without
// effect.
func (x *search) exchangeBest(share float64) {
	x.stage(share)
	if x.best.gone != nil {
		x.best, x.extra = x.exchange(x.best, x.extra)
	}
}

// exchange keeps a dropped value that does not fit and drops what is cheaper to lose, as long as that pays.
func (x *search) exchange(p plan, extra float64) (plan, float64) {
	for better := true; better && !x.done(); {
		better = false
		for _, c := range x.drops(&p) {
			q := p.clone()
			q.remove(c.change)
			if x.repair(&q, extra) {
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
