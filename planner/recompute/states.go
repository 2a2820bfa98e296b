package recompute

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/planner/internal/numbers"
)

// stateSearch bounds the cost of all launches from a place on, by a search over states. Cuts see single places, where
// nothing is rerun; but reruns need room of their own. A state is the place of the next first run and the set of large
// values that are present; small values are taken to be present whenever they are read, in no bytes. The state with the
// least lower bound is expanded first (A*), so that bound holds for all launches however early the search ends.
//
// The lower bound of a state is, for each later place that has a bound, what must be rerun for the operators up to it
// plus its bound. So the search begins at the last places: what it finds for one raises the lower bounds before it. For
// chains of layers it gets all the way to the front; then its launches are the cheapest there are, but for small
// values.
type stateSearch struct {
	s     *Solver
	limit int64
	small int64   // a value is large if it has more bytes
	most  float64 // states that cost as much are not looked at

	number       []int32          // by value: its number if it is large, −1 otherwise
	bytes        []int64          // by number
	maker        []int32          // by number
	remakes      []remake         // by number
	ins          []numbers.Set128 // by operator: large values
	outs         []numbers.Set128
	through      []bool           // by operator: its input has the number of its output
	makers       []int32          // operators that may be rerun and make large values
	lastNeed     []int32          // by number: the last operator that reads it, or a value that may be rerun from it
	firstBytes   []int64          // by operator: bytes of other values while it first runs
	restBytes    []int64          // by place: bytes of other values during reruns
	rerunBytes   []int64          // by operator: bytes of its other values while it is rerun
	bounds       []tailBound      // of places, the last ones first
	needed       []numbers.Set128 // by place: what is read from it up to the next with a bound
	gates        []gate           // the last ones first
	neededToGate []numbers.Set128 // by place: what is read from it up to the next gate

	states []searchState
	known  map[stateKey]int32
	queue  numbers.Heap[queued]
	reran  numbers.Set128 // what rerunCost counted since this was emptied
	work   int
}

const (
	smallPart = 1024 // a value is small if it has at most one of so many parts of the limit
	cheapPart = 8192 // an operator is cheap up to one of so many parts of the whole cost
)

// remake is the maker of a number, with its large inputs and outputs. The numbers are looked at very often.
type remake struct {
	op        int32
	cost      float64
	ins, outs numbers.Set128
}

// tailBound is a place, and a bound on the cost of reruns after its operator.
type tailBound struct {
	at    int32
	least float64
}

// stateKey tells states apart.
type stateKey struct {
	there numbers.Set128
	place int32 // of the next first run
}

// searchState is the cheapest way to a state so far.
type searchState struct {
	stateKey
	cost   float64
	before int32 // the state that it was reached from, −1
	ran    int32 // the operator that ran between, −1
}

// queued is a state with a lower bound on the cost of all launches through it.
type queued struct {
	least, cost  float64
	place, state int32
}

// before puts the least bound first, and of equal ones the state that is furthest.
func (a queued) Before(b queued) bool {
	return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(b.place, a.place), cmp.Compare(b.cost, a.cost), cmp.Compare(b.state, a.state)) < 0
}

func (s *Solver) newStateSearch(limit int64, most float64) *stateSearch {
	p := s.p
	n := len(p.Cost)
	x := &stateSearch{s: s, limit: limit, most: most, small: limit / smallPart, number: make([]int32, len(p.Bytes)), ins: make([]numbers.Set128, n), outs: make([]numbers.Set128, n),
		firstBytes: make([]int64, n), restBytes: s.unforgettable(), rerunBytes: make([]int64, n), through: make([]bool, n), needed: make([]numbers.Set128, n+1), neededToGate: make([]numbers.Set128, n+1)}
	x.choose()
	for op := int32(n) - 1; op >= 0; op-- {
		x.tabulate(op)
	}
	x.remakes = make([]remake, len(x.maker))
	for b, op := range x.maker {
		x.remakes[b] = remake{op, p.Cost[op], x.ins[op], x.outs[op]}
	}
	return x
}

