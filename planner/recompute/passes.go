package recompute

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A pass raises the bound of a limit, or makes the best plan for it cheaper.
type pass struct {
	name  string
	doc   string
	proof proof                 // what it raises the bound by, if it does
	in    []Effort              // efforts of few passes that it is part of
	when  func(l *solving) bool // it may be worth its time
	run   func(l *solving)
}

// proof groups passes that raise the bound. Those of a group run if a plan is far enough above
// the bound when the first of them is due.
type proof int

const (
	plans   proof = iota // makes plans instead
	raises               // by sets of values and by two places
	refines              // by what may be there from launch to launch
)

// passes are in running order. The first makes the cuts that all others begin with; it is
// never left out.
var passes []pass

func init() { // some passes solve other problems by all
	passes = []pass{
		{name: "cuts", doc: "price bytes at the places that bind, and cut; round bytes to grains",
			in: []Effort{Sketch, Any}, when: always, run: (*solving).cut},
		{name: "any", doc: "evict, or repair the starts, for a plan whatever it costs",
			in: []Effort{Any}, when: func(l *solving) bool { return l.ask.Effort == Any }, run: (*solving).anything},
		// The sets that cuts keep are most of what a plan needs: begin with them, and stop there
		// if that is at the bound.
		{name: "starts", doc: "repair and improve the sets that the cuts keep",
			in: []Effort{Sketch}, when: always, run: func(l *solving) { l.x.improve(l.starts, &followCheaper, l.share(0.6, 0.25)) }},

		// What is proven next costs less than what would make the plan better, and may tell that
		// it is the best.
		{name: "sets", doc: "raise the bound by a knapsack of sets at a place", proof: raises,
			when: always, run: (*solving).sets},
		{name: "pairs", doc: "raise the bound by two places together", proof: raises,
			when: func(l *solving) bool { return l.e.least < l.target() }, run: (*solving).pairs},
		// Plans of what was chosen for the proof.
		{name: "set plans", doc: "keep what is cheapest at a place",
			when: (*solving).open, run: (*solving).fromSets},
		{name: "pair plans", doc: "forget some at the border and some behind a second place",
			when: (*solving).open, run: (*solving).fromPairs},

		{name: "stretches", doc: "raise the bound by chains of places", proof: refines,
			when: (*solving).below, run: func(l *solving) { l.raise(l.s.stretches(l.e.at, l.limit)) }},
		{name: "tails", doc: "raise the bound from the last place on by states of large values", proof: refines,
			when: (*solving).below, run: (*solving).tails},
		{name: "before", doc: "raise the bound by what runs before a tail", proof: refines,
			when: (*solving).below, run: (*solving).before},
		{name: "cases", doc: "raise the bound by each set that fits where most binds, and by places behind it", proof: refines,
			when: (*solving).below, run: (*solving).cases},
		// Launches of tails are no plan that others could improve.
		{name: "route", doc: "take the launches that tails found, if they are near the bound",
			when: always, run: (*solving).takeRoute},

		{name: "evict", doc: "online eviction: walk once, and forget what is worth least when something does not fit",
			when: (*solving).mayEvict, run: (*solving).evict},
		{name: "prefix", doc: "forget the first layers or steps as a whole, and evict",
			when: func(l *solving) bool { return l.x.extra > l.from(wide) && l.s.mayDropPrefix(l.x.work) }, run: (*solving).dropPrefix},
		{name: "coarsen", doc: "solve the program without cheap operators, and carry its plan over",
			when: (*solving).mayCoarsen, run: func(l *solving) { l.x.coarsen() }},
		{name: "exchange", doc: "keep something that does not fit, and forget what is cheaper to lose",
			in: []Effort{Sketch}, when: always, run: func(l *solving) { l.x.exchangeBest(l.share(0.4, 0.15)) }},
		{name: "restart", doc: "repair and improve other sets of the cuts, also those over the limit elsewhere",
			when: always, run: (*solving).restart},
		// The better the plan is, the less it has to do. If there is none, it may come to one.
		{name: "anneal", doc: "change the plan at random (simulated annealing)",
			when: (*solving).mayAnneal, run: func(l *solving) { l.x.anneal(l.starts) }},
		{name: "exchange all", doc: "exchange in each other start that was found",
			when: func(l *solving) bool { return l.x.most < 0 || l.x.best.gone != nil }, run: (*solving).exchangeAll},
	}
}

