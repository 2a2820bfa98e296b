package recompute

import (
	"math"
)

// solving is one limit being solved: what is known of it, and what each pass leaves to those after it.
type solving struct {
	s         *Solver
	limit     int64
	ask       Ask
	work      int64
	x         *search // nil until there are cuts
	boundOnly bool    // no plan is asked for
	target    float64 // … and the bound need not be above this, in units

	e           evidence
	triedBefore proof   // the passes that raised the bound when the limit was solved before
	bound       float64 // no plan costs less

	proof    proof // the group of the current pass
	eligible bool  // passes of that group may run
	finished bool  // no more passes run
	by       string
	tries    []Try
	route    Answer // launches that come from no plan, if tails found some

	places   []bounded     // the places that bind, by the bounds of the cuts
	starts   []func() plan // what the cuts keep
	setPlans []func() plan // the cheapest sets at a place that are within the limit, if no pass took that plan
	evicted  []func() plan
	prefixed []func() plan
	states   *stateSearch // the states of tails

	gapOpen bool // starts left a gap
	paired  bool // a plan of two places was better than those before
}

const (
	explored     = 2       // plans of evictors that are exchanged in at once; the rest waits for exchange all
	wider        = 0.002   // a gap, as a part of the whole cost, that annealing or the coarse program may close
	mostImproved = 1 << 14 // operators of a program that has a plan, for evictors or the coarse program to look for a cheaper one
)

// solve finds a plan within a limit with some work.
func (s *Solver) solve(limit int64, ask Ask, work int64) (Answer, bool) {
	if s.plainPeak <= limit {
		return s.answer(s.plainPlan, 0), true
	}
	l := &solving{s: s, limit: limit, ask: ask, work: work, route: Answer{Extra: math.Inf(1)}, eligible: true}
	l.drive()
	return l.answer()
}

// raised raises the bound of a limit by all passes that do, up to a target in units.
func (s *Solver) raised(limit int64, target float64) evidence {
	l := &solving{s: s, limit: limit, boundOnly: true, target: target, eligible: true}
	l.drive()
	return l.e
}

// answer is the best plan; it reports false if there is none.
func (l *solving) answer() (Answer, bool) {
	var a Answer
	switch {
	case !l.e.ok:
		return Answer{}, false
	case l.route.Launches != nil && l.route.Extra < l.x.extra:
		a = l.route
		a.Bound = min(l.bound, a.Extra)
	case l.x.best.gone == nil:
		return Answer{}, false
	default:
		a = l.s.answer(l.x.best, l.bound)
	}
	a.By, a.Tries = l.by, l.tries
	return a, true
}

// brief reports whether the effort is one of few passes.
func (l *solving) brief() bool { return l.ask.Effort == Sketch || l.ask.Effort == Any }

// share is the share of the work of a pass.
func (l *solving) share(sketch, full float64) float64 {
	if l.ask.Effort == Sketch {
		return sketch
	}
	return full
}

// know takes in what is proven.
func (l *solving) know() {
	l.bound = l.e.least * l.s.unit
	switch {
	case l.x == nil:
		return
	case l.ask.From != nil:
		l.x.enough = max(l.ask.From.Extra, l.bound+good*l.s.total)
	case l.ask.Effort == Sketch:
		l.x.enough = l.bound + min(good*l.s.total, l.bound/50)
	default:
		l.x.enough = l.bound + min(enough*l.s.total, l.bound/100)
	}
	l.x.bound = l.bound
}

// raise takes in a bound in units.
func (l *solving) raise(least float64) { l.e.least = max(l.e.least, least) }

// above is the cost of a gap, as a part of the whole cost, above the bound; or what the caller accepts, if that is more.
func (l *solving) above(gap float64) float64 { return max(l.bound+gap*l.s.total, l.x.most) }

// settle accepts a plan that is less close to the bound, as other kinds of starts were tried.
func (l *solving) settle() { l.x.enough = max(l.x.enough, l.bound+fair*l.s.total) }

// open reports whether the starts left a gap.
func (l *solving) open() bool { return l.gapOpen }

// aim is what the bound need not be raised above, in units.
func (l *solving) aim() float64 {
	if l.x == nil {
		return l.target
	}
	return l.x.extra / l.s.unit
}

// below reports whether the bound may be raised.
func (l *solving) below() bool { return l.e.least < l.aim() }

// wants reports whether a group of passes that raise the bound runs: if it did not before, and it matters how good the
// plan is.
func (l *solving) wants(p proof) bool {
	s, e := l.s, &l.e
	if l.brief() {
		return false
	}
	if p == raises && !l.boundOnly {
		l.gapOpen = l.x.extra > l.above(good)
	}
	if l.triedBefore >= p {
		return false
	}
	matters := l.boundOnly || l.gapOpen && l.x.most < 0 && !s.isCoarse
	if p == raises {
		return matters && len(e.at) > 0 && len(s.p.Cost) <= mostRefined
	}
	return e.tried >= raises && matters && (l.boundOnly || l.x.extra > l.x.enough)
}

// What the passes do, in their order.

