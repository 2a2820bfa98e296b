package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/internal/bytesize"
	"memopt/internal/graph"
	"memopt/planner/cluster"
)

// BudgetError says that a budget cannot be met, and what could.
type BudgetError struct {
	Want, Best, Fixed int64 // arena bytes wanted and reached; bytes outside it
	Counted           int64 // Fixed, if the budget that was missed counts them: then Best + Counted bytes suffice
	Floor             Floor
	FloorOp           string // the operator of the floor's node
	FloorModule       string // and the module of the model that it belongs to; "" is unknown
	Msg               string
	Changes           []Change // each would make the request fit, as Msg says
	Note              string   // what may have been meant, as Msg says
	Least             int64    // of Largest: the smallest size of its dim, which does not fit either
}

func (e *BudgetError) Error() string { return e.Msg }

// run finds the candidate that a prepared request asks for. Where a plan is known, which keeps the request, that is it if the
// request's strategy or clusters have none.
func (s *Search) run() (*candidate, error) {
	c, err := s.choose()
	var short *BudgetError
	if s.known == nil || !errors.As(err, &short) {
		return c, err
	}
	limit, _ := s.plan.Room()
	s.plan.Strategy, s.room = byLimits, limit
	return s.m.placeWithin(s.m.candidateOf(s.known, given), limit), nil
}

