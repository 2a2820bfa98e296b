package planner

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// ladder is the plans of greedy, from everything kept downwards.
type ladder struct {
	s     *search
	m     *model
	plain *timeline
	spans span
	rungs int64 // how finely it steps down from the plain arena
	// last measures of what a change is worth, by node: to give its outputs
	// up, and to keep them again.
	give, keep map[int32]float64
}

// The ladder of a small graph has finer rungs: what a rung costs grows faster
// than the graph.
const (
	mostRungs  = 64
	leastRungs = 16
	smallGraph = 512 // steps; up to here the ladder has most rungs
)

// anew is every how many rungs the search starts afresh from minimum cuts;
// between them each plan grows out of the one before.
const anew = 2

func newLadder(s *search) *ladder {
	steps := int64(len(s.base.t.live))
	return &ladder{s: s, m: s.m, plain: s.base.t, spans: s.m.spans(s.base.t),
		rungs: min(max(mostRungs*smallGraph/max(steps, 1), leastRungs), mostRungs),
		give:  map[int32]float64{}, keep: map[int32]float64{}}
}

// plans yields ever lower plans: each has a lower peak and a lower arena than
// all before it. Where a rung cannot be reached, finer ones are tried once.
func (l *ladder) plans() iter.Seq2[*candidate, error] {
	return func(yield func(*candidate, error) bool) {
		lowest := l.s.base
		if !yield(lowest, nil) {
			return
		}
		top := lowest.placed.Height
		target, width, fine := top, max(top/l.rungs, 1), false
		for rung := 1; ; rung++ {
			target -= width
			if target <= 0 {
				return
			}
			if lowest.placed.Height <= target {
				continue
			}
			c, err := l.solve(lowest, target, fine || rung%anew == 0)
			if err == nil && c == nil && !fine && !(rung%anew == 0) {
				c, err = l.solve(lowest, target, true)
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case c == nil && (fine || width < 16):
				return
			case c == nil:
				target += width
				width, fine = width/16, true
				continue
			}
			lowest = c
			if !yield(c, nil) {
				return
			}
		}
	}
}

// solve finds a plan within target whose peak is below before's, or nil.
func (l *ladder) solve(before *candidate, target int64, fresh bool) (*candidate, error) {
	aim := min(target, before.t.peak-1)
	for range 4 {
		if aim <= 0 {
			return nil, nil
		}
		again := l.search(before, aim, fresh)
		if again == nil {
			return nil, nil
		}
		c, err := l.m.candidate(again)
		if err != nil {
			return nil, err
		}
		if c.placed.Height <= target {
			return c, nil
		}
		// Placement took more than the bytes alive: aim lower by as much.
		aim -= c.placed.Height - target
	}
	return nil, nil
}

// search finds the cheapest set whose simulated peak is within aim, from all
// the starts there are; nil if none leads there.
func (l *ladder) search(before *candidate, aim int64, fresh bool) []bool {
	starts := [][]bool{before.again}
	if fresh {
		starts = append(starts, l.cuts(aim)...)
		clear(l.give)
		clear(l.keep)
	}
	var best []bool
	bestCost := 0.0
	for _, start := range starts {
		again, ok := l.drop(slices.Clone(start), aim)
		if !ok {
			continue
		}
		again, cost := l.takeBack(again, aim)
		if best == nil || cost < bestCost {
			best, bestCost = again, cost
		}
	}
	return best
}

