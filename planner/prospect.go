package planner

import (
	"fmt"
	"math"
	"time"

	"memopt/memopt/graph"
)

// Prospect is a request that was looked at, and can be planned. What any plan costs at least
// is known soon, so who compares forms of a step begins with the one that promises most.
type Prospect struct {
	s    *search
	took time.Duration // so far
}

// Look looks at a training graph.
func Look(g *graph.Graph, r Request) (*Prospect, error) {
	begin := time.Now()
	m, err := newModel(g, r.Dims, r.Lowered)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	if err := m.beside(r); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	if m.total+m.own > r.Worth.cost() {
		return nil, worthless(Floor{})
	}
	p, base, err := m.begin(g, r)
	if err != nil {
		return nil, err
	}
	s := &search{m: m, base: base, plan: p}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	return &Prospect{s, time.Since(begin)}, nil
}

// Fits reports whether everything can be kept, as far as settings do not ask for more.
func (x *Prospect) Fits() bool {
	limit, limited := x.s.plan.Room()
	return !limited || x.s.base.placed.Height <= limit
}

// Least is what any plan costs at least, and what the step does with everything kept, both as
// Plan.Cost tells them. Infinity is that there is no plan.
func (x *Prospect) Least() (least, plain float64, err error) {
	begin, s := time.Now(), x.s
	defer func() { x.took += time.Since(begin) }()
	own := s.m.total + s.m.own
	if x.Fits() || s.strategy() != "greedy" {
		return own + s.base.cost, s.m.total, nil
	}
	v, err := s.solves()
	if err != nil {
		return 0, 0, fmt.Errorf("planner: %w", err)
	}
	limit, _ := s.plan.Room()
	least, ok := v.least(limit)
	if !ok {
		least = math.Inf(1)
	}
	return own + least, s.m.total, nil
}

// Plan plans the request, if that comes to something of worth.
func (x *Prospect) Plan(w Worth) (*Plan, error) {
	begin, s := time.Now(), x.s
	m, p := s.m, s.plan
	if p.Request.Worth = w; m.total+m.own > w.cost() {
		return nil, worthless(p.Floor)
	}
	chosen, err := s.run()
	if err != nil {
		return nil, err
	}
	chosen.again = ranAgain(chosen.t.steps, len(p.Graph.Nodes))
	p.adopt(chosen)
	if p.Bound, err = m.bound(chosen, s.target, s.solver); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	p.s, p.c = s, chosen
	if err := Check(p); err != nil {
		panic(fmt.Sprintf("planner: its own plan is wrong: %v", err))
	}
	p.Took = x.took + time.Since(begin)
	return p, nil
}
