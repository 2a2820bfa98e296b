package recompute

import (
	"math"
	"slices"
)

// A cut is the question what to have at one place of the order, right when its
// operator runs. Of the values that are read later, some are there, and the
// others are made again from what is there: keeping costs bytes, making again
// costs the closure of launches back to what is kept. With a price λ on bytes
// this is project selection, one minimum cut:
//
//	source ─∞→ value      for each value that is read after the place
//	value ─λ·bytes→ maker pay to keep it …
//	maker ─cost→ sink     … or to run its maker,
//	maker ─∞→ inputs      which needs its inputs in turn
//
// Whatever a plan does, some set is there at this place, so cost + λ·(bytes −
// room) bounds its extra cost from below, for every λ ≥ 0.
type cut struct {
	at     int32
	values []int32 // in question
	keep   []int32 // by place in values: the edge that keeps it
	maker  []int32 // by place in values: the vertex of its maker
	needed []bool  // by place in values: read after the place
	ops    []int32 // operators with a vertex
	vertex []int32 // by place in ops
	price  []int64 // by place in ops: cost in units
	fixed  int64   // bytes there whatever is chosen
	bytes  []int64 // by place in values

	net       network
	empty     []int64 // capacities without any flow and at price 0
	envelopes map[rounding]*envelope
	spent     int64 // edges looked at, about: a measure of work
}

// units is how many units of cost the program's whole cost has.
const units = 1 << 40

// span is where the order makes each value, and reads it last.
type span struct{ made, last int32 }

func spans(p *Problem) []span {
	all := make([]span, len(p.Bytes))
	for op := range int32(len(p.Cost)) {
		for _, v := range p.Inputs.Of(op) {
			all[v].last = op
		}
		for _, v := range p.Outputs.Of(op) {
			all[v] = span{op, op}
		}
	}
	for v, held := range p.Held {
		if held {
			all[v].last = int32(len(p.Cost))
		}
	}
	return all
}

// newCut builds the network for a place, and what is read from there on by the
// operators before another place and that one.
func (s *Solver) newCut(at, until int32) *cut {
	p := s.p
	c := &cut{at: at, fixed: p.Work[at], envelopes: map[rounding]*envelope{}}
	for _, v := range s.stained {
		s.place[v] = 0
	}
	s.stained = s.stained[:0]
	const free = -1
	stain := func(v, to int32) {
		s.place[v] = to
		s.stained = append(s.stained, v)
	}
	for _, v := range p.Inputs.Of(at) {
		stain(v, free)
		c.fixed += p.Bytes[v]
	}
	for i, v := range p.Outputs.Of(at) {
		stain(v, free)
		if i > 0 || len(p.Over.Of(at)) == 0 {
			c.fixed += p.Bytes[v]
		}
	}
	add := func(v int32) {
		c.values = append(c.values, v)
		stain(v, int32(len(c.values)))
	}
	for _, v := range s.alive(at) {
		if s.place[v] != 0 || s.may(v) && !s.readBetween(v, at, until) {
			continue
		}
		if s.may(v) {
			add(v)
			continue
		}
		stain(v, free)
		c.fixed += p.Bytes[v]
	}
	needed := len(c.values)
	n := int32(2)
	vertex := make(map[int32]int32, needed)
	edges := needed
	for i := 0; i < len(c.values); i++ {
		op := s.sim.maker[c.values[i]]
		if _, known := vertex[op]; known {
			continue
		}
		vertex[op] = int32(len(c.ops))
		c.ops = append(c.ops, op)
		if edges++; !p.Again[op] {
			continue
		}
		edges += len(p.Inputs.Of(op))
		for _, v := range p.Inputs.Of(op) {
			if s.place[v] == 0 {
				add(v)
			}
		}
	}
	n += int32(len(c.values) + len(c.ops))
	c.net.reset(int(n), edges+len(c.values))
	c.vertex, c.price, c.empty = make([]int32, 0, len(c.ops)), make([]int64, 0, len(c.ops)), make([]int64, 0, 2*(edges+len(c.values)))
	c.needed, c.maker = make([]bool, 0, len(c.values)), make([]int32, 0, len(c.values))
	c.keep, c.bytes = make([]int32, 0, len(c.values)), make([]int64, 0, len(c.values))
	for i := range c.ops {
		c.vertex = append(c.vertex, int32(2+len(c.values)+i))
	}
	for i, v := range c.values {
		c.needed = append(c.needed, i < needed)
		if i < needed {
			c.net.edge(source, int32(2+i), endless)
		}
		m := c.vertex[vertex[s.sim.maker[v]]]
		c.maker = append(c.maker, m)
		c.keep = append(c.keep, c.net.edge(int32(2+i), m, 0))
		c.bytes = append(c.bytes, p.Bytes[v])
	}
	for i, op := range c.ops {
		price := endless // what runs once must have been kept
		if p.Again[op] {
			price = int64(p.Cost[op] / s.unit)
			for _, v := range p.Inputs.Of(op) {
				if s.place[v] > 0 {
					c.net.edge(c.vertex[i], 1+s.place[v], endless)
				}
			}
		}
		c.price = append(c.price, price)
		c.net.edge(c.vertex[i], sink, price)
	}
	c.empty = append(c.empty, c.net.cap...)
	s.spent += int64(len(c.net.to))
	return c
}

