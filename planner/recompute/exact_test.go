package recompute

import (
	"math"
	"slices"

	"memopt/planner/internal/numbers"
)

// exactStates is how many states a program may have that is solved exactly:
// places of the order times sets of values.
const exactStates = 1 << 18

// exact finds the cheapest launches of a small program by shortest paths. A
// state is a place of the order and the set of values that are there; from it
// the next operator runs for the first time, or one that ran runs again, or a
// value is forgotten. Only values that something could be made again of or that
// could be made again are in the set; the others are there from their maker to
// their last reader.
type exact struct {
	s       *Solver
	limit   int64
	bit     []int32 // by value: its place in the set, −1
	values  []int32 // by bit
	first   []int64 // by operator: bytes of the others while it first runs
	between []int64 // by operator: and right before
	again   []int32 // operators that may run again
	best    []float64
	from    []int32 // by state: the state before
	did     []int32 // by state: the operator that led to it, −1 if something was forgotten
	queue   numbers.Heap[state]
}

// small reports whether a program can be solved exactly.
func (s *Solver) small() bool {
	_, values := s.bits()
	return len(values) <= 16 && (len(s.p.Cost)+1)<<len(values) <= exactStates
}

// bits numbers the values that a set is made of.
func (s *Solver) bits() (bit, values []int32) {
	bit = make([]int32, len(s.p.Bytes))
	in := make([]bool, len(s.p.Bytes))
	for op, again := range s.p.Again {
		for _, v := range s.p.Inputs.Of(int32(op)) {
			in[v] = in[v] || again && !s.p.Held[v]
		}
	}
	for v := range bit {
		bit[v] = -1
		if in[v] && s.sim.maker[v] >= 0 || s.droppable(int32(v)) {
			bit[v] = int32(len(values))
			values = append(values, int32(v))
		}
	}
	return bit, values
}

// solveExactly is the cheapest plan within limit; ok is false if there is none.
func (s *Solver) solveExactly(limit int64) (launches []int32, extra float64, ok bool) {
	p := s.p
	n := len(p.Cost)
	x := &exact{s: s, limit: limit, first: make([]int64, n), between: make([]int64, n)}
	x.bit, x.values = s.bits()
	for op := range int32(n) {
		if p.Again[op] {
			x.again = append(x.again, op)
		}
		for v, l := range s.spans {
			if x.bit[v] >= 0 || s.sim.maker[v] < 0 {
				continue
			}
			last := max(l.last, p.until(int32(v))-1)
			if l.made <= op && max(last, l.made) >= op {
				x.first[op] += p.Bytes[v]
			}
			if l.made < op && last >= op {
				x.between[op] += p.Bytes[v]
			}
		}
	}
	k := len(x.values)
	x.best = make([]float64, (n+1)<<k)
	x.from, x.did = make([]int32, (n+1)<<k), make([]int32, (n+1)<<k)
	for i := range x.best {
		x.best[i] = math.Inf(1)
	}
	x.reach(0, 0, -1, -1)
	for len(x.queue) > 0 {
		p.poll()
		top := x.queue.Pop()
		if top.cost > x.best[top.at] {
			continue
		}
		if int(top.at)>>k == n {
			for at := top.at; at > 0; at = x.from[at] {
				if x.did[at] >= 0 {
					launches = append(launches, x.did[at])
				}
			}
			slices.Reverse(launches)
			return launches, top.cost, true
		}
		x.expand(top.at, top.cost)
	}
	return nil, 0, false
}

// expand goes everywhere from a state.
func (x *exact) expand(at int32, cost float64) {
	p, k := x.s.p, len(x.values)
	place, set := at>>k, at&(1<<k-1)
	for i, v := range x.values {
		if set>>i&1 == 1 && place >= p.until(v) {
			x.reach(at&^(1<<i), cost, at, -1)
		}
	}
	x.launch(place, set, at, cost, true, place)
	for _, op := range x.again {
		if op < place && x.missing(op, set) {
			x.launch(op, set, at, cost+p.Cost[op], false, place)
		}
	}
}

// missing reports whether an operator makes something that is not there.
func (x *exact) missing(op, set int32) bool {
	for _, v := range x.s.p.Outputs.Of(op) {
		if b := x.bit[v]; b >= 0 && set>>b&1 == 0 {
			return true
		}
	}
	return false
}

// launch runs an operator at a place.
func (x *exact) launch(op, set, at int32, cost float64, first bool, place int32) {
	p, k := x.s.p, len(x.values)
	for _, v := range p.Inputs.Of(op) {
		if b := x.bit[v]; b >= 0 && set>>b&1 == 0 {
			return
		}
	}
	next, bytes := set, p.Work[op]
	if first {
		bytes += x.first[op]
		place++
	} else {
		bytes += x.between[place]
	}
	for _, v := range p.Outputs.Of(op) {
		b := x.bit[v]
		if !first && (b < 0 || set>>b&1 == 1 && place < p.until(v)) {
			bytes += p.Bytes[v] // a copy that nobody reads
		}
		if b >= 0 {
			next |= 1 << b
		}
	}
	for i, v := range x.values {
		if next>>i&1 == 1 {
			bytes += p.Bytes[v]
		}
	}
	if bytes <= x.limit {
		x.reach(place<<k|next, cost, at, op)
	}
	for _, v := range p.Over.Of(op) {
		out := p.Outputs.Of(op)[0]
		less := bytes - p.Bytes[out]
		switch b := x.bit[v]; {
		case b >= 0 && less <= x.limit: // v is forgotten, so out may lie over it
			x.reach(place<<k|next&^(1<<b), cost, at, op)
		case b < 0 && first && less <= x.limit && !p.Held[v] && x.s.spans[v].last == op:
			x.reach(place<<k|next, cost, at, op)
		}
	}
}

// reach notes a way to a state if it is the cheapest so far.
func (x *exact) reach(at int32, cost float64, from, did int32) {
	if cost < x.best[at] {
		x.best[at], x.from[at], x.did[at] = cost, from, did
		x.queue.Push(state{cost, at})
	}
}

// state is a state in the queue, cheapest first and of those the farthest.
type state struct {
	cost float64
	at   int32
}

func (a state) Before(b state) bool { return a.cost < b.cost || a.cost == b.cost && a.at > b.at }
