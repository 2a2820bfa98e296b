package recompute

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// tight bounds what it costs to go on from a place, by following what may be
// there from launch to launch. Cuts see single places, where nothing runs again;
// what does needs room of its own. A state is a place of the order and the set of
// large values that are there; of small ones it is taken that they are there
// whenever they are read, in no bytes. The state that promises the least cost is
// looked at first, so the least promise that is left is a bound, however early
// the search ends.
//
// A state promises, for each place behind it with a bound, what must run again
// for the operators up to there besides that bound. So places are looked at from
// the last on: what is found for one makes the promises before it better. For
// chains of layers that goes all the way to the front, and then the launches found
// are the cheapest there are, but for what is little.
type tight struct {
	s     *Solver
	limit int64
	small int64   // a value is large if it has more bytes
	most  float64 // what promises to cost as much is not looked at

	bit     []int32  // by value: its number if it is large, −1
	bytes   []int64  // by number
	maker   []int32  // by number
	remakes []remake // by number
	ins     []large  // by operator
	outs    []large
	through []bool  // by operator: what it reads has the number of what it makes
	makers  []int32 // operators that may run again and make large values
	asked   []int32 // by number: the last operator that reads it, or what is made of it
	first   []int64 // by operator: bytes of other values while it first runs
	idle    []int64 // by place: bytes of other values while something runs again there
	again   []int64 // by operator: bytes of other values for it to run again
	behind  []check // places with a bound, the last ones first
	wanted  []large // by place: what is read from there up to the next with a bound
	gates   []gate  // the last ones first
	span    []large // by place: what is read from there up to the next gate

	states []tightState
	known  map[whereabouts]int32
	queue  heap[promise]
	made   large // by what was told to run again since this was emptied
	work   int
}

// What is large, and what an operator may cost that is not asked for.
const (
	small  = 1024 // a value is small if it is less than one of so many parts of the limit
	little = 8192 // one of so many parts of the whole cost
)

// remake is what makes a value, and what that takes and makes: by number, as few numbers
// are looked at over and over.
type remake struct {
	op        int32
	cost      float64
	ins, outs large
}

// check is a place, and what runs again behind its operator at least.
type check struct {
	at    int32
	least float64
}

// whereabouts is what tells states apart.
type whereabouts struct {
	there large
	place int32 // whose operator is the next to run first
}

// tightState is the cheapest way to its whereabouts so far.
type tightState struct {
	whereabouts
	cost   float64
	before int32 // the state that it was reached from, −1
	ran    int32 // the operator that ran between, −1
}

// promise is a state in the queue, with what it costs at least in the end.
type promise struct {
	least, cost  float64
	place, state int32
}

// before puts what promises least first, and of those what has come farthest.
func (a promise) before(b promise) bool {
	return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(b.place, a.place), cmp.Compare(b.cost, a.cost), cmp.Compare(b.state, a.state)) < 0
}

func (s *Solver) newTight(limit int64, most float64) *tight {
	p := s.p
	n := len(p.Cost)
	x := &tight{s: s, limit: limit, most: most, small: limit / small, bit: make([]int32, len(p.Bytes)), ins: make([]large, n), outs: make([]large, n),
		first: make([]int64, n), idle: s.unforgettable(), again: make([]int64, n), through: make([]bool, n), wanted: make([]large, n+1), span: make([]large, n+1)}
	x.choose()
	for op := int32(n) - 1; op >= 0; op-- {
		x.number(op)
	}
	x.remakes = make([]remake, len(x.maker))
	for b, op := range x.maker {
		x.remakes[b] = remake{op, p.Cost[op], x.ins[op], x.outs[op]}
	}
	return x
}