func always(*solving) bool { return true }

// Passes lists the passes in running order: the name of each, what it does, and the function that does it.
func Passes() (all []struct {
	Name, Doc string
	Run       any
}) {
	all = slices.Grow(all, len(passes))[:len(passes)]
	for i, p := range passes {
		all[i].Name, all[i].Doc, all[i].Run = p.name, p.doc, p.run
	}
	return all
}

// Without leaves passes out of what is solved from now on. Limits that were solved before are
// not solved again.
func (s *Solver) Without(names ...string) error {
	for _, name := range names {
		if !slices.ContainsFunc(passes[1:], func(p pass) bool { return p.name == name }) && !slices.ContainsFunc(hints[1:], func(h hint) bool { return h.name == name }) {
			return fmt.Errorf("no pass %q that could be left out", name)
		}
		if s.off == nil {
			s.off = map[string]bool{}
		}
		s.off[name] = true
	}
	return nil
}

// Try is what a pass came to.
type Try struct {
	Pass  string
	Cost  float64 // extra cost of the best plan behind it, +Inf if there is none yet
	Peak  int64   // of that plan; 0 if the pass found none that is better
	Bound float64
	Took  bool // it found a better plan
	Time  time.Duration
}

// checking has what a pass found be checked, for tests.
var checking bool

// drive runs all passes, or for want of a search those that raise the bound.
func (l *solving) drive() {
	s := l.s
	for i := range passes {
		p := &passes[i]
		if l.enter(p.proof); l.over {
			return
		}
		if s.off[p.name] || !l.eligible || l.bounds && p.proof == plans && i > 0 || l.brief() && !slices.Contains(p.in, l.ask.Effort) || !p.when(l) {
			continue
		}
		begin, cost := time.Now(), l.cost()
		p.run(l)
		t := Try{Pass: p.name, Cost: l.cost(), Bound: l.e.least * s.unit}
		if t.Took = t.Cost < cost; t.Took {
			l.by = p.name
			t.Peak = l.peak()
			if checking {
				l.check(p)
			}
		}
		t.Time = time.Since(begin)
		if l.tries = append(l.tries, t); l.over {
			return
		}
	}
	l.enter(plans)
}

// enter ends a group of passes of one group, and begins the next.
func (l *solving) enter(next proof) {
	if next == l.proof {
		return
	}
	if l.proof != plans && l.eligible {
		l.e.tried = max(l.e.tried, l.proof)
		if math.IsInf(l.e.least, 1) {
			l.refute()
			return
		}
		l.s.proven[l.limit] = l.e
		l.know()
	}
	l.proof = next
	l.eligible = next == plans || l.wants(next)
}

// cost is that of the best plan so far.
func (l *solving) cost() float64 {
	if l.x == nil {
		return math.Inf(1)
	}
	return min(l.x.extra, l.taken.Extra)
}

// peak is that of the best plan, walked beside all searches.
func (l *solving) peak() int64 {
	if l.taken.Launches != nil && l.taken.Extra <= l.x.extra {
		return l.taken.Peak
	}
	work := l.s.sim.work
	l.s.sim.run(l.x.best, l.limit)
	l.s.sim.work = work
	return l.s.sim.peak
}

// check replays the best plan.
func (l *solving) check(p *pass) {
	a, ok := l.answer()
	peak, extra, err := Check(l.s.p, a.Launches)
	unit := 1e-9 * (l.s.total + 1)
	if !ok || err != nil || peak != a.Peak || peak > l.limit || math.Abs(extra-a.Extra) > unit || a.Bound > extra+unit {
		panic(fmt.Sprintf("recompute: %s: a plan within %d of peak %d, replayed %d, for %v, replayed %v, bound %v: %v", p.name, l.limit, a.Peak, peak, a.Extra, extra, a.Bound, err))
	}
}
