package recompute

import (
	"cmp"
	"math"
	"slices"

	"memopt/planner/flow"
	"memopt/planner/internal/numbers"
	"memopt/planner/mixes"
)

// cases bounds by the set of large values that is present at the place that binds most. Where hardly anything fits
// beside what its operator needs, few sets leave no room for another, and each is a case. A case tells what must be
// rerun after the place, and how much of that up to a later place. The room at the later place binds, too: what is
// rerun after it is a knapsack in which operators cost nothing that must be rerun but need not have been by then, and
// others cost once more. So is what is read up to a place after that one, and these add up along a chain of places. The
// least of all cases is a bound, so the case with the least is looked at further.
//
// Reruns need room themselves. The moment at which the operator with the largest need is rerun before a later place
// counts as a place, too.
type cases struct {
	s         *Solver
	x         *stateSearch // for its numbers
	place     int32
	later     []later // in order; the last is the end of the program
	asked     map[question]*knapsack
	known     map[freed][]mixes.Choice
	work      int
	now       searchState      // of the current case, behind the place
	rerunOnce float64          // cost of what must be rerun in it, in units
	again     numbers.Set128   // … and the values that makes
	by        []numbers.Set128 // by later place: those of them made by then
	heaviest  []int32          // by later place: the operator with the largest need that is rerun before it first, −1
}

// later is a place after the one that binds most.
type later struct {
	bounded
	want numbers.Set128 // what is read up to it, from the later place before on
}

// question is what to have at a later place, or while an operator is rerun before it, of what is read up to another
// later place.
type question struct {
	from, until int
	op          int32 // −1 at the place itself
}

// freed is parts of a kind of which some operators, as bits by items, cost nothing.
type freed struct {
	k    *kind
	free uint32
}

// caseBound is a bound of a case, in units, and how often it was raised.
type caseBound struct {
	least float64
	which int32
	looks int
}

func (a caseBound) Before(b caseBound) bool {
	return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.which, b.which)) < 0
}

// More sets and looks raise bounds of longer programs close to their floors.
const (
	mostCases = 1 << 28 // operators of a program times looks for sets
	likely    = 4       // cases whose sets evictors keep
	mostCased = 5 << 20 // work for all cases of a limit; this much is a tenth of a second
)

// cases is the bound in units, at most target, and the sets of the cheapest cases. It is 0 if there are too many cases.
func (s *Solver) cases(x *stateSearch, at []bounded, target float64) (least float64, kept []keep) {
	c := &cases{s: s, x: x, place: at[0].c.at, asked: map[question]*knapsack{}, known: map[freed][]mixes.Choice{}}
	if c.addLater(at[1:]); len(c.later) == 1 {
		return 0, nil
	}
	needs, others := x.ins[c.place].Or(x.outs[c.place]), numbers.Set128{}
	for v, b := range x.number {
		if b >= 0 && s.p.mustKeep(int32(v), s.sim.maker[v], c.place) {
			needs = needs.With(b)
		}
	}
	for b, op := range x.maker {
		if b := int32(b); op < c.place && !needs.Has(b) {
			others = others.With(b)
		}
	}
	sets, ok := x.fullest(others, c.place+1, at[0].room, mostCases/len(s.p.Cost))
	if !ok {
		return 0, nil
	}
	var queue numbers.Heap[caseBound]
	for i, set := range sets {
		c.enter(set.Or(needs))
		queue.Push(caseBound{c.rerunOnce, int32(i), 0})
	}
	for least = target; len(queue) > 0; {
		s.p.poll()
		top := queue[0]
		if least = top.least; least >= target || c.work > mostCased || top.looks == len(c.later)+1 {
			break
		}
		queue.Pop()
		c.enter(sets[top.which].Or(needs))
		top.least = max(top.least, c.rerunOnce+c.look(top.looks, target-c.rerunOnce))
		top.looks++
		queue.Push(top)
	}
	for ; len(queue) > 0 && len(kept) < likely; queue.Pop() {
		kept = append(kept, c.kept(sets[queue[0].which]))
	}
	s.cutWork += int64(c.work)
	return min(least, target), kept
}

// kept is what evictors keep in a case up to the place: of the values with a number, the one made last.
func (c *cases) kept(set numbers.Set128) keep {
	all := make(keep, len(c.s.p.Bytes))
	for b := range set.Each {
		last := int32(-1)
		for v, op := range c.s.sim.maker {
			if c.x.number[v] == b && op < c.place && (last < 0 || op > c.s.sim.maker[last]) {
				last = int32(v)
			}
		}
		all[last].to = c.place + 1
	}
	return all
}

// addLater lists the places after the first that bind most, and the end.
func (c *cases) addLater(at []bounded) {
	for _, b := range at {
		if len(c.later) < chainPlaces && b.c.at > c.place && b.bound > 0 {
			c.later = append(c.later, later{bounded: b})
		}
	}
	slices.SortFunc(c.later, func(a, b later) int { return cmp.Compare(a.c.at, b.c.at) })
	c.later = append(c.later, later{bounded: bounded{c: &cut{at: int32(len(c.x.ins)) - 1}}})
	op := c.place + 1
	for i := range c.later {
		for l := &c.later[i]; op <= l.c.at; op++ {
			l.want = l.want.Or(c.x.ins[op])
		}
	}
}

