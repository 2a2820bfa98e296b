package recompute

import (
	"cmp"
	"math"
	"slices"
)

const (
	evictionAims  = 4       // limits that one evictor aims at: its own peak may end below the limit, and then it may use the rest
	evictionClose = 64      // it stops aiming within limit/64 of the limit
	clearlyLess   = 0.9     // plans with checkpoints count from this part of the least cost without; closer ones lead to the same plans
	prefixReruns  = 3       // launches for each operator, on average, of plans that drop a prefix
	prefixMost    = 3       // such plans that are improved, of those within the limit and of those above it
	prefixWork    = 8 << 20 // launches simulated for such plans; they count for more than the time they take
)

// scores are those by which evictors evict where nothing is known of the program.
var scores = []score{{1, 1, 1, 0}, {1, 1, 1, 1}, {0.5, 1, 1, 0}, {1, 1, 0.5, 0}, {0.5, 1, 1, 1}, {1, 1, 2, 1}, {0, 0, 1, 0}, {1, 1, 0.5, 1}}

// hint proposes to evictors what to keep, and tries it. hints are in running order.
type hint struct {
	name string // for Without
	try  func(e *evictions)
}

var hints = []hint{
	// Evictors that may evict anything: all scores, as the best one differs from program to program.
	{"", func(e *evictions) { e.tryAll(scores, nil) }},
	// The sets of large values that the cheapest cases of a bound keep (cases.go), by the best score.
	{"kept sets", func(e *evictions) {
		best := []score{e.score}
		e.until = e.s.sim.work + e.work/2
		for _, kept := range e.sets {
			e.tryAll(best, kept)
		}
	}},
	// What flows into some links of a chain of layers (checkpoints.go).
	{"checkpoints", func(e *evictions) {
		e.until, e.below = math.MaxInt64, e.least*clearlyLess
		e.s.tryCheckpoints(e.tryAll)
	}},
}

// evictions are plans of evictors for one limit.
type evictions struct {
	s        *Solver
	limit    int64
	most     float64 // no plan need cost less
	work     int64   // launches that may be simulated without hints
	until    int64   // work of the simulator after which no more are tried
	launches int     // that a plan may have
	shorten  bool    // a plan may have a quarter more than the cheapest so far
	sets     []keep  // of the cheapest cases
	below    float64 // plans within the limit count if they cost less

	plans []evicted
	least float64 // cost of the cheapest plan within the limit, found
	score score   // … by this score
	kept  keep    // … with this kept
}

// evicted is a plan of an evictor.
type evicted struct {
	p     plan
	extra float64
	fits  bool // its peak is within the limit
}

func (s *Solver) newEvictions(limit, work int64, most float64) *evictions {
	return &evictions{s: s, limit: limit, most: most, work: work, until: s.sim.work + work, launches: s.sim.mostLaunches, below: math.Inf(1), least: math.Inf(1), score: scores[0]}
}

// tryAll evicts by each of some scores. It reports whether one led to a plan within the limit.
func (e *evictions) tryAll(by []score, kept keep) (fits bool) {
	for _, score := range by {
		if e.s.sim.work > e.until || e.least <= e.most {
			break
		}
		fits = e.try(score, kept) || fits
	}
	return fits
}

// try evicts by one score, at first within the limit; what its plan leaves of that, the next may use.
func (e *evictions) try(by score, kept keep) (fits bool) {
	sim, aim, least := e.s.sim, e.limit, math.Inf(1)
	launches := e.launches
	for range evictionAims {
		x := e.s.newEvictor(aim, by, kept)
		if x.reruns = launches - len(e.s.p.Cost); !x.run() || !sim.run(x.p, e.limit) {
			break
		}
		aim += e.limit - sim.peak
		f := evicted{x.p, sim.extra, sim.peak <= e.limit}
		if f.fits && f.extra >= least {
			break
		}
		if !f.fits || f.extra < e.below {
			e.plans = append(e.plans, f)
		}
		if !f.fits {
			continue
		}
		if e.shorten && f.extra < e.least {
			e.launches = min(e.launches, sim.launches+sim.launches/4)
		}
		if least = f.extra; least <= e.most || aim-e.limit < e.limit/evictionClose {
			break
		}
	}
	if least < e.least {
		e.least, e.score, e.kept = least, by, kept
	}
	return !math.IsInf(least, 1)
}

// cheapest are the plans within the limit, or those above it, by cost, one of each cost.
func (e *evictions) cheapest(fits bool) (plans []evicted) {
	for _, f := range e.plans {
		if f.fits == fits {
			plans = append(plans, f)
		}
	}
	slices.SortStableFunc(plans, func(a, b evicted) int { return cmp.Compare(a.extra, b.extra) })
	return slices.CompactFunc(plans, func(a, b evicted) bool { return a.extra == b.extra })
}

// evict are plans of evictors by all hints, the cheapest first, up to the first that costs no more than most.
func (s *Solver) evict(limit, work int64, most float64, sets []keep) (all []func() plan) {
	e := s.newEvictions(limit, work, most)
	e.sets = sets
	for _, h := range hints {
		if !s.off[h.name] {
			h.try(e)
		}
	}
	for _, f := range e.cheapest(true) {
		if all = append(all, f.p.clone); f.extra <= most {
			break
		}
	}
	return all
}
