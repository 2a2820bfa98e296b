package recompute

import (
	"math"
	"slices"
)

// stages solve a limit, one behind another: what is known of it, and what each leaves to
// those to come. Most have a share of the work, and end sooner where the plan is near its
// bound, or no dearer than whoever asks would take.
type stages struct {
	s     *Solver
	x     *search
	e     evidence
	least float64 // what any plan costs by that

	at       []bounded            // places that bind, as they were at first
	starts   []func() plan        // by what cuts keep there
	cheapest []func() plan        // by what costs least at a place, if that led anywhere
	walks    []func() plan        // of evictors
	leads    func() []func() plan // from the front, where those are worked out beside
	giveUp   func()               // has nobody wait for those any more
	aside    found                // what leads came to, where others may come farther

	twinned bool // a plan for two places was better than those before
	distant bool // the plan was far from the bound before there were walks
	led     bool // leads came much nearer to the bound
	leaned  bool // they did, or the lean program had a better plan
}

// explored is how many walks are improved by exchanges each.
const explored = 2

// wider is a gap that annealing may close.
const wider = 0.005

// farther is one that bounds will hardly close.
const farther = 0.008

// far is one that exchanges narrow after all else.
const far = 0.03

// soonAnnealed is how many operators a program may have of which annealing may make
// more than a lean program did.
const soonAnnealed = 512

// solve finds a plan within a limit with some work. If most is not below 0, any plan will do
// that costs no more, and it ends where it is proven that none does.
func (s *Solver) solve(limit int64, most float64, work int64) (Answer, bool) {
	if s.top <= limit {
		return s.answer(s.keep, 0), true
	}
	e := s.bound(limit)
	if !e.ok || most >= 0 && e.least*s.unit > most*(1+1e-9) {
		return Answer{}, false
	}
	if s.tiny {
		work = fewWork // to see whether the first plan meets the bound
	}
	l := &stages{s: s, x: s.newSearch(limit, work), at: e.at, starts: s.starts(e.at, limit), giveUp: func() {}, aside: found{extra: math.Inf(1)}}
	defer func() { l.giveUp() }()
	l.x.most = most
	l.know(e)
	l.x.descend(l.starts, false, 0.25)
	if l.x.extra > l.from(good) {
		if !l.prove() {
			return Answer{}, false
		}
		if r := l.e.route; r.launches != nil && r.extra <= l.from(wide) && r.extra < l.x.extra {
			return r.answer(min(l.least, r.extra)), true
		}
	}
	l.walk()
	l.lead()
	// Where the lean program, or what is forgotten from the front, leads to a better plan, nothing
	// else but annealing finds one that is better still.
	if l.leaned = l.led || l.lean(); l.leaned {
		l.polish()
	} else {
		l.exchange()
	}
	l.anneal()
	if !l.leaned {
		l.explore()
	}
	l.x.offer(l.aside.p, l.aside.extra)
	if s.tiny && l.x.extra > max(l.least*(1+1e-9), most) {
		if a, ok, done := l.exactly(); done {
			return a, ok
		}
	}
	if r := l.e.route; r.launches != nil && r.extra < l.x.extra {
		return r.answer(l.least), true
	}
	if l.x.best.gone == nil {
		return Answer{}, false
	}
	s.last = l.x.best
	return s.answer(l.x.best, l.least), true
}

// know takes in what is proven. It reports false if there is no plan.
func (l *stages) know(e evidence) bool {
	l.e, l.least = e, e.least*l.s.unit
	l.x.enough = l.least + min(enough*l.s.total, l.least/100)
	return e.ok
}

// from is what costs so much more than the bound, as a part of the whole cost, or what
// whoever asks would take if that is more.
func (l *stages) from(gap float64) float64 { return max(l.least+gap*l.s.total, l.x.most) }

// gap is one that walks and leads may close. Where a window raised the bound, less is left
// than there would be.
func (l *stages) gap() float64 {
	if l.e.windowed {
		return fair
	}
	return wide
}

// settle takes a plan as best that is not as near to the bound: others were looked at.
func (l *stages) settle() { l.x.enough = max(l.x.enough, l.least+fair*l.s.total) }

// prove raises the bound, and follows the plans that are found by the way. It reports
// false if there is no plan.
func (l *stages) prove() bool {
	s, x := l.s, l.x
	raised := func(by func(limit int64, target float64) evidence) bool { return l.know(by(x.limit, x.extra/s.unit)) }
	matters := x.most < 0 && !s.lean // how good the plan is
	if matters && !raised(s.raise) {
		return false
	}
	if best, cost := s.cheapest(l.e.at, x.limit); cost <= max(x.enough, x.most) {
		x.best, x.extra = best, cost
	} else if best.gone != nil {
		l.cheapest = append(l.cheapest, best.clone)
	}
	x.beside(func() { l.twinned = x.follow(l.e.twins, l.least) })
	if matters && x.extra > x.enough {
		if x.extra > l.least+farther*s.total && s.leads(x.work) { // nothing that follows tells of what those are
			l.leads, l.giveUp = s.ledBeside(l.e.at, x.limit, x.most)
		}
		if !raised(s.refine) {
			return false
		}
	}
	if l.twinned {
		l.settle()
	}
	return true
}