// readBetween reports whether an operator behind one place and not behind
// another reads a value.
func (s *Solver) readBetween(v, at, until int32) bool {
	if s.spans[v].last <= until {
		return s.spans[v].last > at
	}
	ops := s.uses.Of(v)
	i, _ := slices.BinarySearch(ops, at+1)
	return i < len(ops) && ops[i] <= until
}

// alive lists the values that the order makes before a place and reads after it.
func (s *Solver) alive(at int32) (values []int32) {
	for v, x := range s.spans {
		if s.sim.maker[v] >= 0 && x.made < at && x.last > at {
			values = append(values, int32(v))
		}
	}
	return values
}

// set is what one cut chose: what is there, its weight, what it costs to make
// the rest again.
type set struct {
	kept   []bool // by place in the cut's values
	cost   float64
	weight float64
}

// solve cuts at a price. warm is a flow at a lower price for the same weights,
// or nil. What is heavier than light is not kept at any price.
func (c *cut) solve(price float64, weights []int64, light int64, warm []int64, before float64) (set, float64) {
	cold := warm == nil
	if cold {
		warm, before = c.empty, 0
	}
	copy(c.net.cap, warm)
	for i, e := range c.keep {
		switch {
		case weights[i] <= light:
			c.net.cap[e] += capacity(price, weights[i]) - capacity(before, weights[i])
		case cold:
			c.net.cap[e] += forbidden
		}
	}
	c.net.flow()
	reach := c.net.reach()
	x := set{kept: make([]bool, len(c.values))}
	value := 0.0
	for i := range c.values {
		if reach[2+i] && !reach[c.maker[i]] {
			x.kept[i] = true
			x.weight += float64(weights[i])
			value += float64(capacity(price, weights[i]))
		}
	}
	for i := range c.ops {
		if reach[c.vertex[i]] {
			x.cost += float64(c.price[i])
		}
	}
	return x, value + x.cost
}

// forbidden is a capacity that no cut with another choice goes through.
const forbidden = endless / 64

func capacity(price float64, weight int64) int64 {
	return int64(min(price*float64(weight), float64(forbidden)))
}

// envelope is what is known of the cut under one row of weights. The cuts for
// one room are asked for by others too: what to have at a price does not depend
// on the room, but for what is too heavy for it.
type envelope struct {
	weights []int64
	light   int64 // the heaviest that may be kept
	all     set   // everything that is needed
	answers []answered
	warm    []int64 // a flow, and the price that it is for
	price   float64
}

// rounding names an envelope of bytes in whole grains.
type rounding struct{ grain, light int64 }

// answered is a cut at a price.
type answered struct {
	price, value float64
	set
}

