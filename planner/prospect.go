package planner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"memopt/memopt/graph"
)

// Prospect is a request that was looked at, and the search for its plan. What any plan costs at least is known soon, so who
// compares forms of a step begins with the one that promises most.
type Prospect struct {
	m     *model
	r     Request
	known []Step // a plan within the request, if one is known
	took  time.Duration

	// Once what keeping everything takes was asked for:
	base   *candidate // that, with what settings turn on
	plan   *Plan      // which has no steps yet
	forced []bool     // by node: what settings turn on
	offer  *offers    // once they were analysed
	solver *solver    // of the staircase, which both are made when they are needed first
	stairs *staircase
	target int64 // arena bytes asked for; the plan's own if nothing was
}

// Look looks at a training graph.
func Look(g *graph.Graph, r Request) (*Prospect, error) {
	begin := time.Now()
	m, err := newModel(g, r)
	if err == nil {
		err = m.relate(r)
	}
	return &Prospect{m: m, r: r, took: time.Since(begin)}, err
}

// With is the prospect of the same step under another request, for the same dims, device and costs.
func (s *Prospect) With(r Request) *Prospect { return &Prospect{m: s.m, r: r, took: s.took} }

// InBytes is a request with its budgets in bytes: shares are those of the step with everything kept.
func (s *Prospect) InBytes(r Request) Request { return s.m.inBytes(r) }

// Beside is the request for another form of a step that was looked at, which is its plain one.
func (r Request) Beside(plain *Prospect) Request {
	r.Plain, r.plain = plain.m.g, plain
	return r
}

// prepare finds what keeping everything takes, and what settings turn on.
func (s *Prospect) prepare() (err error) {
	if s.plan != nil {
		return nil
	}
	start := time.Now()
	s.begin()
	if s.forced, err = s.requested(); err != nil {
		s.plan = nil
		return err
	}
	if slices.Contains(s.forced, true) {
		s.base = s.m.candidate(s.forced)
	}
	s.took += time.Since(start)
	return nil
}

// begin is the prospect with a plan that has no steps yet, and with everything kept.
func (s *Prospect) begin() *Prospect {
	m := s.m
	s.base = m.keepAll()
	s.plan = &Plan{Graph: m.g, Request: s.r, m: m, Floor: m.floor(), Whole: m.summary(s.base)}
	if s.plan.Baseline = s.plan.Whole; m.plain != nil {
		s.plan.Baseline = m.plain.summary(m.plain.keepAll())
	}
	return s
}

// complete makes a candidate the plan, with a bound for a limit of the arena, and holds that against the graph.
func (s *Prospect) complete(c *candidate, limit int64) *Plan {
	p := s.plan
	p.adopt(c)
	p.Search = Search{Choice: c.by, Placement: placing + c.placed.By, Tries: c.tries, Passes: s.m.log.passes()}
	if s.m.unplaced() {
		p.Search.Placement = notPlaced
	}
	p.Bound, p.s = s.bound(c, limit), s
	if err := Check(p); err != nil {
		panic(fmt.Sprintf("planner: its own plan is wrong: %v", err))
	}
	return p
}

// Own is what the step costs with everything kept, as Plan.Cost tells it.
func (s *Prospect) Own() float64 { return s.m.total + s.m.own }

// Arena is what everything kept takes of it.
func (s *Prospect) Arena() (int64, error) {
	if err := s.prepare(); err != nil {
		return 0, err
	}
	return s.base.placed.Height, nil
}

// Fits reports whether everything can be kept, as far as settings do not ask for more.
func (s *Prospect) Fits() (bool, error) {
	if err := s.prepare(); err != nil {
		return false, err
	}
	limit, limited := s.plan.Room()
	return !limited || s.base.placed.Height <= limit, nil
}

// Least is what any plan costs at least, and what the plain step does with everything kept, both as Plan.Cost tells
// them. Infinity is that there is no plan.
func (s *Prospect) Least() (least, plain float64, err error) {
	fits, err := s.Fits()
	if err != nil {
		return 0, 0, err
	}
	if fits || s.strategy() != byLimits {
		return s.Own() + s.base.cost, s.m.total, nil
	}
	begin := time.Now()
	limit, _ := s.plan.Room()
	least, ok := s.solves().least(limit)
	if !ok {
		least = math.Inf(1)
	}
	s.took += time.Since(begin)
	return s.Own() + least, s.m.total, nil
}

// Apart is what a step has beside another one: nodes, values that no node makes, and bytes that the other keeps less of
// what both have.
type Apart struct {
	Nodes  []*graph.Node
	Values []*graph.Value
	Bytes  int64
}

// LeastApart is at least what any plan of the other step costs, under the same budget: what this one's do with room for
// all that it has apart, without the cost of that.
func (s *Prospect) LeastApart(a Apart) (float64, error) {
	if err := s.prepare(); err != nil || s.strategy() != byLimits {
		return 0, err
	}
	limit, limited := s.plan.Room()
	if !limited {
		return 0, nil
	}
	room, work, cost := limit+min(a.Bytes, mostBytes), int64(0), 0.0
	add := func(v *graph.Value) {
		if v != nil && s.m.owner[v.ID] == v.ID {
			room = min(room, mostBytes) + s.m.align(s.m.bytes[v.ID])
		}
	}
	for _, v := range a.Values {
		add(v)
	}
	for _, n := range a.Nodes {
		for _, v := range n.Outputs {
			add(v)
		}
		if k := s.m.op[n.ID]; !n.Op.View {
			work, cost = max(work, s.m.p.Work[k]), cost+s.m.p.Cost[k]
		}
	}
	if room += work; room >= s.base.placed.Height {
		return s.Own() - cost, nil
	}
	least, ok := s.solves().least(room)
	if !ok {
		least = math.Inf(1)
	}
	return s.Own() - cost + least, nil
}

// Plan plans the request, if that comes to something of worth.
func (s *Prospect) Plan(w Worth) (*Plan, error) {
	if s.Own() > w.Limit() {
		return nil, worthless(Floor{})
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	begin, p := time.Now(), s.plan
	p.Request.Worth = w
	chosen, err := s.run()
	if err != nil {
		return nil, err
	}
	s.complete(chosen, s.target)
	p.Took = s.took + time.Since(begin)
	return p, nil
}

// Worth is what a plan has to come to to be of use next to another one that is known, of another form of the step.
// Zeros are no limits.
type Worth struct {
	Cost  float64 // as Plan.Cost tells it, at most
	Arena int64   // bytes, at most
	Fits  bool    // within the request, and if none is, no lowest one is looked for
	// Glance refuses a form with such an arena as well if solving for a little less finds nothing at once. Forms have
	// most of a step in common, and what is lowest within a limit of cost takes many limits to find.
	Glance bool
}

// glanced is the part of an arena that it is less by at a glance.
const glanced = 128

// Limit is that of cost, with a little for what sums round.
func (w Worth) Limit() float64 {
	if w.Cost == 0 {
		return math.Inf(1)
	}
	return w.Cost * (1 + 1e-9)
}

// extra is that limit for what runs again in a step.
func (w Worth) extra(m *model) float64 { return w.Limit() - m.total - m.own }

// worthless is that no plan of this form is of use.
func worthless(f Floor) error {
	return &BudgetError{Floor: f, Msg: "no plan of this form of the step is as good as one of another form"}
}
