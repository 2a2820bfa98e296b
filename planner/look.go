package planner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"memopt/internal/graph"
	"memopt/planner/limits"
)

// Search is a request with its model, and the search for its plan. A lower bound of any plan's cost is fast to find, so
// that a comparison of forms can begin with the one of the lowest bound.
type Search struct {
	m     *model
	r     Request
	known []Step // a plan within the request, if one is known
	took  time.Duration

	// Once what keeping everything takes was asked for:
	base    *candidate // that, with what settings turn on
	plan    *Plan      // which has no steps yet
	forced  []bool     // by node: what settings turn on
	offer   *offers    // once they were analysed
	solver  *solver    // of the limits; both are made when they are needed first
	limits  *limits.Limits[*candidate]
	begun   []int64        // by operator, when it begins with everything kept; and the end
	largest int64          // bytes that may be moved at once
	away    map[int64]away // by number of a fixed limit: the cheapest plan found that moves values
	noPlain int64          // the highest limit that is known to have no plan that moves nothing; 0 is none
	room    int64          // arena bytes asked for; the arena of the plan if none were
}

// Look looks at a training graph.
func Look(g *graph.Graph, r Request) (*Search, error) {
	begin := time.Now()
	m, err := newModel(g, r)
	if err == nil {
		err = m.relate(r)
	}
	return &Search{m: m, r: r, took: time.Since(begin)}, err
}

// With is the search of the same step under another request, for the same dims, device and costs.
func (s *Search) With(r Request) *Search { return &Search{m: s.m, r: r, took: s.took} }

// InBytes is a request with its budgets in bytes: shares are those of the step with everything kept.
func (s *Search) InBytes(r Request) Request { return s.m.inBytes(r) }

// Beside is the request for another form of a step that was looked at, which is its plain one.
func (r Request) Beside(plain *Search) Request {
	r.Plain, r.plain = plain.m.g, plain
	return r
}

// prepare finds what keeping everything takes, and what settings turn on.
func (s *Search) prepare() (err error) {
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

// begin is the search with a plan that has no steps yet, and with everything kept.
func (s *Search) begin() *Search {
	m := s.m
	s.base = m.keepAll()
	s.plan = &Plan{Graph: m.g, Request: s.r, m: m, Floor: m.floor(s.r.Elsewhere), Whole: m.summary(s.base)}
	if s.plan.Baseline = s.plan.Whole; m.plain != nil {
		s.plan.Baseline = m.plain.summary(m.plain.keepAll())
	}
	return s
}

// complete makes a candidate the plan, with a bound for a limit of the arena, and holds that against the graph.
func (s *Search) complete(c *candidate, limit int64) *Plan {
	p := s.plan
	p.adopt(c)
	p.Search = Provenance{Choice: c.by, Placement: placing + c.placed.By, Tries: c.tries, Passes: s.m.log.passes()}
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
func (s *Search) Own() float64 { return s.m.total + s.m.own }

// Arena is what everything kept takes of it.
func (s *Search) Arena() (int64, error) {
	if err := s.prepare(); err != nil {
		return 0, err
	}
	return s.base.placed.Height, nil
}

// Fits reports whether everything can be kept, as far as settings do not ask for more.
func (s *Search) Fits() (bool, error) {
	if err := s.prepare(); err != nil {
		return false, err
	}
	limit, limited := s.plan.Room()
	return !limited || s.base.placed.Height <= limit, nil
}

// Least is what any plan costs at least, and what the plain step does with everything kept, both as Plan.Cost tells
// them. Infinity is that there is no plan.
func (s *Search) Least() (least, plain float64, err error) {
	fits, err := s.Fits()
	if err != nil {
		return 0, 0, err
	}
	if fits || s.strategy() != byLimits {
		return s.Own() + s.base.cost, s.m.total, nil
	}
	begin := time.Now()
	limit, _ := s.plan.Room()
	s.solves()
	least, ok := s.least(limit)
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
func (s *Search) LeastApart(a Apart) (float64, error) {
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
	s.solves()
	least, ok := s.least(room)
	if !ok {
		least = math.Inf(1)
	}
	return s.Own() - cost + least, nil
}

// Plan finds the request's plan, or an error if none meets the target.
func (s *Search) Plan(w Target) (*Plan, error) {
	if s.Own() > w.Limit() {
		return nil, missesTarget(Floor{})
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	begin, p := time.Now(), s.plan
	p.Request.Target = w
	chosen, err := s.run()
	if err != nil {
		return nil, err
	}
	s.complete(chosen, s.room)
	p.Took = s.took + time.Since(begin)
	return p, nil
}

// Target is what a plan must reach to replace a known plan of another form of the step. Zeros are no limits.
type Target struct {
	Cost  float64 // as Plan.Cost tells it, at most
	Arena int64   // bytes, at most
	Fits  bool    // the plan must fit the request; if none does, the lowest one is not searched for
	// QuickReject rejects the form, too, if one quick solve finds no plan within a little less than Arena. Finding the
	// lowest plan within a limit of cost takes many solves, and forms have most of a step in common.
	QuickReject bool
}

// quickRejectPart: a quick solve aims for arena/quickRejectPart bytes less.
const quickRejectPart = 128

// Limit is the limit of cost, with a little for the rounding of sums.
func (w Target) Limit() float64 {
	if w.Cost == 0 {
		return math.Inf(1)
	}
	return w.Cost * (1 + 1e-9)
}

// extra is the part of that limit left for what runs again.
func (w Target) extra(m *model) float64 { return w.Limit() - m.total - m.own }

// missesTarget is the error for a form without a plan that meets the target.
func missesTarget(f Floor) error {
	return &BudgetError{Floor: f, Msg: "no plan of this form of the step is as good as one of another form"}
}
