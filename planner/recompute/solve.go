package recompute

import (
	"math"
	"slices"

	"memopt/planner/internal/numbers"
)

// Answer is the launches of a plan, with its evidence.
type Answer struct {
	Launches []int32 // operators; all but the first of an operator are reruns
	Peak     int64
	Extra    float64 // cost of the reruns
	Bound    float64 // proven: no launches within the limit have less extra cost

	By    string // the pass that found it
	Tries []Try  // by pass that ran

	plan plan // what the launches follow from; empty for launches of states
}

// Solver answers limits for one problem.
type Solver struct {
	p         *Problem
	sim       *simulator
	tried     *simulator // for changes
	spare     *simulator // of annealing, once there was any
	spans     []span
	uses      Lists   // by value: the operators that read it
	plain     []int64 // by operator: bytes alive at its place if nothing is dropped
	mayDrop   []bool  // by value: a plan may drop it
	plainPlan plan    // the plan without reruns
	total     float64
	unit      float64 // of cost, in which cuts and knapsacks count
	plainPeak int64   // the peak of plainPlan

	deps         *dependencies // of evictors, once there were any
	chain        *checkpoints  // of the forward pass, if it is one
	checkpointed bool          // chain was looked for
	cuts         map[int32]*cut
	pairs        map[[2]*cut]*knapsack
	proven       map[int64]evidence // by limit
	early        map[int64]evidence // by limit: what was proven first
	coarser      *coarse            // once it was made
	isCoarse     bool               // this is the solver of a coarse program
	off          map[string]bool    // passes and hints that are left out
	index        []int32            // by value: its index in the cut that is being built, counted from 1
	firstOf      []int32            // by operator, while a cut is built: the first value that it makes, likewise
	marked       []int32            // values with an index
	folded       []folded           // a buffer of folding
	sets         []numbers.Set128   // a buffer of fullest
	cutWork      int64              // work of the cuts
}

// New prepares a problem.
func New(p *Problem) (*Solver, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	p = p.inOrder()
	s := &Solver{p: p, sim: newSimulator(p), spans: spans(p), cuts: map[int32]*cut{}, pairs: map[[2]*cut]*knapsack{}, proven: map[int64]evidence{}, early: map[int64]evidence{}, index: make([]int32, len(p.Bytes)), firstOf: make([]int32, len(p.Cost))}
	for _, c := range p.Cost {
		s.total += c
	}
	s.mayDrop = make([]bool, len(p.Bytes))
	for v, m := range s.sim.maker {
		s.mayDrop[v] = m >= 0 && p.Again[m] && !p.Held[v]
	}
	s.uses = s.sim.uses
	if s.unit = s.total / units; s.unit == 0 {
		s.unit = 1
	}
	s.plainPlan.gone = make([]bool, len(p.Bytes))
	for v, x := range s.spans {
		if p.Forced == nil {
			s.plainPlan.gone[v] = s.droppable(int32(v)) && x.last < p.Border
		} else {
			s.plainPlan.gone[v] = p.Forced[v]
		}
	}
	s.sim.run(s.plainPlan, math.MaxInt64)
	s.plain, s.plainPeak = make([]int64, len(p.Cost)), s.sim.peak
	for k, bytes := range s.sim.live {
		op := s.sim.place[k]
		s.plain[op] = max(s.plain[op], bytes)
	}
	s.sim.mostLaunches = mostAgain*len(p.Cost) + 1024
	return s, nil
}

// Gaps between a plan and the bound, as parts of the whole cost. Wider ones end searches sooner, with dearer plans.
const (
	enough  = 0.0002 // a plan need not be improved at first,
	good    = 0.0005 // … after the starts,
	fair    = 0.001  // … and after other kinds of starts
	wide    = 0.003  // other kinds of starts are tried above this
	farther = 0.008  // bounds will hardly close it
)

// Launches that are simulated for a limit, by effort; each pass may take a part. More finds cheaper plans later.
const (
	mostWork    = 3 << 20
	quarterWork = mostWork / 4
	quickWork   = mostWork / 8
	sketchWork  = mostWork / 4
	underWork   = sketchWork / 4 // where a plan is at hand
)

const (
	mostAgain    = 8    // launches for each operator, on average; a walk that takes more is given up
	quickProgram = 2048 // operators of a program for which less work than all is worth a try
)

// Effort is how much is tried for a limit.
type Effort int

const (
	// Full is all passes with all work.
	Full Effort = iota
	// Quick is an eighth of the work if that leaves a wide gap, which more work would hardly close. Else it is Full.
	Quick
	// Quarter is a quarter of the work, for asking whether there is a plan for a limit, and may miss one.
	Quarter
	// Sketch leaves out what takes long for little: bytes are not rounded, so the bound is lower, and the plan is
	// improved for less long. Close to the floor it may find no plan where Full does. It is for curves of many limits.
	Sketch
	// Any is a plan at whatever cost. Evictors mostly find one at once, and repairs of the cuts' sets now and then; of
	// 70 limits close to the floor, Full had a plan for none where Any had none.
	Any
)

// Ask is what is asked of a limit.
type Ask struct {
	Effort Effort
	// Most, if it is above 0, ends the search at the first plan that costs no more, or once none can.
	Most float64
	// From is a plan for a limit a little higher to begin with. Only is to begin with no other, which takes much less
	// time and is as good for a sketch where gaps are wide; elsewhere it finds nothing. What costs no more than From is
	// not improved.
	From *Answer
	Only bool
}

// Solve finds a plan within a limit; ok is false if it finds none.
func (s *Solver) Solve(limit int64, ask Ask) (a Answer, ok bool) {
	if ask.From != nil && ask.From.plan.gone == nil { // launches of states
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
	case ask.Effort == Quarter:
		return s.solve(limit, ask, quarterWork)
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

// droppable reports whether a plan may drop a value.
func (s *Solver) droppable(v int32) bool { return s.mayDrop[v] }

func (s *Solver) forced(v int32) bool { return s.p.Forced != nil && s.p.Forced[v] }

func (s *Solver) answer(p plan, bound float64) Answer {
	s.sim.run(p, math.MaxInt64)
	return Answer{Launches: slices.Clone(s.sim.ops[:s.sim.launches]), Peak: s.sim.peak, Extra: s.sim.extra, Bound: bound, plan: p}
}