// choose numbers the large values. One whose only reader is a cheap operator with no other input has the number of that
// operator's output: either stands for the other.
func (x *stateSearch) choose() {
	s, p := x.s, x.s.p
	into := make([]int32, len(p.Bytes))
	var all []int32
	for v, bytes := range p.Bytes {
		into[v] = int32(v)
		if x.number[v] = -1; s.droppable(int32(v)) && bytes > x.small {
			all = append(all, int32(v))
		}
	}
	for op := int32(len(p.Cost)) - 1; op >= 0; op-- {
		ins, outs := p.Inputs.Of(op), p.Outputs.Of(op)
		if len(ins) == 1 && len(outs) == 1 && p.Again[op] && p.Cost[op] < s.total/cheapPart && s.droppable(ins[0]) && s.droppable(outs[0]) &&
			len(s.uses.Of(ins[0])) == 1 && p.Bytes[ins[0]] >= p.Bytes[outs[0]] {
			into[ins[0]] = into[outs[0]]
			x.through[op] = true
		}
	}
	slices.SortStableFunc(all, func(a, b int32) int { return cmp.Compare(p.Bytes[into[b]], p.Bytes[into[a]]) })
	for _, v := range all {
		w := into[v]
		if x.number[w] < 0 && len(x.bytes) < numbers.Set128Limit && p.Bytes[w] > x.small {
			x.number[w] = int32(len(x.bytes))
			x.bytes = append(x.bytes, p.Bytes[w])
			x.maker = append(x.maker, s.sim.maker[w])
			x.lastNeed = append(x.lastNeed, s.spans[w].last)
		}
		b := x.number[w]
		if x.number[v] = b; b >= 0 {
			x.maker[b] = min(x.maker[b], s.sim.maker[v])
		}
	}
}

// tabulate fills in the tables of an operator, after those of later ones.
func (x *stateSearch) tabulate(op int32) {
	s, p := x.s, x.s.p
	last, other := int32(-1), p.Work[op]
	for _, v := range p.Outputs.Of(op) {
		if b := x.number[v]; b >= 0 {
			x.outs[op] = x.outs[op].With(b)
			last = max(last, x.lastNeed[b])
		} else {
			other += p.Bytes[v]
		}
	}
	for _, v := range p.Inputs.Of(op) {
		if b := x.number[v]; b >= 0 {
			x.ins[op] = x.ins[op].With(b)
			if p.Again[op] {
				x.lastNeed[b] = max(x.lastNeed[b], last)
			}
		} else if s.droppable(v) {
			other += p.Bytes[v]
		}
	}
	x.firstBytes[op], x.rerunBytes[op] = x.restBytes[op]+other, other
	if p.Again[op] && !x.outs[op].Empty() && !x.through[op] {
		x.makers = append(x.makers, op)
	}
	first, again := false, false // the output may lie over an input that has no number
	for _, v := range p.Over.Of(op) {
		if x.number[v] < 0 {
			first, again = first || s.droppable(v) || s.spans[v].last == op, true
		}
	}
	if first {
		x.firstBytes[op] -= p.Bytes[p.Outputs.Of(op)[0]]
	}
	if again {
		x.rerunBytes[op] -= p.Bytes[p.Outputs.Of(op)[0]]
	}
}

// tails bounds the cost from each of the places that bind, the last first, as long as a search comes to its end. It
// returns the best bound and the cheapest launches found that are within the limit before the place, too. With gates
// (gates.go), one search from the first gate does for all places after it.
func (x *stateSearch) tails(at []bounded) (least float64, best route) {
	s := x.s
	best.extra = math.Inf(1)
	places := slices.Clone(at)
	slices.SortFunc(places, func(a, b bounded) int { return cmp.Compare(b.c.at, a.c.at) })
	x.bounds = []tailBound{{int32(len(s.p.Cost)) - 1, 0}}
	know := func(at int32, bound float64) {
		if bound > x.bounds[len(x.bounds)-1].least {
			x.bounds = append(x.bounds, tailBound{at, bound})
		}
	}
	cuts := 0.0 // the best bound of cuts so far
	see := func(b bounded) {
		know(b.c.at, b.bound*s.unit)
		cuts = max(cuts, b.bound)
	}
	lead := func(place, end int32) {
		if end >= 0 && s.p.Forced == nil { // states may keep what every plan drops
			if r := x.launches(end, place); r.peak <= x.limit && r.extra < best.extra {
				best = r
			}
		}
	}
	if x.findGates(mostGates); len(x.gates) > 0 {
		front := x.gates[len(x.gates)-1]
		bound, end, all := x.fromGate(front)
		least = bound
		lead(front.at, end)
		if all {
			for _, p := range x.gates {
				for ; len(places) > 0 && places[0].c.at >= p.at; places = places[1:] {
					see(places[0])
				}
				know(p.at, p.least)
			}
			know(front.at-1, bound)
		}
		s.cutWork += int64(x.work)
		x.work, x.gates = 0, nil
	}
	for i, b := range places {
		if see(b); b.bound < cuts*nearly && i < len(places)-1 {
			continue // the bound would hardly be above that of the place after it
		}
		bound, end, all := x.fromPlace(b.c.at)
		if know(b.c.at-1, bound); !all { // nor will searches from earlier places end
			break
		}
		lead(b.c.at, end)
	}
	s.cutWork += int64(x.work)
	return max(least, x.bounds[len(x.bounds)-1].least), best
}

