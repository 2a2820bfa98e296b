package planner

import (
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
