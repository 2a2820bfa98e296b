package recompute

import (
	"cmp"
	"math/bits"
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
// for the operators up to there besides that bound.
type tight struct {
	s     *Solver
	limit int64
	most  float64 // what promises to cost as much is not looked at

	values []int32 // the large ones
	bit    []int32 // by value: its place in values, −1
	ins    []large // by operator
	outs   []large
	makers []int32 // operators that may run again and make large values
	asked  []int32 // by place in values: the last operator that reads it, or what is made of it
	first  []int64 // by operator: bytes of other values while it first runs
	idle   []int64 // by place: bytes of other values while something runs again there
	again  []int64 // by operator: bytes of other values for it to run again
	behind []check // places with a bound, the last ones first

	states []tightState
	known  map[whereabouts]int32
	queue  heap[promise]
	marked []int32 // by operator: the epoch in which it was
	epoch  int32
	work   int
}

// large is a set of large values.
type large [2]uint64

// mostLarge is how many there may be. What is less than one of so many parts of
// the limit is small.
const (
	mostLarge = 128
	small     = 1024
)

func (l large) with(b int32) large    { l[b>>6] |= 1 << (b & 63); return l }
func (l large) without(b int32) large { l[b>>6] &^= 1 << (b & 63); return l }
func (l large) or(m large) large      { return large{l[0] | m[0], l[1] | m[1]} }
func (l large) minus(m large) large   { return large{l[0] &^ m[0], l[1] &^ m[1]} }
func (l large) empty() bool           { return l[0]|l[1] == 0 }

// lowest is what each begins with.
func (l large) lowest() int32 {
	if l[0] != 0 {
		return int32(bits.TrailingZeros64(l[0]))
	}
	return int32(64 + bits.TrailingZeros64(l[1]))
}

// each goes through a set.
func (l large) each(yield func(b int32) bool) {
	for w, rest := range l {
		for ; rest != 0; rest &= rest - 1 {
			if !yield(int32(w<<6 + bits.TrailingZeros64(rest))) {
				return
			}
		}
	}
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
	cost float64
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
	x := &tight{s: s, limit: limit, most: most, bit: make([]int32, len(p.Bytes)), ins: make([]large, n), outs: make([]large, n),
		first: make([]int64, n), idle: s.across(), again: make([]int64, n), marked: make([]int32, n)}
	for v, bytes := range p.Bytes {
		if x.bit[v] = -1; s.may(int32(v)) && bytes > limit/small {
			x.values = append(x.values, int32(v))
		}
	}
	slices.SortStableFunc(x.values, func(a, b int32) int { return cmp.Compare(p.Bytes[b], p.Bytes[a]) })
	x.values = x.values[:min(mostLarge, len(x.values))]
	for b, v := range x.values {
		x.bit[v] = int32(b)
		x.asked = append(x.asked, s.spans[v].last)
	}
	for op := int32(n) - 1; op >= 0; op-- {
		x.number(op)
	}
	return x
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
	if p.Again[op] && !x.outs[op].empty() {
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
// on from there, as long as that is quickly found. It returns the best bound.
func (s *Solver) tails(at []bounded, limit int64, target float64) (least float64) {
	x := s.newTight(limit, target)
	places := slices.Clone(at)
	slices.SortFunc(places, func(a, b bounded) int { return cmp.Compare(b.c.at, a.c.at) })
	x.behind = []check{{int32(len(s.p.Cost)) - 1, 0}}
	know := func(at int32, bound float64) {
		if least = max(least, bound); x.behind[len(x.behind)-1].least < least {
			x.behind = append(x.behind, check{at, least})
		}
	}
	for _, b := range places {
		know(b.c.at, b.bound*s.unit)
		bound, all := x.from(b.c.at)
		if know(b.c.at-1, bound); !all { // nor will it be from places before
			break
		}
	}
	s.spent += int64(x.work)
	return least
}

// mostTail is what may be looked at for one tail.
const mostTail = 1 << 14

// from is what it costs to go on from a place at least, whatever of the large
// values is there, and whether the search came to its end.
func (x *tight) from(place int32) (least float64, all bool) {
	x.states, x.queue, x.known = x.states[:0], x.queue[:0], map[whereabouts]int32{}
	var there large
	for b, v := range x.values {
		if x.s.sim.maker[v] < place {
			there = there.with(int32(b))
		}
	}
	until := x.work + mostTail
	x.reach(there, place, 0)
	for len(x.queue) > 0 {
		top := x.queue.pop()
		st := x.states[top.state]
		if end := int(st.place) == len(x.ins); end || x.work > until {
			return top.least, end
		}
		if top.cost == st.cost {
			x.expand(st)
		}
	}
	return x.most, true
}

// expand goes everywhere from a state. Something is forgotten only where some
// launch does not fit: what fits may be run before.
func (x *tight) expand(st tightState) {
	fits := true
	for _, op := range x.makers {
		if op < st.place && !x.outs[op].minus(st.there).empty() && x.ins[op].minus(st.there).empty() {
			fits = x.run(st, op) && fits
		}
	}
	if x.ins[st.place].minus(st.there).empty() {
		fits = x.run(st, st.place) && fits
	}
	if fits {
		return
	}
	for b := range st.there.each {
		x.reach(st.there.without(b), st.place, st.cost)
	}
}

// run goes where an operator leads to that runs next. It reports whether it fits
// beside everything that is there.
func (x *tight) run(st tightState, op int32) bool {
	p := x.s.p
	after, bytes := st.there.or(x.outs[op]), int64(0)
	for b := range after.each {
		bytes += p.Bytes[x.values[b]]
	}
	place, cost := st.place, st.cost
	if op == place {
		bytes += x.first[op]
		place++
	} else {
		bytes += x.idle[place] + x.again[op]
		cost += p.Cost[op]
	}
	if bytes <= x.limit {
		x.reach(after, place, cost)
		return true
	}
	for _, v := range p.Over.Of(op) {
		if b := x.bit[v]; b >= 0 && bytes-p.Bytes[p.Outputs.Of(op)[0]] <= x.limit {
			x.reach(after.without(b), place, cost)
		}
	}
	return false
}

// reach notes a way to a state if it is the cheapest so far.
func (x *tight) reach(there large, place int32, cost float64) {
	for b := range there.each {
		if x.asked[b] < place {
			there = there.without(b)
		}
	}
	st := tightState{whereabouts{there, place}, cost}
	i, known := x.known[st.whereabouts]
	if known && x.states[i].cost <= cost {
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
	x.queue.push(promise{least, cost, place, i})
}

// promised is what a state costs in the end at least.
func (x *tight) promised(st tightState) (least float64) {
	x.epoch++
	x.work += stateWork
	at, again := st.place, st.cost
	least = again
	for _, c := range slices.Backward(x.behind) {
		for ; at <= c.at; at++ {
			again += x.missing(x.ins[at], st)
		}
		if c.at >= st.place {
			least = max(least, again+c.least)
		}
	}
	return least
}

// stateWork is how many operators that run again cost as much to look at as a
// state.
const stateWork = 8

// missing marks what must run again in a state for some values to be there, and
// is what that costs. What is marked is there.
func (x *tight) missing(want large, st tightState) (cost float64) {
	for todo := want.minus(st.there); !todo.empty(); {
		b := todo.lowest()
		todo = todo.without(b)
		op := x.s.sim.maker[x.values[b]]
		if op >= st.place || x.marked[op] == x.epoch {
			continue
		}
		x.marked[op] = x.epoch
		x.work++
		cost += x.s.p.Cost[op]
		todo = todo.or(x.ins[op].minus(st.there))
	}
	return cost
}
