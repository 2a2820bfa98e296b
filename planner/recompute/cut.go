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
// room) bounds its extra cost from below, for every λ ≥ 0. The network is folded
// (fold.go).
type cut struct {
	at     int32
	values []int32 // in question
	needed int32   // how many of them, the first, are read after the place
	fixed  int64   // bytes there whatever is chosen

	folding
	envelopes map[rounding]*envelope
	spent     int64 // edges looked at, about: a measure of work
}

const (
	units     = 1 << 40       // of cost in the program's whole cost: more would not be told apart in the sums of flows
	forbidden = endless / 256 // a capacity that no cut with another choice goes through
	free      = -1            // the place of a value that is there for nothing
	foldedAt  = 32            // about how many looks at an edge it takes to fold a value
	lookedAt  = 6             // about how often a cut looks at an edge
)

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
	p, c := s.p, s.emptyCut(at)
	c.fixed = p.Work[at]
	for _, v := range p.Inputs.Of(at) {
		s.stain(v, free)
		c.fixed += p.Bytes[v]
	}
	for i, v := range p.Outputs.Of(at) {
		s.stain(v, free)
		if i > 0 || len(p.Over.Of(at)) == 0 {
			c.fixed += p.Bytes[v]
		}
	}
	for _, v := range s.alive(at) {
		stays := s.p.stays(v, s.spans[v].made, at)
		if s.place[v] != 0 || s.may(v) && !stays && !s.readBetween(v, at, until) {
			continue
		}
		if s.may(v) && !stays {
			s.ask(c, v)
			continue
		}
		s.stain(v, free)
		c.fixed += p.Bytes[v]
	}
	s.finish(c)
	return c
}

// emptyCut begins a cut.
func (s *Solver) emptyCut(at int32) *cut {
	for _, v := range s.stained {
		s.place[v] = 0
	}
	s.stained = s.stained[:0]
	return &cut{at: at, envelopes: map[rounding]*envelope{}}
}

func (s *Solver) stain(v, to int32) {
	s.place[v] = to
	s.stained = append(s.stained, v)
}

// ask adds a value to those in question.
func (s *Solver) ask(c *cut, v int32) {
	c.values = append(c.values, v)
	s.stain(v, int32(len(c.values)))
}

// finish adds what those are made of, and makes the network.
func (s *Solver) finish(c *cut) {
	p := s.p
	c.needed = int32(len(c.values))
	var first []int32 // by place in values: the first with the same maker
	for i := int32(0); int(i) < len(c.values); i++ {
		op := s.sim.maker[c.values[i]]
		if s.met[op] > 0 {
			first = append(first, s.met[op]-1)
			continue
		}
		first = append(first, i)
		if s.met[op] = i + 1; !p.Again[op] {
			continue
		}
		for _, v := range p.Inputs.Of(op) {
			if s.place[v] == 0 {
				s.ask(c, v)
			}
		}
	}
	for _, v := range c.values {
		s.met[s.sim.maker[v]] = 0
	}
	c.folding = s.fold(c, first)
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

// alive lists the values that the order makes before a place and reads after it, or that
// stay there.
func (s *Solver) alive(at int32) (values []int32) {
	for v, x := range s.spans {
		if s.sim.maker[v] >= 0 && x.made < at && (x.last > at || at < s.p.until(int32(v))) {
			values = append(values, int32(v))
		}
	}
	return values
}

// set is what one cut chose: what is there, its weight, what it costs to make
// the rest again.
type set struct {
	kept   []bool // by folded value
	cost   float64
	weight float64
	walk   *walked // of the plan that keeps it at the border
}

// solve cuts at a price. warm is a flow at a lower price for the same weights,
// or nil. What is heavier than light is not kept at any price.
func (c *cut) solve(price float64, weights []int64, light int64, warm []int64, before float64) (set, float64) {
	cold := warm == nil
	if cold {
		warm, before = c.empty, 0
	}
	copy(c.net.cap, warm)
	for k, v := range c.value {
		switch w := weights[k]; {
		case w <= light:
			c.net.cap[v.keep] += (capacity(price, w) - capacity(before, w)) * v.by
		case cold:
			c.net.cap[v.keep] += forbidden * v.by
		}
	}
	c.net.flow()
	reach := c.net.reach()
	x := set{kept: make([]bool, len(c.value)), walk: &walked{}}
	value := 0.0
	for k, v := range c.value {
		if reach[2+k] && !reach[v.maker] {
			x.kept[k] = true
			x.weight += float64(weights[k]) * float64(v.times)
			value += float64(capacity(price, weights[k])) * float64(v.times)
		}
	}
	for _, o := range c.ops {
		if reach[o.vertex] {
			x.cost += float64(o.price) * float64(o.times)
		}
	}
	return x, value + x.cost
}

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
	r := rounding{grain, c.light(grain, room)}
	if e := c.envelopes[r]; e != nil {
		return e
	}
	weights := make([]int64, len(c.value))
	for k, v := range c.value {
		weights[k] = v.bytes / grain
	}
	e := c.weighed(weights, r.light)
	c.envelopes[r] = e
	return e
}

// light is what the heaviest value that fits a room weighs, in grains; −1 if none does.
func (c *cut) light(grain int64, room float64) int64 {
	light := int64(-1)
	for _, v := range c.value {
		if w := v.bytes / grain; w > light && float64(w) <= room {
			light = w
		}
	}
	return light
}

// sofar is the bound in units that the prices asked so far give for a limit.
func (c *cut) sofar(limit int64) (bound float64) {
	for r, e := range c.envelopes {
		room := float64((limit - c.fixed) / r.grain)
		if r.light < c.light(r.grain, room) {
			continue // it left out what may be kept there
		}
		for _, a := range e.answers {
			bound = max(bound, a.value-a.price*room)
		}
	}
	return bound
}

// weighed is the envelope of any weights.
func (c *cut) weighed(weights []int64, light int64) *envelope {
	e := &envelope{weights: weights, light: light, all: set{kept: make([]bool, len(c.value)), walk: &walked{}}}
	for k, v := range c.value {
		e.all.kept[k] = v.needed
	}
	e.all.weight = e.weigh(c, e.all.kept)
	return e
}

// weigh is the whole grains of what is kept.
func (e *envelope) weigh(c *cut, kept []bool) (sum float64) {
	for k, v := range c.value {
		if kept[k] {
			sum += float64(e.weights[k]) * float64(v.times)
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
		switch x.weight = e.weigh(c, x.kept); {
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
	above := func() (fits bool) { // without what is too heavy
		if sets = append(sets, high); !e.heavy(high.kept) {
			return false
		}
		x := e.at(c, 0, false)
		high, bound = x.set, max(bound, x.value)
		sets = append(sets, high)
		return high.weight <= room
	}
	if above() {
		return bound, sets, true
	}
	sets = append(sets, low)
	for range 40 {
		if low.cost <= high.cost { // no price takes high, which is from elsewhere
			if high = e.all; above() {
				return bound, sets, true
			}
		}
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
