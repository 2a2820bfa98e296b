package recompute

import (
	"cmp"
	"math"
	"slices"
)

// cases bounds by the set of large values that is there at the place that binds most. Where hardly
// anything fits beside what its operator needs, few sets leave no room for more, and each is a case.
// In a case it is known what must run again behind the place, and what of that up to a later place.
// The room at the later place binds, too: what runs again behind it is a knapsack's question, in
// which operators cost nothing that must run again but need not have by then, and others cost
// another time. So is what is read up to a place behind that one, and these add up along a chain of
// places. The least of all cases is a bound, so the case with the least is looked at further.
//
// What must run again needs room itself. The moment at which the operator with the largest need does
// before a later place is a place like others.
type cases struct {
	s        *Solver
	x        *tight // for its numbers
	place    int32
	later    []later // in the order of the program; the last is its end
	asked    map[question]*knapsack
	known    map[freed][]choice
	work     int
	there    large   // the case that is looked at
	once     float64 // what must run again in it, in units
	again    large   // what that makes
	by       []large // by later place: what of that is made again by then
	heaviest []int32 // by later place: the operator with the largest need that runs again before it first, −1
}

// later is a place behind the one that binds most.
type later struct {
	bounded
	want large // what is read up to there, from the later place before on
}

// question is what to have at a later place, or as an operator runs again before it, of what is read
// up to another.
type question struct {
	from, until int
	op          int32 // −1 at the place itself
}

// freed is parts of a kind of which some operators, as bits by their values, cost nothing.
type freed struct {
	k    *kind
	free uint32
}

// outlook is a case, what it costs at least, in units, and how often it was looked at.
type outlook struct {
	least float64
	which int32
	looks int
}

func (a outlook) before(b outlook) bool {
	return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.which, b.which)) < 0
}

// More sets and looks raise bounds of longer programs close to their floors: 5 << 20 looks are a tenth of a second.
const (
	mostCases = 1 << 28 // operators of a program times looks for sets
	mostCased = 5 << 20 // what may be looked at for all cases of a limit
	likely    = 4       // cases that plans are made for
)

// cases is that bound in units, or a target if that is less, and up to which places values stay in
// the cases that cost least. It is 0 if there are very many cases.
func (s *Solver) cases(x *tight, at []bounded, target float64) (least float64, kept []keep) {
	c := &cases{s: s, x: x, place: at[0].c.at, asked: map[question]*knapsack{}, known: map[freed][]choice{}}
	if c.addLater(at[1:]); len(c.later) == 1 {
		return 0, nil
	}
	needs, others := x.ins[c.place].or(x.outs[c.place]), large{}
	for v, b := range x.bit {
		if b >= 0 && s.p.stays(int32(v), s.sim.maker[v], c.place) {
			needs = needs.with(b)
		}
	}
	for b, op := range x.maker {
		if b := int32(b); op < c.place && !needs.has(b) {
			others = others.with(b)
		}
	}
	sets, ok := x.fullest(others, c.place+1, at[0].room, mostCases/len(s.p.Cost))
	if !ok {
		return 0, nil
	}
	var queue heap[outlook]
	for i, set := range sets {
		c.enter(set.or(needs))
		queue.push(outlook{c.once, int32(i), 0})
	}
	for least = target; len(queue) > 0; {
		s.p.poll()
		top := queue[0]
		if least = top.least; least >= target || c.work > mostCased || top.looks == len(c.later)+1 {
			break
		}
		queue.pop()
		c.enter(sets[top.which].or(needs))
		top.least = max(top.least, c.once+c.look(top.looks, target-c.once))
		top.looks++
		queue.push(top)
	}
	for ; len(queue) > 0 && len(kept) < likely; queue.pop() {
		kept = append(kept, c.kept(sets[queue[0].which]))
	}
	s.spent += int64(c.work)
	return min(least, target), kept
}

// kept is, by value, the place up to which it stays in a case.
func (c *cases) kept(set large) keep {
	all := make(keep, len(c.s.p.Bytes))
	for b := range set.each {
		last := int32(-1) // of the values with that number, the last one made
		for v, op := range c.s.sim.maker {
			if c.x.bit[v] == b && op < c.place && (last < 0 || op > c.s.sim.maker[last]) {
				last = int32(v)
			}
		}
		all[last].to = c.place + 1
	}
	return all
}

// addLater lists the places that bind most of those behind the first, and the end.
func (c *cases) addLater(at []bounded) {
	for _, b := range at {
		if len(c.later) < links && b.c.at > c.place && b.bound > 0 {
			c.later = append(c.later, later{bounded: b})
		}
	}
	slices.SortFunc(c.later, func(a, b later) int { return cmp.Compare(a.c.at, b.c.at) })
	c.later = append(c.later, later{bounded: bounded{c: &cut{at: int32(len(c.x.ins)) - 1}}})
	op := c.place + 1
	for i := range c.later {
		for l := &c.later[i]; op <= l.c.at; op++ {
			l.want = l.want.or(c.x.ins[op])
		}
	}
}

