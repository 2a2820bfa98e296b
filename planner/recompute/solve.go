package recompute

import (
	"math"
	"slices"
)

// Answer is a plan as launches, with its evidence.
type Answer struct {
	Launches []int32 // operators; what stands a second time runs again
	Peak     int64
	Extra    float64 // cost of what runs again
	Bound    float64 // proven: within the limit, no launches cost less extra

	By    string // the pass that made it
	Tries []Try  // by pass that ran

	plan plan // what leads to the launches; empty if something else does
}

// Solver answers limits for one problem.
type Solver struct {
	p     *Problem
	sim   *simulator
	trial *trial
	spare walker // once there was annealing
	spans []span
	uses  Lists   // by value: the operators that read it
	plain []int64 // by operator: bytes alive there, or while something is made again for it, if no more is made again than must be
	loose []bool  // by value: a plan may forget it
	keep  plan    // the plan that makes nothing again
	total float64
	unit  float64 // of cost
	top   int64   // the peak of the plain program

	deps         *dependencies // of evictors, once there were any
	chain        *checkpoints  // of the forward pass, if it is one
	checkpointed bool          // it was looked at as one
	cuts         map[int32]*cut
	pairs        map[[2]*cut]*knapsack
	proven       map[int64]evidence // by limit
	early        map[int64]bounds   // by limit: what was proven at first
	coarser      *coarse            // once it was looked at
	isCoarse     bool               // this is one's
	off          map[string]bool    // passes that are left out
	place        []int32            // by value, while a cut is built
	met          []int32            // by operator, likewise
	stained      []int32
	folded       []folded // while a cut is folded
	spent        int64    // work of the cuts
}

// New prepares a problem.
func New(p *Problem) (*Solver, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	p = p.inOrder()
	s := &Solver{p: p, sim: newSimulator(p), spans: spans(p), cuts: map[int32]*cut{}, pairs: map[[2]*cut]*knapsack{}, proven: map[int64]evidence{}, early: map[int64]bounds{}, place: make([]int32, len(p.Bytes)), met: make([]int32, len(p.Cost))}
	s.trial = &trial{sim: s.sim, uses: &s.uses}
	for _, c := range p.Cost {
		s.total += c
	}
	s.loose = make([]bool, len(p.Bytes))
	for v, m := range s.sim.maker {
		s.loose[v] = m >= 0 && p.Again[m] && !p.Held[v]
	}
	s.uses = s.sim.uses
	if s.unit = s.total / units; s.unit == 0 {
		s.unit = 1
	}
	s.keep.gone = make([]bool, len(p.Bytes))
	for v, x := range s.spans {
		if p.Forced == nil {
			s.keep.gone[v] = s.may(int32(v)) && x.last < p.Border
		} else {
			s.keep.gone[v] = p.Forced[v]
		}
	}
	s.sim.run(s.keep, math.MaxInt64)
	s.plain, s.top = make([]int64, len(p.Cost)), s.sim.peak
	for k, bytes := range s.sim.live {
		op := s.sim.place[k]
		s.plain[op] = max(s.plain[op], bytes)
	}
	s.sim.mostLaunches = mostAgain*len(p.Cost) + 1024
	return s, nil
}

// Gaps between a plan and the bound, as parts of the whole cost. Wider ones end searches sooner.
const (
	enough  = 0.0002 // a plan is taken as best at first,
	good    = 0.0005 // when the starts are through,
	fair    = 0.001  // and where other kinds of starts were followed
	wide    = 0.003  // starts of another kind may close it
	farther = 0.008  // bounds will hardly close it
)

// Launches that are simulated for a limit, by effort; each pass may take a part. More finds cheaper plans later.
const (
	mostWork   = 3 << 20
	soonWork   = mostWork / 4
	quickWork  = mostWork / 8
	sketchWork = mostWork / 4
	underWork  = sketchWork / 4 // where a plan is at hand
)

const (
	mostAgain    = 8    // launches of an operator of a plan, on average; a walk that takes more is given up
	quickProgram = 2048 // operators of a program for which less work than all is worth a try
)

// Effort is how much is tried for a limit.
type Effort int

const (
	// Full is all passes with all work.
	Full Effort = iota
	// Quick is an eighth of the work where Full is unlikely to reach the bound: where the gap of
	// what that leads to is wide. Elsewhere it is Full.
	Quick
	// Soon is a quarter of the work. It is for asking whether there is a plan for so much, and may
	// miss one.
	Soon
	// Sketch leaves out what takes long for little: bytes are not rounded, so the bound is lower,
	// and the plan is not improved for as long. It finds none near the lowest limits, where Full
	// may find one. It is for curves of many limits.
	Sketch
	// Any is a plan whatever it costs. Where there is one, evictors mostly find it at once, and
	// repairs of what cuts keep now and then; what Full has beside that makes plans cheaper, and
	// of 70 limits near the lowest of joint graphs none had a plan by it alone.
	Any
)

// Ask is what is asked of a limit.
type Ask struct {
	Effort Effort
	// Most, if it is above 0, ends the search at the first plan that costs no more, or where it
	// is proven that none does.
	Most float64
	// From is a plan for a limit a little higher to begin with; Only is to begin with no other,
	// which takes much less and, for a sketch, is as good where gaps are wide: where they are
	// not, nothing is found. What costs no more than From is not improved.
	From *Answer
	Only bool
}

// Solve finds a plan within a limit; ok is false if it finds none.
func (s *Solver) Solve(limit int64, ask Ask) (a Answer, ok bool) {
	if ask.From != nil && ask.From.plan.gone == nil { // launches that no plan leads to
		if ask.Only {
			return Answer{}, false
		}
		ask = Ask{}
	}
	switch {
	case ask.Only && ask.Effort == Sketch && ask.From.Extra <= ask.From.Bound+wide*s.total:
		return Answer{}, false
	case ask.Effort == Any && ask.Only:
		return s.solve(limit, ask, underWork)
	case ask.Effort == Sketch:
		return s.solve(limit, ask, sketchWork)
	case ask.Effort == Soon:
		return s.solve(limit, ask, soonWork)
	case ask.Effort == Quick && len(s.p.Cost) <= quickProgram:
		a, ok = s.solve(limit, ask, quickWork)
		if !ok {
			return s.solve(limit, Ask{Effort: Any}, mostWork)
		}
		if a.Extra <= a.Bound+enough*s.total || s.Wide(a.Extra, a.Bound) {
			return a, true
		}
	}
	return s.solve(limit, ask, mostWork)
}

// Wide reports whether the gap between a cost and a bound is one that Quick leaves.
func (s *Solver) Wide(extra, bound float64) bool { return extra > bound+farther*s.total }

// may reports whether a plan may forget a value.
func (s *Solver) may(v int32) bool { return s.loose[v] }

func (s *Solver) forced(v int32) bool { return s.p.Forced != nil && s.p.Forced[v] }

func (s *Solver) answer(p plan, bound float64) Answer {
	s.sim.run(p, math.MaxInt64)
	return Answer{Launches: slices.Clone(s.sim.ops[:s.sim.launches]), Peak: s.sim.peak, Extra: s.sim.extra, Bound: bound, plan: p}
}
