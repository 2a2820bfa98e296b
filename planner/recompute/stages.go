package recompute

import (
	"math"
	"slices"
)

// solving is a limit being solved: what is known of it, and what each pass (passes.go)
// leaves to those to come. Most have a share of the work, and end sooner where the plan is
// near its bound, or no dearer than whoever asks would take.
type solving struct {
	s      *Solver
	limit  int64
	ask    Ask
	work   int64
	x      *search // nil until there are cuts
	bounds bool    // only a bound is asked for
	upTo   float64 // … in units, at most
	e      evidence
	had    proof   // what was tried to raise that before
	least  float64 // what any plan costs by that

	proof    proof
	eligible bool // passes of that may run
	over     bool // no other pass is needed
	by       string
	tries    []Try
	taken    Answer // launches that are no plan, if there are some

	at       []bounded     // places that bind, as they were at first
	starts   []func() plan // by what cuts keep there
	cheapest []func() plan // by what costs least at a place, if that led anywhere
	evicted  []func() plan // of evictors
	tight    *tight        // of tails

	opened bool // starts left a gap
	paired bool // a plan for two places was better than those before
}

// What passes may take. More explored starts, or narrower gaps to anneal, cost time for tenths of a point.
const (
	explored     = 2       // plans of evictors that are improved by exchanges at once
	wider        = 0.002   // a gap, as a part of the whole cost, that annealing or the coarse program may close
	mostImproved = 1 << 14 // operators of a program that has a plan, for evictors or the coarse program to look for a cheaper one
)

// solve finds a plan within a limit with some work.
func (s *Solver) solve(limit int64, ask Ask, work int64) (Answer, bool) {
	if s.top <= limit {
		return s.answer(s.keep, 0), true
	}
	l := &solving{s: s, limit: limit, ask: ask, work: work, taken: Answer{Extra: math.Inf(1)}, eligible: true}
	l.drive()
	return l.answer()
}

// raised raises the bound of a limit, by all that may be proven, up to a target.
func (s *Solver) raised(limit int64, target float64) evidence {
	l := &solving{s: s, limit: limit, bounds: true, upTo: target, eligible: true}
	l.drive()
	return l.e
}

// answer is the best that was found; it reports false if there is none.
func (l *solving) answer() (Answer, bool) {
	var a Answer
	switch {
	case !l.e.ok:
		return Answer{}, false
	case l.taken.Launches != nil && l.taken.Extra < l.x.extra:
		a = l.taken
		a.Bound = min(l.least, a.Extra)
	case l.x.best.gone == nil:
		return Answer{}, false
	default:
		a = l.s.answer(l.x.best, l.least)
	}
	a.By, a.Tries = l.by, l.tries
	return a, true
}

// cut makes the cuts, and what follows from them.
func (l *solving) cut() {
	s := l.s
	if l.ask.Effort == Sketch && l.ask.From == nil {
		l.e = s.prove(l.limit, 0)
	} else {
		l.e = s.bound(l.limit)
	}
	l.had = l.e.tried
	if !l.e.ok || l.ask.Most > 0 && l.e.least*s.unit > l.ask.Most*(1+1e-9) {
		l.e.ok, l.over = false, true
		return
	}
	l.at = l.e.at
	if !l.bounds {
		l.x = s.newSearch(l.limit, l.work)
		if l.x.most = -1; l.ask.Most > 0 {
			l.x.most = min(l.ask.Most, math.MaxFloat64)
		}
		l.starts = s.starts(l.at, l.limit)
		if from := l.ask.From; from != nil {
			if l.starts = append(l.starts, from.plan.clone); l.ask.Only {
				l.starts = l.starts[len(l.starts)-1:]
			}
		}
	}
	l.know()
}

// brief reports whether only few passes are asked for.
func (l *solving) brief() bool { return l.ask.Effort == Sketch || l.ask.Effort == Any }

// share is the part of the work by which a pass ends that a sketch has, too.
func (l *solving) share(sketched, full float64) float64 {
	if l.ask.Effort == Sketch {
		return sketched
	}
	return full
}

// anything finds a plan by evictors, or else by repairs of the starts.
func (l *solving) anything() {
	x := l.x
	groups := [][]func() plan{l.starts}
	if l.ask.From == nil {
		groups = [][]func() plan{l.s.evict(l.limit, mostWork/4, math.MaxFloat64, nil), l.starts}
	}
	for _, starts := range groups {
		if l.ask.From == nil {
			x.stage(0.25)
		}
		for _, start := range starts {
			if p := start(); x.repair(&p, math.Inf(1)) {
				x.offer(p, x.sim.extra)
				return
			}
		}
	}
}

// know takes in what is proven.
func (l *solving) know() {
	l.least = l.e.least * l.s.unit
	switch {
	case l.x == nil:
		return
	case l.ask.From != nil:
		l.x.enough = max(l.ask.From.Extra, l.least+good*l.s.total)
	case l.ask.Effort == Sketch:
		l.x.enough = l.least + min(good*l.s.total, l.least/50)
	default:
		l.x.enough = l.least + min(enough*l.s.total, l.least/100)
	}
	l.x.bound = l.least
}

// refute notes that there is no plan.
func (l *solving) refute() { l.e, l.over = l.s.refute(l.limit), true }

// raise takes in a bound in units.
func (l *solving) raise(least float64) { l.e.least = max(l.e.least, least) }