const (
	mostBegun = 1 << 14 // looks for sets to begin a search with
	mostTail  = 1 << 16 // work of the search from one place
	mostTails = 3 << 15 // … from all places of a limit
	mostLoose = 1 << 14 // … from one whose sets are not listed
)

// fromPlace bounds the cost from a place on, whatever large values are present there. end is the final state, −1 if
// none costs less than most; all reports whether the search came to its end.
func (x *stateSearch) fromPlace(place int32) (least float64, end int32, all bool) {
	x.listNeeded(place)
	until := min(x.work+mostTail, mostTails)
	if listed := x.enter(place); !listed {
		until = min(until, x.work+mostLoose)
	}
	return x.search(until)
}

// enter begins a search at a place with the sets of large values that may be present. It reports whether those could be
// listed; if not, all values are present.
func (x *stateSearch) enter(place int32) (listed bool) {
	x.states, x.queue, x.known = x.states[:0], x.queue[:0], map[stateKey]int32{}
	var there numbers.Set128
	for b, op := range x.maker {
		if op < place {
			there = there.With(int32(b))
		}
	}
	sets, listed := x.fullest(there, place, x.limit-x.restBytes[place], mostBegun)
	if !listed {
		sets = []numbers.Set128{there}
	}
	for _, set := range sets {
		x.reach(searchState{stateKey{set, place}, 0, -1, -1})
	}
	return listed
}

// listNeeded lists what is read from each place on, up to the next with a bound.
func (x *stateSearch) listNeeded(place int32) {
	c := 0
	for op := int32(len(x.ins)) - 1; op >= place; op-- {
		x.needed[op] = x.ins[op]
		bounded := c
		for c < len(x.bounds) && x.bounds[c].at == op {
			c++
		}
		if c == bounded {
			x.needed[op] = x.needed[op].Or(x.needed[op+1])
		}
	}
}

// search expands queued states until one is final, or its work exceeds until.
func (x *stateSearch) search(until int) (least float64, end int32, all bool) {
	for len(x.queue) > 0 {
		x.s.p.poll()
		top := x.queue.Pop()
		st := x.states[top.state]
		if int(st.place) == len(x.ins) {
			return top.least, top.state, true
		}
		if x.work > until {
			return top.least, -1, false
		}
		if top.cost == st.cost {
			x.expand(top.state)
		}
	}
	return x.most, -1, true
}

// fullest lists the sets of values needed from a place on that fit a room and leave no room for another, up to the next call. It
// reports false if that takes too many looks.
func (x *stateSearch) fullest(from numbers.Set128, place int32, room int64, most int) (sets []numbers.Set128, ok bool) {
	var order []int32
	behind := []int64{0} // bytes of so many at the end of order
	for b := range from.Each {
		if x.lastNeed[b] >= place {
			order = append(order, b)
		}
	}
	for _, b := range slices.Backward(order) {
		behind = append(behind, behind[len(behind)-1]+x.bytes[b])
	}
	looks := 0
	sets = x.s.sets[:0]
	var choose func(i int, set numbers.Set128, room, least int64) bool
	choose = func(i int, set numbers.Set128, room, least int64) bool {
		if looks++; looks > most {
			return false
		}
		if least <= room-behind[len(order)-i] {
			return true // something that was left out fits
		}
		if i == len(order) {
			sets = append(sets, set)
			return true
		}
		b := order[i]
		return (x.bytes[b] > room || choose(i+1, set.With(b), room-x.bytes[b], least)) && choose(i+1, set, room, min(least, x.bytes[b]))
	}
	ok = choose(0, numbers.Set128{}, room, math.MaxInt64)
	x.s.sets = sets
	return sets, ok
}

// expand queues the states after a state. A value is dropped only where some launch does not fit: those that fit may as
// well come first.
func (x *stateSearch) expand(i int32) {
	st, fits := x.states[i], true
	for _, op := range x.makers {
		if op < st.place && !x.outs[op].Minus(st.there).Empty() && x.ins[op].Minus(st.there).Empty() {
			fits = x.run(i, op) && fits
		}
	}
	if x.ins[st.place].Minus(st.there).Empty() {
		fits = x.run(i, st.place) && fits
	}
	if fits {
		return
	}
	for b := range st.there.Each {
		x.reach(searchState{stateKey{st.there.Without(b), st.place}, st.cost, i, -1})
	}
}

