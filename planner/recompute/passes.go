package recompute

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A pass raises the bound of a limit, or finds a cheaper plan for it.
type pass struct {
	name  string
	doc   string
	proof proof                 // the group of passes that raise the bound, if it is one
	in    []Effort              // efforts below Full that it is part of
	when  func(l *solving) bool // it may be worth its time
	run   func(l *solving)      // what it does; nil: improve
	// improve is what a pass of the local search improves, and how.
	improve []improvement
}

// improvement is plans to begin with, the method to improve them, and its share of the work.
type improvement struct {
	starts func(l *solving) []func() plan
	by     *method
	share  float64 // at full effort; more finds cheaper plans later
	sketch float64 // for a sketch
}

// proof is a group of passes that raise the bound. Those of a group run if the plan is far enough above the bound when
// the first of them is due.
type proof int

const (
	plans   proof = iota // finds plans instead
	raises               // by sets of values at one place or two
	refines              // by states, from launch to launch
)

// passes are in running order. The first makes the cuts that all others need; it is never left out.
var passes []pass

func init() { // not a literal, as the pass coarsen solves another problem by all passes
	passes = []pass{
		{name: "cuts", doc: "price bytes at the places that bind, and cut; round bytes to grains",
			in: []Effort{Sketch, Any}, when: always, run: (*solving).cut},
		{name: "any", doc: "evict, or repair the starts, for a plan whatever it costs",
			in: []Effort{Any}, when: func(l *solving) bool { return l.ask.Effort == Any }, run: (*solving).anything},
		// The sets that cuts keep are most of what a plan needs: begin with them, and stop there if that reaches the bound.
		{name: "starts", doc: "repair and improve the sets that the cuts keep",
			in: []Effort{Sketch}, when: always, improve: []improvement{{(*solving).cutStarts, &followCheaper, 0.25, 0.6}}},

		// A better bound takes less time than a better plan, and may show that the plan is the best.
		{name: "sets", doc: "raise the bound by a knapsack of sets at a place", proof: raises,
			when: always, run: (*solving).sets},
		{name: "pairs", doc: "raise the bound by two places together", proof: raises,
			when: (*solving).below, run: (*solving).pairs},
		// Plans of the sets that the knapsacks chose.
		{name: "set plans", doc: "keep what is cheapest at a place",
			when: (*solving).open, run: (*solving).fromSets},
		{name: "pair plans", doc: "forget some at the border and some behind a second place",
			when: (*solving).open, run: (*solving).fromPairs},

		{name: "tails", doc: "raise the bound from the last place on by states of large values", proof: refines,
			when: (*solving).below, run: (*solving).tails},
		{name: "before", doc: "raise the bound by what runs before a tail", proof: refines,
			when: (*solving).below, run: (*solving).before},
		{name: "cases", doc: "raise the bound by each set that fits where most binds, and by places behind it", proof: refines,
			when: (*solving).below, run: (*solving).cases},
		// Its launches come from no plan, so no pass could improve them.
		{name: "route", doc: "take the launches that tails found, if they are near the bound",
			when: always, run: (*solving).takeRoute},

		{name: "evict", doc: "online eviction: walk once, and forget what is worth least when something does not fit",
			when: (*solving).mayEvict, improve: []improvement{{(*solving).evictions, &followAll, 0.25, 0}, {(*solving).bestEvictions, &exchangeEach, 0.2, 0}}},
		{name: "prefix", doc: "forget the first layers or steps as a whole, and evict",
			when: (*solving).mayDropPrefix, improve: []improvement{{(*solving).prefixes, &followAll, 0.125, 0}, {(*solving).bestPrefixes, &exchangeEach, 0.125, 0}}},
		{name: "coarsen", doc: "solve the program without cheap operators, and carry its plan over",
			when: (*solving).mayCoarsen, improve: []improvement{{(*solving).coarsePlan, &followAll, 0.5, 0}}},
		{name: "exchange", doc: "keep something that does not fit, and forget what is cheaper to lose",
			in: []Effort{Sketch}, when: always, run: (*solving).exchangeBest},
		{name: "restart", doc: "repair and improve other sets of the cuts, also those over the limit elsewhere",
			when: always, improve: []improvement{{(*solving).otherSets, &followAll, 0.25, 0}, {(*solving).nearSets, &followAll, 0.1, 0}}},
		// It has less to do the better the plan is, and may find one where there is none.
		{name: "anneal", doc: "change the plan at random (simulated annealing)",
			when: (*solving).mayAnneal, run: func(l *solving) { l.x.anneal(l.starts) }},
		{name: "exchange all", doc: "exchange in each other start that was found",
			when: func(l *solving) bool { return l.x.most < 0 || l.x.best.gone != nil }, improve: []improvement{{(*solving).otherStarts, &exchangeEach, 0.2, 0}}},
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
		if p.run == nil {
			all[i].Run = p.improve[0].starts
		}
	}
	return all
}

