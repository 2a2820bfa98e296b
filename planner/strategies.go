package planner

import (
	"cmp"
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

// rungs is how finely greedy steps down from the plain arena. Each rung's plan
// grows out of the one before, never with a higher peak, and a budget takes
// the first rung at or below it: so less budget never gives more peak.
const rungs = 128

func greedy(s *search, limit int64, limited bool) (*candidate, error) {
	if !limited && s.plan.Request.MaxOverhead == 0 {
		return s.base, nil
	}
	l := newLadder(s)
	top := s.base.placed.Height
	best := s.base
	allowed := func(c *candidate) bool {
		max := s.plan.Request.MaxOverhead
		return max == 0 || c.cost <= max*s.m.total
	}
	down := func(target int64) (reached bool, err error) {
		if target <= 0 {
			return false, nil
		}
		c, err := l.step(best, target)
		if err != nil || c == nil || !allowed(c) {
			return false, err
		}
		best = c
		return true, nil
	}
	fits := func() bool { return limited && best.placed.Height <= limit }
	// Where a rung cannot be reached, finer ones are tried once, so that a
	// budget between the lowest rung and the lowest plan is served too.
	target, width, fine := top, max(top/rungs, 1), false
	for !fits() {
		ok, err := down(target - width)
		switch {
		case err != nil:
			return nil, err
		case ok:
			target -= width
		case fine || width < 16:
			width = 0
		default:
			width, fine = width/16, true
		}
		if width == 0 {
			break
		}
	}
	if limited && !fits() {
		hint := "a smaller batch or sequence needs less"
		if s.plan.Request.MaxOverhead > 0 {
			hint = "a higher --max-overhead may reach it"
		}
		return nil, s.cannot(limit, best, hint)
	}
	return best, nil
}

// ladder holds what greedy knows of each entry.
type ladder struct {
	s       *search
	entries []entry
}

type entry struct {
	node  int32 // whose outputs are kept
	nodes []int32
	bytes int64
	cost  float64
}

func newLadder(s *search) *ladder {
	l := &ladder{s: s}
	for _, c := range s.clusters {
		for _, e := range c.Entries {
			x := entry{node: e.Node.ID, nodes: ids(e.Nodes)}
			for _, n := range x.nodes {
				x.cost += s.m.cost[n]
			}
			x.bytes, _ = s.m.binding.Eval(e.Saving)
			if x.bytes > 0 && !s.forced[e.Node.ID] {
				l.entries = append(l.entries, x)
			}
		}
	}
	slices.SortStableFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.node, b.node) })
	return l
}

// step finds a plan whose arena is within target and whose peak is no higher
// than before's, starting from before; nil if there is none.
func (l *ladder) step(before *candidate, target int64) (*candidate, error) {
	if before.placed.Height <= target {
		return before, nil
	}
	aim := min(target, before.t.peak)
	for range 4 {
		again, ok := l.drop(slices.Clone(before.again), aim)
		if !ok {
			return nil, nil
		}
		again = l.takeBack(again, aim)
		c, err := l.s.m.candidate(again)
		if err != nil {
			return nil, err
		}
		if c.placed.Height <= target {
			return c, nil
		}
		// Placement took more than the bytes alive: aim lower by as much.
		aim -= c.placed.Height - target
		if aim <= 0 {
			return nil, nil
		}
	}
	return nil, nil
}

// weighed is how many values to give up are simulated for one choice.
const weighed = 24

// drop changes the set until the peak is within aim: it gives up kept values
// that lie idle at the peak, and keeps given-up ones where that shortens the
// chains that are alive together. Every change must take bytes off the area
// over aim; the most bytes for the least cost wins.
func (l *ladder) drop(again []bool, aim int64) ([]bool, bool) {
	m := l.s.m
	t := m.simulate(m.order(again))
	cost := m.againCost(t)
	for t.peak > aim {
		over := area(t, aim)
		var best move
		try := func(set []bool) {
			u := m.simulate(m.order(set))
			x := move{set, u, float64(over - area(u, aim)), m.againCost(u)}
			if x.gain > 0 && (best.set == nil || x.gain*best.price(cost) > best.gain*x.price(cost)) {
				best = x
			}
		}
		for i, e := range l.byWorth(t, again) {
			if i >= weighed && best.set != nil {
				break
			}
			try(turnOn(again, e.nodes))
		}
		for _, e := range l.entries {
			if again[e.node] {
				set := slices.Clone(again)
				set[e.node] = false
				try(set)
			}
		}
		if best.set == nil {
			return nil, false
		}
		again, t, cost = best.set, best.t, best.cost
	}
	return again, true
}

// move is a set of nodes to run again, with what it takes off the area over
// the aim.
type move struct {
	set  []bool
	t    *timeline
	gain float64
	cost float64
}

// price is what a move costs more than before; never nothing, so that of two
// free moves the larger wins.
func (x move) price(before float64) float64 { return max(x.cost-before, 1) }

// byWorth lists the entries that can be given up at the peak, most bytes for
// their cost first.
func (l *ladder) byWorth(t *timeline, again []bool) []entry {
	var out []entry
	for _, e := range l.entries {
		if !again[e.node] && l.idle(t, e) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b entry) int {
		return cmp.Compare(float64(b.bytes)*(a.cost+1), float64(a.bytes)*(b.cost+1))
	})
	return out
}

// idle reports whether the entry's bytes are alive at the peak without being
// touched there.
func (l *ladder) idle(t *timeline, e entry) bool {
	m := l.s.m
	step := t.steps[t.at]
	for _, v := range m.outputs[e.node] {
		b := t.buffer[2*v]
		if b < 0 || int(t.lives[b].first) > t.at || int(t.lives[b].last) <= t.at {
			continue
		}
		if !slices.Contains(m.inputs[step.Node], v) && !slices.Contains(m.outputs[step.Node], v) {
			return true
		}
	}
	return false
}

// takeBack keeps again, dearest first, whatever fits under aim.
func (l *ladder) takeBack(again []bool, aim int64) []bool {
	m := l.s.m
	byCost := slices.Clone(l.entries)
	slices.SortStableFunc(byCost, func(a, b entry) int { return cmp.Compare(b.cost, a.cost) })
	cost := m.againCost(m.simulate(m.order(again)))
	for _, e := range byCost {
		if !again[e.node] {
			continue
		}
		set := slices.Clone(again)
		set[e.node] = false
		if t := m.simulate(m.order(set)); t.peak <= aim && m.againCost(t) < cost {
			again, cost = set, m.againCost(t)
		}
	}
	return again
}

func turnOn(again []bool, nodes []int32) []bool {
	set := slices.Clone(again)
	for _, n := range nodes {
		set[n] = true
	}
	return set
}

// againCost is what the repeated launches cost.
func (m *model) againCost(t *timeline) (sum float64) {
	for _, s := range t.steps {
		if s.Again {
			sum += m.cost[s.Node]
		}
	}
	return sum
}

// area is the bytes over a limit, summed over steps.
func area(t *timeline, limit int64) (sum int64) {
	for _, b := range t.live {
		sum += max(0, b-limit)
	}
	return sum
}
