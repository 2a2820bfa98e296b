package planner

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"memopt/memopt/graph"
	"memopt/planner/cluster"
)

// strategy is one way to choose what runs again.
type strategy struct {
	name, doc string
	choose    func(s *search, limit int64, limited bool) (*candidate, error)
}

// strategies is the table; plan --strategy takes the names, and auto takes
// keep-all without a budget and greedy with one.
var strategies = []strategy{
	{"keep-all", "nothing runs again", keepAll},
	{"recompute-cheap", "every bandwidth-bound node whose output would be kept runs again", recomputeCheap},
	{"recompute-all", "every node that may runs again if its output would be kept, but for what crosses from layer to layer", recomputeAll},
	{"greedy", "what cuts, repairs and swaps find cheapest within the budget, with a proven bound", greedy},
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

func keepAll(s *search, _ int64, _ bool) (*candidate, error) { return s.base, nil }

func recomputeCheap(s *search, _ int64, _ bool) (*candidate, error) {
	return s.recompute(false, func(n *graph.Node) bool { return n.Op.Recompute == graph.Cheap })
}

func recomputeAll(s *search, _ int64, _ bool) (*candidate, error) {
	return s.recompute(true, func(*graph.Node) bool { return true })
}

// recompute turns on everything that can be computed again from nodes that all
// pass. What layers keep for each other stays: without it the first node of the
// backward pass would bring the whole forward pass back.
func (s *search) recompute(layers bool, ok func(*graph.Node) bool) (*candidate, error) {
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
	return s.m.candidate(again)
}

// find is the cheapest plan within a limit, or nil. Where one is known already a long
// program is sketched for the limit alone.
func (s *search) find(v *solver, limit int64) (c *candidate, err error) {
	if s.known == nil || slices.Contains(s.forced, true) {
		return v.within(limit)
	}
	if len(s.m.sim.plain) > midProgram {
		v.sketchy = true
		c, err = v.at(limit, math.Inf(1))
		v.sketchy = false
	} else {
		c, err = v.within(limit)
	}
	if err != nil {
		return nil, err
	}
	known, err := s.m.candidateOf(s.known)
	if err == nil {
		known, err = s.m.into(known, limit)
	}
	return cheaper(c, known), err
}

// greedy answers a budget with the cheapest plan that is found within it, or a
// limit of extra cost with the lowest.
func greedy(s *search, limit int64, limited bool) (*candidate, error) {
	overhead := s.plan.Request.MaxOverhead
	if !limited && overhead == 0 || s.base.cost > s.m.allows(overhead) { // whatever runs again beside costs more
		return s.base, nil
	}
	v, err := s.solves()
	if err != nil {
		return nil, err
	}
	if no, err := v.hopeless(s.plan.Request.Worth, limit, limited, s.m.allows(overhead)); no || err != nil {
		return nil, cmp.Or(err, worthless(s.plan.Floor))
	}
	if !limited {
		return v.cheap(s.m.allows(overhead))
	}
	// Beside a plan of another form, dearer ones are of no use, and neither is the lowest one
	// where solving finds none.
	beside := s.plan.Request.Worth.Cost > 0 && overhead == 0
	c, err := s.find(v, limit)
	if err == nil {
		c, err = v.thorough(limit, c)
	}
	if err != nil {
		return nil, err
	}
	if c != nil && beside && c.cost > s.plan.Request.Worth.extra(s.m) || c == nil && beside && len(s.m.sim.plain) > smallProgram {
		return nil, worthless(s.plan.Floor)
	}
	if c != nil && c.cost <= s.m.allows(overhead) {
		return c, nil
	}
	hint := ""
	if c != nil {
		hint = "a higher limit of extra compute may reach it"
	}
	if overhead > 0 {
		c, err = v.cheap(s.m.allows(overhead))
	} else {
		c, err = v.last(limit)
	}
	if err != nil {
		return nil, err
	}
	if c.placed.Height <= limit {
		return c, nil
	}
	return nil, s.cannot(limit, c, hint)
}