// Without leaves passes and hints out of all limits that are solved from now on.
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

// Try is what a pass did for a limit.
type Try struct {
	Pass  string
	Cost  float64 // extra cost of the best plan after it, +Inf if there is none yet
	Peak  int64   // of that plan; 0 if the pass found no better one
	Bound float64
	Took  bool // it found a better plan
	Time  time.Duration
}

// checking has every better plan replayed by Check; tests set it.
var checking bool

// drive runs the passes in order; if only a bound is asked for, those that raise it.
func (l *solving) drive() {
	s := l.s
	for i := range passes {
		p := &passes[i]
		if l.enter(p.proof); l.finished {
			return
		}
		if s.off[p.name] || !l.eligible || l.boundOnly && p.proof == plans && i > 0 || l.brief() && !slices.Contains(p.in, l.ask.Effort) || !p.when(l) {
			continue
		}
		begin, cost := time.Now(), l.cost()
		if p.run != nil {
			p.run(l)
		}
		for _, row := range p.improve {
			starts := row.starts(l)
			l.x.stage(l.share(row.sketch, row.share))
			l.x.improve(starts, row.by)
		}
		t := Try{Pass: p.name, Cost: l.cost(), Bound: l.e.least * s.unit}
		if t.Took = t.Cost < cost; t.Took {
			l.by = p.name
			t.Peak = l.peak()
			if checking {
				l.check(p)
			}
		}
		t.Time = time.Since(begin)
		if l.tries = append(l.tries, t); l.finished {
			return
		}
	}
	l.enter(plans)
}

// enter ends a group of passes that raise the bound, and decides whether those of the next may run.
func (l *solving) enter(next proof) {
	if next == l.proof {
		return
	}
	if l.proof != plans && l.eligible {
		l.e.tried = max(l.e.tried, l.proof)
		if math.IsInf(l.e.least, 1) {
			l.e, l.s.proven[l.limit], l.finished = evidence{}, evidence{}, true // there is no plan
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
	return min(l.x.extra, l.route.Extra)
}

// peak is that of the best plan. It is simulated outside the work of the search.
func (l *solving) peak() int64 {
	if l.route.Launches != nil && l.route.Extra <= l.x.extra {
		return l.route.Peak
	}
	work := l.s.sim.work
	l.s.sim.run(l.x.best, l.limit)
	l.s.sim.work = work
	return l.s.sim.peak
}

// check replays the best plan by another route, and panics if that disagrees.
func (l *solving) check(p *pass) {
	a, ok := l.answer()
	peak, extra, err := Check(l.s.p, a.Launches)
	unit := 1e-9 * (l.s.total + 1)
	if !ok || err != nil || peak != a.Peak || peak > l.limit || math.Abs(extra-a.Extra) > unit || a.Bound > extra+unit {
		panic(fmt.Sprintf("recompute: %s: a plan within %d of peak %d, replayed %d, for %v, replayed %v, bound %v: %v", p.name, l.limit, a.Peak, peak, a.Extra, extra, a.Bound, err))
	}
}