// from is what costs so much more than the bound, as a part of the whole cost, or what
// whoever asks would take if that is more.
func (l *solving) from(gap float64) float64 { return max(l.least+gap*l.s.total, l.x.most) }

// settle takes a plan as best that is not as near to the bound: others were looked at.
func (l *solving) settle() { l.x.enough = max(l.x.enough, l.least+fair*l.s.total) }

// open reports whether the starts left a gap.
func (l *solving) open() bool { return l.opened }

// target is what a bound need not be raised above, in units.
func (l *solving) target() float64 {
	if l.x == nil {
		return l.upTo
	}
	return l.x.extra / l.s.unit
}

func (l *solving) below() bool { return l.e.least < l.target() }

// wants reports whether proofs are tried: where they were not yet, and how good the plan is
// matters.
func (l *solving) wants(p proof) bool {
	s, e := l.s, &l.e
	if l.brief() {
		return false
	}
	if p == raises && !l.bounds {
		l.opened = l.x.extra > l.from(good)
	}
	if l.had >= p {
		return false
	}
	switch p {
	case raises:
		return (l.bounds || l.opened && l.matters()) && len(e.at) > 0 && len(s.p.Cost) <= mostRefined
	default:
		return e.tried >= raises && (l.bounds || l.opened && l.matters() && l.x.extra > l.x.enough)
	}
}

// matters reports whether it matters how good the plan is.
func (l *solving) matters() bool { return l.x.most < 0 && !l.s.isCoarse }

// pairs raises the bound by two places together.
func (l *solving) pairs() {
	var least float64
	least, l.e.pairs = l.s.pairsOf(l.e.at, l.limit, l.target())
	l.raise(least)
}

// fromSets takes the cheapest plan of what costs least at a place.
func (l *solving) fromSets() {
	s, x := l.s, l.x
	best, cost := s.cheapest(l.e.sets, x.limit)
	if cost <= max(x.enough, x.most) {
		x.best, x.extra = best, cost
	} else if best.gone != nil {
		l.cheapest = append(l.cheapest, best.clone)
	}
}

// fromPairs follows the plans of two places.
func (l *solving) fromPairs() {
	before := l.x.extra
	l.x.followPairs(l.e.pairs)
	l.paired = l.x.extra < before
}

// tails raises the bound by what may be there from launch to launch.
func (l *solving) tails() {
	l.tight = l.s.newTight(l.limit, l.target()*l.s.unit)
	least, route := l.tight.tails(l.e.at)
	l.raise(least / l.s.unit)
	l.e.route = route
}

func (l *solving) before() {
	if l.tight != nil {
		l.raise(l.s.before(l.e.at, l.limit, l.tight.behind))
	}
}

func (l *solving) cases() {
	if l.tight != nil {
		least, kept := l.s.cases(l.tight, l.e.at, l.target())
		l.raise(least)
		l.e.kept = kept
	}
}

// takeRoute takes the launches that tails found if no plan that follows will cost much less.
func (l *solving) takeRoute() {
	if l.paired {
		l.settle()
	}
	r := l.e.route
	if r.launches == nil {
		return
	}
	l.over = l.opened && r.extra <= l.from(wide) && r.extra < l.x.extra
	l.taken = Answer{Launches: r.launches, Peak: r.peak, Extra: r.extra}
}

// mayEvict reports whether there is a gap that evictors may close. Of very long programs any plan does.
func (l *solving) mayEvict() bool {
	return l.x.extra > l.from(wide) && (len(l.s.p.Cost) <= mostImproved || l.x.best.gone == nil)
}

// evict improves plans of evictors.
func (l *solving) evict() {
	x := l.x
	l.evicted = l.s.evict(x.limit, x.work/4, x.most, l.e.kept)
	x.improve(l.evicted, &followAll, 0.25)
	l.settle()
	x.improve(l.evicted[:min(explored, len(l.evicted))], &exchangeEach, 0.2)
}

// dropPrefix improves plans that forget the first layers.
func (l *solving) dropPrefix() {
	plans := l.s.prefixPlans(l.e.at, l.limit, l.x.most)
	l.x.improve(plans, &followAll, 0.125)
	l.x.improve(plans[:min(explored, len(plans))], &exchangeEach, 0.125)
}

// mayCoarsen reports whether a gap stays that the coarse program may close.
func (l *solving) mayCoarsen() bool {
	x := l.x
	return x.work >= quickWork && !l.s.isCoarse && x.most < 0 && x.extra > l.from(wider) && len(l.s.p.Cost) <= mostImproved
}

// restart goes on from other starts.
func (l *solving) restart() {
	s, x := l.s, l.x
	x.enough = max(x.enough, l.least+min(good*s.total, l.least/50))
	if l.paired {
		l.settle()
	}
	x.improve(l.cheapest, &followAll, 0.25)
	x.improve(s.combined(l.at), &followAll, 0.1)
	x.improve(s.near(l.at, x.limit), &followAll, 0.1)
}

// mayAnneal reports whether a gap stays that changes at random may close.
func (l *solving) mayAnneal() bool {
	return l.x.work == mostWork && l.x.extra > l.from(wider) && len(l.s.p.Cost) <= mostRefined
}

// exchangeAll improves each start that is left by exchanges of its own.
func (l *solving) exchangeAll() {
	rest := l.evicted[min(explored, len(l.evicted)):]
	if len(l.evicted) == 0 {
		rest = slices.Concat(l.s.combined(l.at), l.starts)
	}
	l.x.improve(rest, &exchangeEach, 0.2)
}