// enter looks at a case.
func (c *cases) enter(there large) {
	x, cost := c.x, 0.0
	c.there, c.by, c.heaviest, x.made = there, c.by[:0], c.heaviest[:0], large{}
	for _, l := range c.later {
		before, most := x.made, int32(-1)
		cost += x.missing(l.want, c.state())
		for b := range x.made.minus(before).each {
			if op := x.remakes[b].op; most < 0 || cmp.Or(cmp.Compare(x.need(op), x.need(most)), cmp.Compare(op, most)) > 0 {
				most = op
			}
		}
		c.by, c.heaviest = append(c.by, x.made), append(c.heaviest, most)
	}
	c.once, c.again = cost/c.s.unit, x.made
}

func (c *cases) state() tightState {
	return tightState{whereabouts: whereabouts{c.there, c.place + 1}}
}

// need is the bytes that it takes to run an operator again.
func (x *tight) need(op int32) (bytes int64) {
	for b := range x.ins[op].or(x.outs[op]).each {
		bytes += x.bytes[b]
	}
	if len(x.s.p.Over.Of(op)) > 0 && !x.outs[op].empty() {
		bytes -= x.bytes[x.outs[op].lowest()]
	}
	return x.again[op] + bytes
}

// look is what runs again in a case besides what must: by one of the later places, or by all.
func (c *cases) look(turn int, target float64) float64 {
	n := len(c.later) - 1
	if turn < n {
		return c.twice(turn, n, target, false)
	}
	said, exact := map[[2]int]float64{}, map[[2]int]bool{}
	for j := range n {
		for k := j + 1; k <= n; k++ {
			said[[2]int{j, k}] = c.twice(j, k, target, false)
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
				said[jk] = max(said[jk], c.twice(j, next[j], target, true))
				break
			}
			same = next[j] == n
		}
		if same {
			return behind[0]
		}
	}
}

// twice is what runs again behind a later place for what is read up to another, besides what must run
// once: behind the place, or behind the moment before it that needs most room. Prices for bytes say
// so, or sets.
func (c *cases) twice(from, until int, target float64, exact bool) float64 {
	x, op := c.x, c.heaviest[from]
	least := c.bound(question{from, until, -1}, c.by[from], target, exact)
	if op >= 0 {
		x.made = large{}
		x.missing(x.ins[op], c.state())
		least = max(least, c.bound(question{from, until, op}, x.made.or(x.outs[op]), target, exact))
	}
	return least
}

// bound answers a question where some of what must run again did before.
func (c *cases) bound(q question, ran large, target float64, exact bool) float64 {
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
				if made := c.x.outs[c.s.sim.maker[t.values[v].value]]; !made.and(c.again.minus(ran)).empty() {
					f.free |= 1 << j
				}
			}
			n, met := at[f]
			if !met {
				n = len(y.kinds)
				at[f] = n
				y.kinds = append(y.kinds, kind{choices: c.choices(t, f)})
			}
			y.kinds[n].parts = append(y.kinds[n].parts, part)
		}
	}
	c.work += len(t.values) + priceSteps*len(y.kinds)
	if y.within([2]int64{c.x.limit - t.first.fixed, 0}); !exact {
		return y.bound
	}
	bound, _ := y.best(target, 0)
	c.work += y.mixed
	return bound
}

// newCut is the cut of a question. What is made behind the first place is there for nothing as an
// operator runs again.
func (c *cases) newCut(q question) *cut {
	s, at, until := c.s, c.later[q.from].c.at, c.later[q.until].c.at
	if q.op < 0 {
		return s.newCut(at, until)
	}
	k := s.emptyCut(at)
	k.fixed = c.x.need(q.op) + slices.Min(c.x.idle[c.place+1:at+1])
	for _, list := range [][]int32{s.p.Inputs.Of(q.op), s.p.Outputs.Of(q.op)} {
		for _, v := range list {
			s.stain(v, free)
		}
	}
	for v, l := range s.spans {
		switch v := int32(v); {
		case s.sim.maker[v] < 0 || s.place[v] != 0:
		case l.made >= c.place || !s.may(v) && l.last > c.place:
			s.stain(v, free)
		case s.may(v) && s.readBetween(v, at, until):
			s.ask(k, v)
		}
	}
	s.finish(k)
	return k
}

// choices is what there is to choose of parts of which some operators cost nothing.
func (c *cases) choices(t *knapsack, f freed) []choice {
	all, known := c.known[f]
	if !known {
		x := f.k.bits
		x.cost = slices.Clone(x.cost)
		for j := range x.cost {
			if f.free>>j&1 == 1 && x.cost[j] < endless {
				x.cost[j] = 0
			}
		}
		all, _ = t.choices(&x)
		c.known[f] = all
		c.work += len(f.k.choices) * len(x.cost)
	}
	return all
}