// run queues the state after an operator runs next. It reports whether that fits beside all that is present.
func (x *stateSearch) run(i, op int32) bool {
	p, st := x.s.p, x.states[i]
	next, bytes := x.launch(st, op)
	next.before = i
	if bytes <= x.limit {
		x.reach(next)
		return true
	}
	for _, v := range p.Over.Of(op) {
		if b := x.number[v]; b >= 0 && !x.through[op] && bytes-p.Bytes[p.Outputs.Of(op)[0]] <= x.limit {
			x.reach(searchState{stateKey{next.there.Without(b), next.place}, next.cost, i, op})
		}
	}
	return false
}

// launch is the state after an operator runs next, and the bytes alive meanwhile.
func (x *stateSearch) launch(st searchState, op int32) (next searchState, bytes int64) {
	next = searchState{stateKey{st.there.Or(x.outs[op]), st.place}, st.cost, -1, op}
	for b := range next.there.Each {
		bytes += x.bytes[b]
	}
	if op == st.place {
		next.place++
		return next, bytes + x.firstBytes[op]
	}
	next.cost += x.s.p.Cost[op]
	return next, bytes + x.restBytes[st.place] + x.rerunBytes[op]
}

// reach queues a state if this is the cheapest way to it so far.
func (x *stateSearch) reach(st searchState) {
	for b := range st.there.Each {
		if x.lastNeed[b] < st.place {
			st.there = st.there.Without(b)
		}
	}
	i, known := x.known[st.stateKey]
	if known && x.states[i].cost <= st.cost {
		return
	}
	least := x.lowerBound(st)
	if least >= x.most {
		return
	}
	if known {
		x.states[i] = st
	} else {
		i = int32(len(x.states))
		x.known[st.stateKey] = i
		x.states = append(x.states, st)
	}
	x.queue.Push(queued{least, st.cost, st.place, i})
}

// lowerBound is a lower bound on the cost of all launches through a state.
func (x *stateSearch) lowerBound(st searchState) (least float64) {
	x.reran = numbers.Set128{}
	x.work += stateWork
	again := st.cost
	least = again
	next := st.place // the place up to which reruns are counted
	for _, c := range slices.Backward(x.bounds) {
		if c.at >= next {
			again += x.rerunCost(x.needed[next], st)
			least = max(least, again+c.least)
			next = c.at + 1
		}
	}
	if len(x.gates) > 0 {
		least = max(least, st.cost+x.costByGate(st))
	}
	return least
}

// stateWork is how many reruns take as long to count as a state to queue.
const stateWork = 8

// rerunCost is the cost of what must be rerun in a state for some values to be present, beyond what is in reran, which
// it adds to.
func (x *stateSearch) rerunCost(want numbers.Set128, st searchState) (cost float64) {
	made, ran := x.reran, 0
	for todo := want.Minus(st.there.Or(made)); !todo.Empty(); {
		m := &x.remakes[todo.Lowest()]
		if todo = todo.Rest(); m.op >= st.place {
			continue
		}
		made = made.Or(m.outs)
		ran++
		cost += m.cost
		todo = todo.Or(m.ins.Minus(st.there)).Minus(made)
	}
	x.reran = made
	x.work += ran
	return cost
}

// launches are those that lead to a state, after the plain program up to a place.
func (x *stateSearch) launches(end, from int32) route {
	var states []searchState
	for i := end; i >= 0; i = x.states[i].before {
		states = append(states, x.states[i])
	}
	p, maker, present := x.s.p, x.s.sim.maker, make([]bool, len(x.number))
	var launches []int32
	var run func(op int32)
	run = func(op int32) {
		for _, v := range p.Inputs.Of(op) {
			if !present[v] {
				run(maker[v])
			}
		}
		launches = append(launches, op)
		for _, v := range p.Outputs.Of(op) {
			present[v] = true
		}
	}
	for op := range from {
		run(op)
	}
	for _, st := range slices.Backward(states) {
		if st.ran >= 0 {
			run(st.ran)
		}
		for v, b := range x.number {
			if b >= 0 && !st.there.Has(b) && st.place >= p.until(int32(v)) {
				present[v] = false
			}
		}
	}
	x.s.sim.work += int64(len(launches))
	peak, extra, err := Check(p, launches)
	if err != nil {
		panic(fmt.Sprintf("recompute: launches of states: %v", err))
	}
	return route{launches, peak, extra}
}

// route is launches that come from no plan.
type route struct {
	launches []int32
	peak     int64
	extra    float64
}