// enter makes a case the current one.
func (c *cases) enter(there numbers.Set128) {
	x, cost := c.x, 0.0
	c.now, c.by, c.heaviest, x.reran = searchState{stateKey: stateKey{there, c.place + 1}}, c.by[:0], c.heaviest[:0], numbers.Set128{}
	for _, l := range c.later {
		before, most := x.reran, int32(-1)
		cost += x.rerunCost(l.want, c.now)
		for b := range x.reran.Minus(before).Each {
			if op := x.remakes[b].op; most < 0 || cmp.Or(cmp.Compare(x.need(op), x.need(most)), cmp.Compare(op, most)) > 0 {
				most = op
			}
		}
		c.by, c.heaviest = append(c.by, x.reran), append(c.heaviest, most)
	}
	c.rerunOnce, c.again = cost/c.s.unit, x.reran
}

// need is the bytes that it takes to rerun an operator.
func (x *stateSearch) need(op int32) (bytes int64) {
	for b := range x.ins[op].Or(x.outs[op]).Each {
		bytes += x.bytes[b]
	}
	if len(x.s.p.Over.Of(op)) > 0 && !x.outs[op].Empty() {
		bytes -= x.bytes[x.outs[op].Lowest()]
	}
	return x.rerunBytes[op] + bytes
}

// look bounds what is rerun in the current case besides what must be rerun once: after one of the later places, or by
// the best chain of them.
func (c *cases) look(turn int, target float64) float64 {
	n := len(c.later) - 1
	if turn < n {
		return c.behindTwice(turn, n, target, false)
	}
	said, exact := map[[2]int]float64{}, map[[2]int]bool{}
	for j := range n {
		for k := j + 1; k <= n; k++ {
			said[[2]int{j, k}] = c.behindTwice(j, k, target, false)
		}
	}
	for {
		behind, next := make([]float64, n+1), make([]int, n+1)
		for j := n - 1; j >= 0; j-- {
			behind[j] = math.Inf(-1)
			for k := j + 1; k <= n; k++ {
				if sum := said[[2]int{j, k}] + behind[k]; sum > behind[j] {
					behind[j], next[j] = sum, k
				}
			}
		}
		same := turn == n
		for j := 0; j < n && !same; j = next[j] {
			if jk := [2]int{j, next[j]}; !exact[jk] && said[jk] > 0 {
				exact[jk] = true
				said[jk] = max(said[jk], c.behindTwice(j, next[j], target, true))
				break
			}
			same = next[j] == n
		}
		if same {
			return behind[0]
		}
	}
}

// behindTwice bounds the reruns after a later place for what is read up to another, besides what must be rerun once: at
// the place, or at the moment before it that needs most room. It does so by prices, or exactly.
func (c *cases) behindTwice(from, until int, target float64, exact bool) float64 {
	x, op := c.x, c.heaviest[from]
	least := c.bound(question{from, until, -1}, c.by[from], target, exact)
	if op >= 0 {
		x.reran = numbers.Set128{}
		x.rerunCost(x.ins[op], c.now)
		least = max(least, c.bound(question{from, until, op}, x.reran.Or(x.outs[op]), target, exact))
	}
	return least
}

// bound answers a question, where some of what must be rerun was before.
func (c *cases) bound(q question, ran numbers.Set128, target float64, exact bool) float64 {
	t, known := c.asked[q]
	if !known {
		t = c.s.newKnapsack(c.newCut(q), nil)
		c.asked[q] = t
	}
	if t == nil {
		return 0
	}
	y, at := &knapsack{s: c.s, first: t.first, grain: t.grain, values: t.values}, map[freed]int{}
	for i := range t.kinds {
		for _, part := range t.kinds[i].parts {
			f := freed{k: &t.kinds[i]}
			for j, v := range part {
				if made := c.x.outs[c.s.sim.maker[t.values[v].value]]; !made.And(c.again.Minus(ran)).Empty() {
					f.free |= 1 << j
				}
			}
			n, met := at[f]
			if !met {
				n = len(y.kinds)
				at[f] = n
				y.kinds = append(y.kinds, kind{mixed: c.choices(t, f)})
			}
			y.kinds[n].parts = append(y.kinds[n].parts, part)
		}
	}
	c.work += len(t.values) + mixes.PriceSteps*len(y.kinds)
	if y.within([2]int64{c.x.limit - t.first.fixed, 0}); !exact {
		return y.mix.Bound
	}
	bound, _ := y.mix.Best(target, 0)
	c.work += y.mix.Looks
	return bound
}

// newCut is the cut of a question. While an operator is rerun, what is made after the first place is present for
// nothing.
func (c *cases) newCut(q question) *cut {
	s, at, until := c.s, c.later[q.from].c.at, c.later[q.until].c.at
	if q.op < 0 {
		return s.newCut(at, until)
	}
	k := s.emptyCut(at)
	k.fixed = c.x.need(q.op) + slices.Min(c.x.restBytes[c.place+1:at+1])
	for _, list := range [][]int32{s.p.Inputs.Of(q.op), s.p.Outputs.Of(q.op)} {
		for _, v := range list {
			s.mark(v, free)
		}
	}
	for v, l := range s.spans {
		switch v := int32(v); {
		case s.sim.maker[v] < 0 || s.index[v] != 0:
		case l.made >= c.place || !s.droppable(v) && l.last > c.place:
			s.mark(v, free)
		case s.droppable(v) && s.readBetween(v, at, until):
			s.addValue(k, v)
		}
	}
	s.finish(k)
	return k
}

// choices is the choices of parts of which some operators cost nothing.
func (c *cases) choices(t *knapsack, f freed) []mixes.Choice {
	all, known := c.known[f]
	if !known {
		x := f.k.bits
		x.cost = slices.Clone(x.cost)
		for j := range x.cost {
			if f.free>>j&1 == 1 && x.cost[j] < flow.Endless {
				x.cost[j] = 0
			}
		}
		ways, _ := t.choices(&x)
		all = mixed(ways)
		c.known[f] = all
		c.work += len(f.k.choices) * len(x.cost)
	}
	return all
}