// choose numbers the large values. One that only one operator reads, which makes a
// value of it alone for little, has the number of that value: whoever has the one
// may as well have the other.
func (x *tight) choose() {
	s, p := x.s, x.s.p
	into := make([]int32, len(p.Bytes))
	var all []int32
	for v, bytes := range p.Bytes {
		into[v] = int32(v)
		if x.bit[v] = -1; s.may(int32(v)) && bytes > x.small {
			all = append(all, int32(v))
		}
	}
	for op := int32(len(p.Cost)) - 1; op >= 0; op-- {
		ins, outs := p.Inputs.Of(op), p.Outputs.Of(op)
		if len(ins) == 1 && len(outs) == 1 && p.Again[op] && p.Cost[op] < s.total/little && s.may(ins[0]) && s.may(outs[0]) &&
			len(s.uses.Of(ins[0])) == 1 && p.Bytes[ins[0]] >= p.Bytes[outs[0]] {
			into[ins[0]] = into[outs[0]]
			x.through[op] = true
		}
	}
	slices.SortStableFunc(all, func(a, b int32) int { return cmp.Compare(p.Bytes[into[b]], p.Bytes[into[a]]) })
	for _, v := range all {
		w := into[v]
		if x.bit[w] < 0 && len(x.bytes) < mostLarge && p.Bytes[w] > x.small {
			x.bit[w] = int32(len(x.bytes))
			x.bytes = append(x.bytes, p.Bytes[w])
			x.maker = append(x.maker, s.sim.maker[w])
			x.asked = append(x.asked, s.spans[w].last)
		}
		b := x.bit[w]
		if x.bit[v] = b; b >= 0 {
			x.maker[b] = min(x.maker[b], s.sim.maker[v])
		}
	}
}

// number fills in the tables of an operator, those behind it first.
func (x *tight) number(op int32) {
	s, p := x.s, x.s.p
	last, other := int32(-1), p.Work[op]
	for _, v := range p.Outputs.Of(op) {
		if b := x.bit[v]; b >= 0 {
			x.outs[op] = x.outs[op].with(b)
			last = max(last, x.asked[b])
		} else {
			other += p.Bytes[v]
		}
	}
	for _, v := range p.Inputs.Of(op) {
		if b := x.bit[v]; b >= 0 {
			x.ins[op] = x.ins[op].with(b)
			if p.Again[op] {
				x.asked[b] = max(x.asked[b], last)
			}
		} else if s.may(v) {
			other += p.Bytes[v]
		}
	}
	x.first[op], x.again[op] = x.idle[op]+other, other
	if p.Again[op] && !x.outs[op].empty() && !x.through[op] {
		x.makers = append(x.makers, op)
	}
	first, again := false, false // it may lie over another value
	for _, v := range p.Over.Of(op) {
		if x.bit[v] < 0 {
			first, again = first || s.may(v) || s.spans[v].last == op, true
		}
	}
	if first {
		x.first[op] -= p.Bytes[p.Outputs.Of(op)[0]]
	}
	if again {
		x.again[op] -= p.Bytes[p.Outputs.Of(op)[0]]
	}
}