// cuts are the sets on either side of the best price at the steps that bind
// most.
func (l *ladder) cuts(aim int64) (sets [][]bool) {
	type found struct {
		bound float64
		sets  []line
	}
	var all []found
	for _, at := range l.m.tight(l.plain, aim) {
		if bound, lines, ok := l.m.newCut(l.plain, l.spans, at).solve(aim); ok && lines != nil {
			all = append(all, found{bound, lines})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.bound, a.bound) })
	for _, f := range all[:min(2, len(all))] {
		for _, x := range f.sets {
			set := x.again
			for n, on := range l.s.forced {
				set[n] = set[n] || on
			}
			if !slices.ContainsFunc(sets, func(y []bool) bool { return slices.Equal(y, set) }) {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// drop changes the set until the peak is within aim: it gives up kept values
// that lie idle at the peak, and keeps given-up ones where that shortens the
// chains that are alive together. Every change must take bytes off the area
// over aim; the most bytes for the least cost wins.
//
// A value's worth is measured by simulation and changes slowly from one choice
// to the next, so the last measure ranks them, and measuring anew stops when
// the best of this choice beats the next one's last measure, or after some.
func (l *ladder) drop(again []bool, aim int64) ([]bool, bool) {
	m := l.m
	t := m.trial(again)
	defer func() { m.recycle(t) }()
	cost := m.againCost(t)
	for t.peak > aim {
		over := area(t, aim)
		var best move
		measure := func(set []bool) float64 {
			u := m.trial(set)
			x := move{set, u, float64(over - area(u, aim)), m.againCost(u)}
			if x.gain > 0 && (best.set == nil || x.worth(cost) > best.worth(cost)) {
				best, u = x, best.t
			}
			if u != nil {
				m.recycle(u)
			}
			return x.worth(cost)
		}
		for i, n := range l.options(t, again) {
			if last, known := l.last(again, n); known && best.set != nil && (best.worth(cost) >= last || i >= weighed) {
				break
			}
			l.note(again, n, measure(l.toggle(t, again, n)))
		}
		if best.set == nil {
			return nil, false
		}
		m.recycle(t)
		again, t, cost = best.set, best.t, best.cost
	}
	return again, true
}

// weighed is how many changes whose worth was measured before are measured
// anew for one choice.
const weighed = 32

// last is what changing n was worth when it was measured last.
func (l *ladder) last(again []bool, n int32) (worth float64, known bool) {
	worth, known = l.measures(again, n)[n]
	return
}

func (l *ladder) note(again []bool, n int32, worth float64) { l.measures(again, n)[n] = worth }

func (l *ladder) measures(again []bool, n int32) map[int32]float64 {
	if again[n] {
		return l.keep
	}
	return l.give
}

// options lists the nodes whose outputs can be given up at the peak and those
// that run again, highest last measure first, unmeasured ones before.
func (l *ladder) options(t *timeline, again []bool) []int32 {
	var out []int32
	for i, n := range l.m.g.Nodes {
		if !again[i] && l.m.mayRunAgain(n) && l.idle(t, int32(i)) {
			out = append(out, int32(i))
		}
	}
	for _, s := range t.steps {
		if s.Again && !l.s.forced[s.Node] {
			out = append(out, s.Node)
		}
	}
	last := func(n int32) float64 {
		if w, known := l.last(again, n); known {
			return w
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(out, func(a, b int32) int { return cmp.Compare(last(b), last(a)) })
	return out
}

// toggle is the set with n given up, or kept again if it is given up.
func (l *ladder) toggle(t *timeline, again []bool, n int32) []bool {
	if !again[n] {
		return l.giveUp(t, again, n)
	}
	set := slices.Clone(again)
	set[n] = false
	return set
}

// move is a set of nodes to run again, with what it takes off the area over
// the aim.
type move struct {
	set  []bool
	t    *timeline
	gain float64
	cost float64
}

// worth is bytes for cost. The least price is one flop, so that of two free
// moves the larger wins.
func (x move) worth(before float64) float64 { return x.gain / max(x.cost-before, 1) }

// giveUp is the set with n given up, and with it what makes n again and is not
// there by itself at the border of the passes.
func (l *ladder) giveUp(t *timeline, again []bool, n int32) []bool {
	set := slices.Clone(again)
	var grow func(n int32)
	grow = func(n int32) {
		set[n] = true
		for _, in := range l.m.inputs[n] {
			p := l.m.g.Values[in].Def
			if !set[p.ID] && l.m.mayRunAgain(p) && !l.crosses(t, in) {
				grow(p.ID)
			}
		}
	}
	grow(n)
	return set
}

// crosses reports whether an owner's first computation is alive when the
// backward pass begins.
func (l *ladder) crosses(t *timeline, owner int32) bool {
	b := t.buffer[2*owner]
	return b >= 0 && int(t.lives[b].last) > l.m.sim.forward
}

// idle reports whether outputs of a node are alive at the peak without being
// touched there.
func (l *ladder) idle(t *timeline, node int32) bool {
	m := l.m
	step := t.steps[t.at]
	for _, v := range m.outputs[node] {
		b := t.buffer[2*v]
		if b < 0 || m.lasting[v] || int(t.lives[b].first) > t.at || int(t.lives[b].last) <= t.at {
			continue
		}
		if !slices.Contains(m.inputs[step.Node], v) && !slices.Contains(m.outputs[step.Node], v) {
			return true
		}
	}
	return false
}

// takeBack keeps again whatever fits under aim, dearest first, until nothing
// more does.
func (l *ladder) takeBack(again []bool, aim int64) ([]bool, float64) {
	m := l.m
	t := m.trial(again)
	defer func() { m.recycle(t) }()
	cost := m.againCost(t)
	for changed := true; changed; {
		changed = false
		var nodes []int32
		for _, s := range t.steps {
			if s.Again && !l.s.forced[s.Node] {
				nodes = append(nodes, s.Node)
			}
		}
		slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(m.cost[b], m.cost[a]) })
		for _, n := range nodes {
			again[n] = false
			u := m.trial(again)
			if c := m.againCost(u); u.peak <= aim && c < cost {
				t, u, cost, changed = u, t, c, true
			} else {
				again[n] = true
			}
			m.recycle(u)
		}
	}
	return again, cost
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