// choose is run by the request's strategy.
func (s *Search) choose() (*candidate, error) {
	r := s.plan.Request
	limit, limited := s.plan.Room() // less than nothing where what lies outside the arena is over the budget
	name := s.strategy()
	i := slices.IndexFunc(strategies, func(st strategy) bool { return st.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no strategy is called %q; there are auto, %s", name, strategyNames())
	}
	s.plan.Strategy = name
	c, err := strategies[i].choose(s, limit, limited)
	if err != nil {
		return nil, err
	}
	if c == s.base { // whichever strategy kept to it
		c.by = byStrategy + strategies[0].name
	} else if c.by == "" {
		c.by = byStrategy + name
	}
	if s.room = c.placed.Height; limited {
		s.room = limit
	}
	if c.cost > s.m.allows(r.MaxOverhead) {
		return nil, &BudgetError{Floor: s.plan.Floor, Msg: fmt.Sprintf(
			"the plan costs %.1f%% more than the plain step, over the limit of %.1f%%; raise that limit or the budget",
			100*s.m.overhead(c.cost), 100*r.MaxOverhead)}
	}
	if c.placed.Height == math.MaxInt64 {
		return nil, fmt.Errorf("the plan runs so much again that its bytes are no number")
	}
	if !limited {
		return c, nil
	}
	if c = s.m.placeWithin(c, limit); c.placed.Height > limit {
		return nil, s.cannot(limit, s.m.trimmed(c), "")
	}
	return c, nil
}

// strategy is the name of the one that the request asks for.
func (s *Search) strategy() string {
	r := s.plan.Request
	if r.Strategy != "" && r.Strategy != "auto" {
		return strategyNamed(r.Strategy)
	}
	if _, limited := s.plan.Room(); !limited && r.MaxOverhead == 0 {
		return "keep-all"
	}
	return byLimits
}

// InBytes is the request with its budgets in bytes: shares are those of a step with everything kept. Forms of one step
// are then planned within the same.
func (r Request) InBytes(g *graph.Graph) (Request, error) {
	if !r.shares() {
		return r, nil
	}
	m, err := newModel(g, r)
	if err != nil {
		return r, err
	}
	return m.inBytes(r), nil
}

// shares reports whether a budget is a share of something.
func (r Request) shares() bool { return r.Budget.Percent != 0 || r.ActivationBudget.Percent != 0 }

// inBytes is a request with its budgets in bytes.
func (m *model) inBytes(r Request) Request {
	if r.shares() {
		arena := m.keepAll().placed.Height
		r.Budget = Size{Bytes: r.Budget.of(m.fixedBytes() + arena)}
		r.ActivationBudget = Size{Bytes: r.ActivationBudget.of(arena)}
	}
	return r
}

// cannot is the error for a limit that was not reached.
func (s *Search) cannot(limit int64, best *candidate, hint string) error {
	fixed := s.m.fixedBytes()
	f := s.plan.Floor
	left := fmt.Sprintf("budget cannot be met: %s are left for the arena,", bytesize.Exact(limit))
	if limit < 0 {
		left = fmt.Sprintf("budget %s cannot be met: parameters, optimizer states and inputs alone take %s, and", bytesize.Exact(limit+fixed), bytesize.Exact(fixed))
	}
	msg := fmt.Sprintf("%s the lowest plan found needs %s (total %s); no plan goes below the floor of %s because of node %q",
		left, bytesize.Exact(best.placed.Height), bytesize.Exact(best.placed.Height+fixed), bytesize.Exact(f.Peak), f.Node)
	if hint != "" {
		msg += "; " + hint
	}
	e := &BudgetError{Want: limit, Best: best.placed.Height, Fixed: fixed, Floor: f, Msg: msg}
	if r := s.m.inBytes(s.plan.Request); !r.Budget.isZero() && r.Budget.Bytes-fixed == limit {
		e.Counted = fixed
	}
	for _, n := range s.m.g.Nodes {
		if n.Name == f.Node && !n.Op.View {
			line := graph.ParseLine(n.String())
			e.FloorOp, e.FloorModule = line.Op, line.Module
		}
	}
	return e
}

// requested is the nodes that settings turn on by name, level or cluster.
func (s *Search) requested() ([]bool, error) {
	r := s.plan.Request
	on := make([]bool, len(s.m.g.Nodes))
	byName := map[string]*graph.Node{}
	if len(r.Again) > 0 {
		for _, n := range s.m.g.Nodes {
			byName[n.Name] = n
		}
	}
	for _, name := range r.Again {
		n := byName[name]
		if n == nil {
			return nil, fmt.Errorf("no node is named %q", name)
		}
		if !repeatable(n) {
			return nil, fmt.Errorf("node %q (%s) cannot run again: it is no repeatable forward node", name, n.Op.FullName())
		}
		on[n.ID] = s.m.mayRunAgain(n) // or else it is not needed again, or its bytes are gone
	}
	return on, s.turnOn(on)
}

// strategy is one way to choose what runs again.
type strategy struct {
	name, doc string
	choose    func(s *Search, limit int64, limited bool) (*candidate, error)
}

// strategies is the table; plan --strategy takes the names, and auto takes keep-all without limits, and
// optimize with one.
var strategies = []strategy{
	{"keep-all", "nothing runs again", func(s *Search, _ int64, _ bool) (*candidate, error) { return s.base, nil }},
	{"recompute-cheap", "every bandwidth-bound node whose output would be kept runs again", func(s *Search, _ int64, _ bool) (*candidate, error) {
		return s.recompute(false, func(n *graph.Node) bool { return n.Op.Recompute == graph.Cheap })
	}},
	{"recompute-all", "every node that may runs again if its output would be kept, but for what crosses from layer to layer", func(s *Search, _ int64, _ bool) (*candidate, error) {
		return s.recompute(true, func(*graph.Node) bool { return true })
	}},
	{byLimits, "what cuts, repairs and swaps find cheapest within the budget, with a proven bound", withinLimits},
}

// byLimits is the strategy that plans within budgets and limits of cost. Its name was once formerly, which requests and
// plan files may still have.
const byLimits, formerly = "optimize", "greedy"

// strategyNamed is the present name of a strategy.
func strategyNamed(name string) string {
	if name == formerly {
		return byLimits
	}
	return name
}

// Strategies lists names and what they do.
func Strategies() (names, docs []string) {
	for _, st := range strategies {
		names, docs = append(names, st.name), append(docs, st.doc)
	}
	return names, docs
}

func strategyNames() string {
	names, _ := Strategies()
	return strings.Join(names, ", ")
}

// recompute turns on everything that can be computed again from nodes that all pass. What layers keep for each other
// stays: without it the first node of the backward pass would bring the whole forward pass back.
func (s *Search) recompute(layers bool, ok func(*graph.Node) bool) (*candidate, error) {
	r := s.plan.Request
	r.Compat, r.Boundary = "", r.Boundary && layers
	o, err := s.m.analyse(r)
	if err != nil {
		return nil, err
	}
	again := slices.Clone(s.forced)
	for i := range o.a.Plans {
		option := &o.a.Plans[i].Options[0]
		if option.Type != cluster.Full || slices.ContainsFunc(o.runs[option], func(id int32) bool { return !ok(s.m.g.Nodes[id]) }) {
			continue
		}
		o.turn(again, option)
	}
	return s.m.candidate(again), nil
}
