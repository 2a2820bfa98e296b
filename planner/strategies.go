package planner

import (
	"slices"
	"strings"

	"memopt/memopt/graph"
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
	{"recompute-all", "every node that may runs again if its output would be kept", recomputeAll},
	{"greedy", "lowers the simulated peak by the best ratio of bytes to cost until the budget is met", greedy},
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
	return s.recompute(func(n *graph.Node) bool { return n.Op.Recompute == graph.Cheap })
}

func recomputeAll(s *search, _ int64, _ bool) (*candidate, error) {
	return s.recompute(func(*graph.Node) bool { return true })
}

// recompute turns on every cluster all of whose nodes pass.
func (s *search) recompute(ok func(*graph.Node) bool) (*candidate, error) {
	again := slices.Clone(s.forced)
	for _, c := range s.clusters {
		for _, e := range c.Entries {
			if slices.ContainsFunc(e.Nodes, func(n *graph.Node) bool { return !ok(n) }) {
				continue
			}
			for _, n := range e.Nodes {
				again[n.ID] = true
			}
		}
	}
	return s.m.candidate(again)
}

// tooDear is how many plans over the limit of extra cost end the way down.
const tooDear = 3

// greedy answers a budget from a ladder of plans that does not depend on it:
// the first plan on the way down that fits is the answer. So less budget never
// gives more peak, however the search behind a rung behaves.
func greedy(s *search, limit int64, limited bool) (*candidate, error) {
	overhead := s.plan.Request.MaxOverhead
	if !limited && overhead == 0 {
		return s.base, nil
	}
	best, dear := s.base, 0
	for c, err := range newLadder(s).plans() {
		if err != nil {
			return nil, err
		}
		if overhead > 0 && c.cost > overhead*s.m.total {
			// Lower plans cost more, but for a search's bad luck.
			if dear++; dear == tooDear {
				break
			}
			continue
		}
		best = c
		if limited && c.placed.Height <= limit {
			return c, nil
		}
	}
	if !limited {
		return best, nil
	}
	if best.placed.Height <= limit {
		return best, nil
	}
	hint := "a smaller batch or sequence needs less"
	if overhead > 0 {
		hint = "a higher --max-overhead may reach it"
	}
	return nil, s.cannot(limit, best, hint)
}