// envelope is what is known with bytes in whole grains, for a room of grains.
func (c *cut) envelope(grain int64, room float64) *envelope {
	r := rounding{grain, -1}
	for _, b := range c.bytes {
		if w := b / grain; w > r.light && float64(w) <= room {
			r.light = w
		}
	}
	if e := c.envelopes[r]; e != nil {
		return e
	}
	weights := c.bytes
	if grain > 1 {
		weights = make([]int64, len(c.bytes))
		for i, b := range c.bytes {
			weights[i] = b / grain
		}
	}
	e := c.weighed(weights, r.light)
	c.envelopes[r] = e
	return e
}

// weighed is the envelope of any weights.
func (c *cut) weighed(weights []int64, light int64) *envelope {
	e := &envelope{weights: weights, light: light, all: set{kept: c.needed}}
	for i, w := range weights {
		if c.needed[i] {
			e.all.weight += float64(w)
		}
	}
	return e
}

// weigh is the whole grains of what is kept.
func (e *envelope) weigh(kept []bool) (sum float64) {
	for i, k := range kept {
		if k {
			sum += float64(e.weights[i])
		}
	}
	return sum
}

// heavy reports whether something kept is heavier than it may be.
func (e *envelope) heavy(kept []bool) bool {
	for i, k := range kept {
		if k && e.weights[i] > e.light {
			return true
		}
	}
	return false
}

// at is the cut at a price. It is the smallest of its value, whatever flow it
// was found from, and counts as the same work whether it was known or not: what
// is found for a limit does not depend on what was asked before.
func (e *envelope) at(c *cut, price float64, keep bool) answered {
	c.spent += lookedAt * int64(len(c.net.to))
	for _, a := range e.answers {
		if a.price == price {
			return a
		}
	}
	warm, before := e.warm, e.price
	if len(warm) == 0 || price < before {
		warm, before = nil, 0
	}
	x, value := c.solve(price, e.weights, e.light, warm, before)
	e.answers = append(e.answers, answered{price, value, x})
	if keep {
		e.warm, e.price = append(e.warm[:0], c.net.cap...), price
	}
	return e.answers[len(e.answers)-1]
}

// lookedAt is about how often a cut looks at an edge.
const lookedAt = 6

// best follows the lower envelope of the lines that the cuts are to the price
// that bounds best for a room of whole grains. It returns the bound in units,
// and the sets on either side, lower ones last; ok is false if no set fits. It
// begins between those of some sets that are nearest to the room, if there are
// any on either side.
func (c *cut) best(grain int64, room float64, from []set) (bound float64, sets []set, ok bool) {
	return c.envelope(grain, room).best(c, room, from)
}

func (e *envelope) best(c *cut, room float64, from []set) (bound float64, sets []set, ok bool) {
	high := e.all
	if high.weight <= room {
		return 0, nil, true
	}
	if room < 0 {
		return math.Inf(1), nil, false
	}
	low := set{weight: -1}
	for _, x := range from {
		switch x.weight = e.weigh(x.kept); {
		case e.heavy(x.kept): // nothing that may be kept
		case x.weight > room && x.weight < high.weight:
			high = x
		case x.weight <= room && x.weight > low.weight:
			low = x
		}
	}
	if low.kept == nil || low.cost <= high.cost {
		// As little kept as can be: the least weight costs more than the program.
		price := min(2*units, float64(forbidden)/float64(max(e.light, 1)))
		x := e.at(c, price, false)
		if high, low = e.all, x.set; low.weight > room {
			bound = max(0, x.value-price*room)
			return bound, []set{high}, bound <= units*(1+1e-6)
		}
	}
	if e.heavy(high.kept) {
		sets = append(sets, high)
		x := e.at(c, 0, false)
		if high, bound = x.set, x.value; high.weight <= room {
			return bound, append(sets, high), true
		}
	}
	sets = append(sets, high, low)
	for range 40 {
		price := (low.cost - high.cost) / (high.weight - low.weight)
		x := e.at(c, price, true)
		bound = max(bound, x.value-price*room)
		if x.value >= (low.cost+price*low.weight)*(1-1e-9)-float64(len(c.values)+1) {
			break
		}
		sets = append(sets, x.set)
		if x.weight > room {
			high = x.set
		} else {
			low = x.set
		}
	}
	return bound, sets, true
}