// cut makes the cuts, and the plans of what they keep.
func (l *solving) cut() {
	s := l.s
	if l.ask.Effort == Sketch && l.ask.From == nil {
		l.e = s.prove(l.limit, 0)
	} else {
		l.e = s.bound(l.limit)
	}
	l.triedBefore = l.e.tried
	if !l.e.ok || l.ask.Most > 0 && l.e.least*s.unit > l.ask.Most*(1+1e-9) {
		l.e.ok, l.finished = false, true
		return
	}
	l.places = l.e.at
	if !l.boundOnly {
		l.x = s.newSearch(l.limit, l.work)
		if l.x.most = -1; l.ask.Most > 0 {
			l.x.most = min(l.ask.Most, math.MaxFloat64)
		}
		l.starts = s.starts(l.places, l.limit)
		if from := l.ask.From; from != nil {
			if l.starts = append(l.starts, from.plan.clone); l.ask.Only {
				l.starts = l.starts[len(l.starts)-1:]
			}
		}
	}
	l.know()
}

// anything takes the first plan within the limit, of evictors or else of repairs of the starts.
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

func (l *solving) cutStarts() []func() plan { return l.starts }

// pairs raises the bound by two places together.
func (l *solving) pairs() {
	var least float64
	least, l.e.pairs = l.s.pairsOf(l.e.at, l.limit, l.aim())
	l.raise(least)
}

// fromSets takes the cheapest plan of the sets that cost least at a place.
func (l *solving) fromSets() {
	x := l.x
	best, cost := l.s.cheapest(l.e.sets, x.limit)
	if cost <= max(x.enough, x.most) {
		x.best, x.extra = best, cost
	} else if best.gone != nil {
		l.setPlans = append(l.setPlans, best.clone)
	}
}

// fromPairs improves the plans of two places.
func (l *solving) fromPairs() {
	before := l.x.extra
	l.x.followPairs(l.e.pairs)
	l.paired = l.x.extra < before
}

// tails raises the bound by states.
func (l *solving) tails() {
	l.states = l.s.newStateSearch(l.limit, l.aim()*l.s.unit)
	least, route := l.states.tails(l.e.at)
	l.raise(least / l.s.unit)
	l.e.route = route
}

func (l *solving) before() {
	if l.states != nil {
		l.raise(l.s.before(l.e.at, l.limit, l.states.bounds))
	}
}

func (l *solving) cases() {
	if l.states != nil {
		least, kept := l.s.cases(l.states, l.e.at, l.aim())
		l.raise(least)
		l.e.kept = kept
	}
}

// takeRoute takes the launches that tails found if no later plan will cost much less.
func (l *solving) takeRoute() {
	if l.paired {
		l.settle()
	}
	r := l.e.route
	if r.launches == nil {
		return
	}
	l.finished = l.gapOpen && r.extra <= l.above(wide) && r.extra < l.x.extra
	l.route = Answer{Launches: r.launches, Peak: r.peak, Extra: r.extra}
}

// mayEvict reports whether evictors may close the gap. In very long programs any plan will do.
func (l *solving) mayEvict() bool {
	return l.x.extra > l.above(wide) && (len(l.s.p.Cost) <= mostImproved || l.x.best.gone == nil)
}

func (l *solving) evictions() []func() plan {
	l.evicted = l.s.evict(l.limit, l.x.work/4, l.x.most, l.e.kept)
	return l.evicted
}

func (l *solving) bestEvictions() []func() plan {
	l.settle()
	return l.evicted[:min(explored, len(l.evicted))]
}

// mayDropPrefix reports whether a gap stays, the work is full, and the program is long enough, but not too long, for
// plans that drop a prefix.
func (l *solving) mayDropPrefix() bool {
	return l.x.extra > l.above(wide) && l.x.work == mostWork && l.s.p.Border >= longForward && len(l.s.p.Cost) <= mostRefined
}

func (l *solving) prefixes() []func() plan {
	l.prefixed = l.s.prefixPlans(l.e.at, l.limit, l.x.most)
	return l.prefixed
}

func (l *solving) bestPrefixes() []func() plan { return l.prefixed[:min(explored, len(l.prefixed))] }

// mayCoarsen reports whether a gap stays that the coarse program may close.
func (l *solving) mayCoarsen() bool {
	x := l.x
	return x.work >= quickWork && !l.s.isCoarse && x.most < 0 && x.extra > l.above(wider) && len(l.s.p.Cost) <= mostImproved
}

func (l *solving) coarsePlan() []func() plan { return l.s.coarsePlan(l.limit, l.x.work/2) }

func (l *solving) exchangeBest() { l.x.exchangeBest(l.share(0.4, 0.15)) }

// otherSets are plans of sets that nothing began with yet. Restarts accept a plan that is less close to the bound.
func (l *solving) otherSets() []func() plan {
	l.x.enough = max(l.x.enough, l.bound+min(good*l.s.total, l.bound/50))
	if l.paired {
		l.settle()
	}
	return l.setPlans
}

func (l *solving) nearSets() []func() plan { return l.s.near(l.places, l.limit) }

// mayAnneal reports whether a gap stays that random changes may close.
func (l *solving) mayAnneal() bool {
	return l.x.work == mostWork && l.x.extra > l.above(wider) && len(l.s.p.Cost) <= mostRefined
}

// otherStarts are the starts that nothing was exchanged in yet.
func (l *solving) otherStarts() []func() plan {
	if len(l.evicted) == 0 {
		return l.starts
	}
	return l.evicted[min(explored, len(l.evicted)):]
}