// tails raises what is known of places, from the last on, by what it costs to go
// on from there, as long as that is quickly found. It returns the best bound, and
// the cheapest launches met that do so and are within the limit before, too. Where
// there are gates (gates.go), what is behind the first of them is found at once.
func (x *tight) tails(at []bounded) (least float64, best route) {
	s := x.s
	best.extra = math.Inf(1)
	places := slices.Clone(at)
	slices.SortFunc(places, func(a, b bounded) int { return cmp.Compare(b.c.at, a.c.at) })
	x.behind = []check{{int32(len(s.p.Cost)) - 1, 0}}
	know := func(at int32, bound float64) {
		if bound > x.behind[len(x.behind)-1].least {
			x.behind = append(x.behind, check{at, bound})
		}
	}
	cuts := 0.0 // the best bound of cuts so far
	see := func(b bounded) {
		know(b.c.at, b.bound*s.unit)
		cuts = max(cuts, b.bound)
	}
	lead := func(place, end int32) {
		if end >= 0 && s.p.Forced == nil { // it may keep what must be forgotten
			if r := x.way(end, place); r.peak <= x.limit && r.extra < best.extra {
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
		s.spent += int64(x.work)
		x.work, x.gates = 0, nil
	}
	for i, b := range places {
		if see(b); b.bound < cuts*nearly && i < len(places)-1 {
			continue // hardly more than from the place behind it
		}
		bound, end, all := x.from(b.c.at)
		if know(b.c.at-1, bound); !all { // nor will it be from places before
			break
		}
		lead(b.c.at, end)
	}
	s.spent += int64(x.work)
	return max(least, x.behind[len(x.behind)-1].least), best
}

const (
	mostBegun = 1 << 14 // looks for sets to begin a tail with
	mostTail  = 1 << 16 // what may be looked at for one
	mostTails = 3 << 15 // the same for all of a limit
	mostLoose = 1 << 14 // the same if what may be there is not listed
)

// from is what it costs to go on from a place at least, whatever of the large
// values is there, the state in which that ends, −1 if it is not below most, and
// whether the search came to its end.
func (x *tight) from(place int32) (least float64, end int32, all bool) {
	x.want(place)
	until := min(x.work+mostTail, mostTails)
	if listed := x.enter(place); !listed {
		until = min(until, x.work+mostLoose)
	}
	return x.search(until)
}

// enter begins a search at a place with whatever may be there. It reports whether that
// could be listed: if not, all is there.
func (x *tight) enter(place int32) (listed bool) {
	x.states, x.queue, x.known = x.states[:0], x.queue[:0], map[whereabouts]int32{}
	var there large
	for b, op := range x.maker {
		if op < place {
			there = there.with(int32(b))
		}
	}
	if listed = x.begin(there, place); !listed {
		x.reach(tightState{whereabouts{there, place}, 0, -1, -1})
	}
	return listed
}

// want lists what is read from each place on, up to the next with a bound.
func (x *tight) want(place int32) {
	c := 0
	for op := int32(len(x.ins)) - 1; op >= place; op-- {
		x.wanted[op] = x.ins[op]
		bounded := c
		for c < len(x.behind) && x.behind[c].at == op {
			c++
		}
		if c == bounded {
			x.wanted[op] = x.wanted[op].or(x.wanted[op+1])
		}
	}
}

// search goes on from the states in the queue, as long as there is work.
func (x *tight) search(until int) (least float64, end int32, all bool) {
	for len(x.queue) > 0 {
		x.s.p.poll()
		top := x.queue.pop()
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

// begin goes to every set that may be there at a place and leaves no room for
// more, of some values, unless there are very many.
func (x *tight) begin(from large, place int32) bool {
	sets, ok := x.fullest(from, place, x.limit-x.idle[place], mostBegun)
	for _, set := range sets {
		x.reach(tightState{whereabouts{set, place}, 0, -1, -1})
	}
	return ok
}

// fullest lists the sets of some values that are asked for from a place on which fit in a room and leave no room for more.
// It lists none if that takes more than so many looks.
func (x *tight) fullest(from large, place int32, room int64, most int) (sets []large, ok bool) {
	var order []int32
	behind := []int64{0} // bytes of the last ones
	for b := range from.each {
		if x.asked[b] >= place {
			order = append(order, b)
		}
	}
	for _, b := range slices.Backward(order) {
		behind = append(behind, behind[len(behind)-1]+x.bytes[b])
	}
	looks := 0
	var choose func(i int, set large, room, least int64) bool
	choose = func(i int, set large, room, least int64) bool {
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
		return (x.bytes[b] > room || choose(i+1, set.with(b), room-x.bytes[b], least)) && choose(i+1, set, room, min(least, x.bytes[b]))
	}
	if !choose(0, large{}, room, math.MaxInt64) {
		return nil, false
	}
	return sets, true
}

// expand goes everywhere from a state. Something is forgotten only where some
// launch does not fit: what fits may be run before.
func (x *tight) expand(i int32) {
	st, fits := x.states[i], true
	for _, op := range x.makers {
		if op < st.place && !x.outs[op].minus(st.there).empty() && x.ins[op].minus(st.there).empty() {
			fits = x.run(i, op) && fits
		}
	}
	if x.ins[st.place].minus(st.there).empty() {
		fits = x.run(i, st.place) && fits
	}
	if fits {
		return
	}
	for b := range st.there.each {
		x.reach(tightState{whereabouts{st.there.without(b), st.place}, st.cost, i, -1})
	}
}

// run goes where an operator leads to that runs next. It reports whether it fits
// beside everything that is there.
func (x *tight) run(i, op int32) bool {
	p, st := x.s.p, x.states[i]
	next, bytes := x.launch(st, op)
	next.before = i
	if bytes <= x.limit {
		x.reach(next)
		return true
	}
	for _, v := range p.Over.Of(op) {
		if b := x.bit[v]; b >= 0 && !x.through[op] && bytes-p.Bytes[p.Outputs.Of(op)[0]] <= x.limit {
			x.reach(tightState{whereabouts{next.there.without(b), next.place}, next.cost, i, op})
		}
	}
	return false
}

// launch is the state behind an operator that runs next, and the bytes there meanwhile.
func (x *tight) launch(st tightState, op int32) (next tightState, bytes int64) {
	next = tightState{whereabouts{st.there.or(x.outs[op]), st.place}, st.cost, -1, op}
	for b := range next.there.each {
		bytes += x.bytes[b]
	}
	if op == st.place {
		next.place++
		return next, bytes + x.first[op]
	}
	next.cost += x.s.p.Cost[op]
	return next, bytes + x.idle[st.place] + x.again[op]
}

// over reports whether an operator may write over a large value.
func (x *tight) over(op int32) bool {
	return !x.through[op] && slices.ContainsFunc(x.s.p.Over.Of(op), func(v int32) bool { return x.bit[v] >= 0 })
}

// reach notes a way to a state if it is the cheapest so far.
func (x *tight) reach(st tightState) {
	for b := range st.there.each {
		if x.asked[b] < st.place {
			st.there = st.there.without(b)
		}
	}
	i, known := x.known[st.whereabouts]
	if known && x.states[i].cost <= st.cost {
		return
	}
	least := x.promised(st)
	if least >= x.most {
		return
	}
	if known {
		x.states[i] = st
	} else {
		i = int32(len(x.states))
		x.known[st.whereabouts] = i
		x.states = append(x.states, st)
	}
	x.queue.push(promise{least, st.cost, st.place, i})
}

// promised is what a state costs in the end at least.
func (x *tight) promised(st tightState) (least float64) {
	x.made = large{}
	x.work += stateWork
	again := st.cost
	least = again
	next := st.place // place up to which it is known what runs again
	for _, c := range slices.Backward(x.behind) {
		if c.at >= next {
			again += x.missing(x.wanted[next], st)
			least = max(least, again+c.least)
			next = c.at + 1
		}
	}
	if len(x.gates) > 0 {
		least = max(least, st.cost+x.ahead(st))
	}
	return least
}

// stateWork is how many operators that run again cost as much to look at as a
// state.
const stateWork = 8

// missing is what must run again in a state for some values to be there, and what that
// costs. What was made since made was emptied is there, and this is from now on.
func (x *tight) missing(want large, st tightState) (cost float64) {
	made, ran := x.made, 0
	for todo := want.minus(st.there.or(made)); !todo.empty(); {
		m := &x.remakes[todo.lowest()]
		if todo = todo.rest(); m.op >= st.place {
			continue
		}
		made = made.or(m.outs)
		ran++
		cost += m.cost
		todo = todo.or(m.ins.minus(st.there)).minus(made)
	}
	x.made = made
	x.work += ran
	return cost
}

// way is the launches that lead to a state from a place on.
func (x *tight) way(end, from int32) route {
	var states []tightState
	for i := end; i >= 0; i = x.states[i].before {
		states = append(states, x.states[i])
	}
	p, maker, present := x.s.p, x.s.sim.maker, make([]bool, len(x.bit))
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
		for v, b := range x.bit {
			if b >= 0 && !st.there.has(b) && st.place >= p.until(int32(v)) {
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

// route is launches that were found other than by a plan.
type route struct {
	launches []int32
	peak     int64
	extra    float64
}