// walk improves plans of evictors. Of long programs any plan does.
func (l *stages) walk() {
	s, x := l.s, l.x
	l.distant = x.extra > l.from(wide)
	none := x.best.gone == nil
	if x.extra <= l.from(l.gap()) || len(s.p.Cost) > mostRefined && !none {
		return
	}
	improve := func() {
		x.descend(l.walks, true, 0.5)
		l.settle()
		x.explore(l.walks[:min(explored, len(l.walks))], 0.7)
	}
	x.beside(func() {
		l.walks = s.evictions(x.limit, x.work/4, x.most, slices.Concat([]stays{nil}, l.e.stays), none)
		if len(l.e.stays) == 0 {
			improve()
		}
	})
	if len(l.e.stays) > 0 {
		improve()
	}
}

// lead improves plans that forget from the front. Where those do not lead much nearer to
// the bound, what else there is may lead farther from the plan before.
func (l *stages) lead() {
	s, x := l.s, l.x
	if x.extra <= l.from(l.gap()) || !s.leads(x.work) {
		return
	}
	if l.leads == nil {
		l.leads = func() []func() plan { return s.led(l.e.at, x.limit, x.most) }
	}
	best, extra := x.best, x.extra
	x.beside(func() { x.lead(l.leads()) })
	if l.led = x.extra <= x.most || x.extra-l.least < (extra-l.least)/2; !l.led {
		l.aside = found{p: x.best, extra: x.extra}
		x.best, x.extra = best, extra
	}
}

// lean looks for a plan in the lean program where a gap stays, and reports whether it
// found a better one.
func (l *stages) lean() bool {
	x := l.x
	return x.work >= quickWork && !l.s.lean && x.most < 0 && x.extra > l.least+wider*l.s.total && len(l.s.p.Cost) <= mostRefined && x.lean()
}

// polish improves a plan that is still far from the bound by exchanges.
func (l *stages) polish() {
	if x := l.x; x.extra > l.least+far*l.s.total {
		x.thorough = true
		x.within(mostWork/4, func() { x.swap(1) })
		x.thorough = false
	}
}

// exchange improves the plan by exchanges, and goes on from other starts in between.
func (l *stages) exchange() {
	s, x := l.s, l.x
	x.swap(0.4)
	x.enough = l.least + min(good*s.total, l.least/50)
	if len(l.walks) > 0 || l.twinned {
		l.settle()
	}
	x.beside(func() { x.descend(l.cheapest, true, 0.5) })
	x.descend(s.combined(l.at), true, 0.5)
	x.descend(s.near(l.at, x.limit), true, 0.6)
	if !l.walked() {
		x.descend(l.starts, true, 0.65)
		x.thorough = true
		x.swap(0.75)
		x.descend(s.eager(l.starts, x.limit), true, 0.85)
		x.swap(0.9)
		x.thorough = false
	}
}

// walked reports whether there are walks that lead where the first starts do not.
func (l *stages) walked() bool { return l.walks != nil && l.distant }

// anneal changes the plan at random where a gap stays.
func (l *stages) anneal() {
	s, x := l.s, l.x
	if x.work != mostWork || x.extra <= l.from(wider) || len(s.p.Cost) > mostRefined || l.leaned && !l.led && len(s.p.Cost) > soonAnnealed {
		return
	}
	x.beside(func() { x.anneal(l.least) })
}

// explore improves each start that is left by exchanges of its own. Where any plan would do,
// each was followed by now.
func (l *stages) explore() {
	if l.x.most >= 0 && l.x.best.gone == nil {
		return
	}
	rest := l.walks[min(explored, len(l.walks)):]
	if !l.walked() {
		rest = slices.Concat(rest, l.s.combined(l.at), l.starts)
	}
	l.x.explore(rest, 1)
}

// exactly solves a small program by shortest paths. It is done if there is no plan, or a
// cheaper one than was found; if not, what was found is the bound.
func (l *stages) exactly() (a Answer, ok, done bool) {
	s, x := l.s, l.x
	launches, extra, ok := s.solveExactly(x.limit)
	if !ok {
		s.refute(x.limit)
		return Answer{}, false, true
	}
	better := extra < x.extra || x.best.gone == nil
	if l.least = x.extra; better {
		l.least = extra
	}
	l.e.least = l.least / s.unit
	s.proven[x.limit] = l.e
	if !better {
		return Answer{}, true, false
	}
	peak, _, err := Check(s.p, launches)
	if err != nil {
		panic(err)
	}
	return Answer{Launches: launches, Peak: peak, Extra: extra, Bound: extra}, true, true
}
