package recompute

import (
	"math"
	"slices"

	"memopt/planner/flow"
)

// A cut is the cheapest set of values to have at one place of the order, while its operator runs, at a price λ for
// bytes. Of the values that are read later, some are present, and the others are recomputed from those: a present value
// costs its bytes, a missing one the closure of reruns back to what is present. That is project selection, one minimum
// cut:
//
//	source ─∞→ value      for each value that is read after the place
//	value ─λ·bytes→ maker pay for its bytes …
//	maker ─cost→ sink     … or to rerun its maker,
//	maker ─∞→ inputs      which needs its inputs in turn
//
// Any plan has some set at the place, so cost + λ·(bytes − room) is a lower bound of its extra cost, for every λ ≥ 0.
// The network is folded (fold.go).
type cut struct {
	at     int32
	values []int32 // that may be present or not
	needed int32   // the first so many are read after the place
	fixed  int64   // bytes present in any plan

	folding
	envelopes map[rounding]*envelope
	spent     int64 // work: edges looked at, about
}

const (
	units     = 1 << 40            // of cost in the whole cost; more could not be told apart in sums of flows
	forbidden = flow.Endless / 256 // a capacity that no cut passes if there is another
	free      = -1                 // the index of a value that is present for nothing
	foldWork  = 32                 // work to fold a value, in looks at an edge
	edgeLooks = 6                  // looks at each edge that a cut takes, about
)

// span is the first and the last operator of the order that make or read a value.
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

// newCut builds the network for a place and what operators after it, up to another place, read.
func (s *Solver) newCut(at, until int32) *cut {
	p, c := s.p, s.emptyCut(at)
	c.fixed = p.Work[at]
	for _, v := range p.Inputs.Of(at) {
		s.mark(v, free)
		c.fixed += p.Bytes[v]
	}
	for i, v := range p.Outputs.Of(at) {
		s.mark(v, free)
		if i > 0 || len(p.Over.Of(at)) == 0 {
			c.fixed += p.Bytes[v]
		}
	}
	for _, v := range s.alive(at) {
		stays := s.p.mustKeep(v, s.spans[v].made, at)
		if s.index[v] != 0 || s.droppable(v) && !stays && !s.readBetween(v, at, until) {
			continue
		}
		if s.droppable(v) && !stays {
			s.addValue(c, v)
			continue
		}
		s.mark(v, free)
		c.fixed += p.Bytes[v]
	}
	s.finish(c)
	return c
}

// emptyCut begins a cut.
func (s *Solver) emptyCut(at int32) *cut {
	for _, v := range s.marked {
		s.index[v] = 0
	}
	s.marked = s.marked[:0]
	return &cut{at: at, envelopes: map[rounding]*envelope{}}
}

func (s *Solver) mark(v, to int32) {
	s.index[v] = to
	s.marked = append(s.marked, v)
}

// addValue adds a value that may be present or not.
func (s *Solver) addValue(c *cut, v int32) {
	c.values = append(c.values, v)
	s.mark(v, int32(len(c.values)))
}

// finish adds the values that those are recomputed from, and makes the network.
func (s *Solver) finish(c *cut) {
	p := s.p
	c.needed = int32(len(c.values))
	var first []int32 // by index: the first value with the same maker
	for i := int32(0); int(i) < len(c.values); i++ {
		op := s.sim.maker[c.values[i]]
		if s.firstOf[op] > 0 {
			first = append(first, s.firstOf[op]-1)
			continue
		}
		first = append(first, i)
		if s.firstOf[op] = i + 1; !p.Again[op] {
			continue
		}
		for _, v := range p.Inputs.Of(op) {
			if s.index[v] == 0 {
				s.addValue(c, v)
			}
		}
	}
	for _, v := range c.values {
		s.firstOf[s.sim.maker[v]] = 0
	}
	c.folding = s.fold(c, first)
}

// readBetween reports whether an operator after one place and up to another reads a value.
func (s *Solver) readBetween(v, at, until int32) bool {
	if s.spans[v].last <= until {
		return s.spans[v].last > at
	}
	ops := s.uses.Of(v)
	i, _ := slices.BinarySearch(ops, at+1)
	return i < len(ops) && ops[i] <= until
}

// alive lists the values made before a place that are read after it or must be kept there.
func (s *Solver) alive(at int32) (values []int32) {
	for v, x := range s.spans {
		if s.sim.maker[v] >= 0 && x.made < at && (x.last > at || at < s.p.until(int32(v))) {
			values = append(values, int32(v))
		}
	}
	return values
}

// set is what a cut keeps, its weight, and the cost to recompute the rest.
type set struct {
	kept   []bool // by folded value
	cost   float64
	weight float64
	walk   *walkResult // of the plan with that set at the border
}

// solve cuts at a price. warm is a flow at a lower price for the same weights, or nil. Values heavier than light are
// not kept at any price.
func (c *cut) solve(price float64, weights []int64, light int64, warm []int64, before float64) (set, float64) {
	cold := warm == nil
	if cold {
		warm, before = c.empty, 0
	}
	copy(c.net.Cap, warm)
	for k, v := range c.value {
		switch w := weights[k]; {
		case w <= light:
			c.net.Cap[v.keep] += (capacity(price, w) - capacity(before, w)) * v.by
		case cold:
			c.net.Cap[v.keep] += forbidden * v.by
		}
	}
	c.net.Flow()
	reach := c.net.Reach()
	x := set{kept: make([]bool, len(c.value)), walk: &walkResult{}}
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

// envelope is the cuts at all prices asked so far for one row of weights. What to keep at a price does not depend on
// the room, but for values that are too heavy for it, so limits share envelopes.
type envelope struct {
	weights []int64
	light   int64 // the heaviest value that may be kept
	all     set   // all needed values
	answers []answered
	warm    []int64 // a flow at price
	price   float64
}

// rounding names an envelope: bytes in whole grains, and the heaviest value.
type rounding struct{ grain, light int64 }

// answered is a cut at a price.
type answered struct {
	price, value float64
	set
}

// envelope is the envelope of bytes in whole grains, for a room in grains.
func (c *cut) envelope(grain int64, room float64) *envelope {
	r := rounding{grain, c.light(grain, room)}
	if e := c.envelopes[r]; e != nil {
		return e
	}
	weights := make([]int64, len(c.value))
	for k, v := range c.value {
		weights[k] = v.bytes / grain
	}
	e := &envelope{weights: weights, light: r.light, all: set{kept: make([]bool, len(c.value)), walk: &walkResult{}}}
	for k, v := range c.value {
		e.all.kept[k] = v.needed
	}
	e.all.weight = e.weigh(c, e.all.kept)
	c.envelopes[r] = e
	return e
}

// light is the weight of the heaviest value that fits a room, in grains; −1 if none does.
func (c *cut) light(grain int64, room float64) int64 {
	light := int64(-1)
	for _, v := range c.value {
		if w := v.bytes / grain; w > light && float64(w) <= room {
			light = w
		}
	}
	return light
}

// boundSoFar is the bound, in units, for a limit by the prices asked so far.
func (c *cut) boundSoFar(limit int64) (bound float64) {
	for r, e := range c.envelopes {
		room := float64((limit - c.fixed) / r.grain)
		if r.light < c.light(r.grain, room) {
			continue // it leaves out values that fit
		}
		for _, a := range e.answers {
			bound = max(bound, a.value-a.price*room)
		}
	}
	return bound
}

// weigh is the weight of a set.
func (e *envelope) weigh(c *cut, kept []bool) (sum float64) {
	for k, v := range c.value {
		if kept[k] {
			sum += float64(e.weights[k]) * float64(v.times)
		}
	}
	return sum
}

// heavy reports whether a set has a value that is too heavy.
func (e *envelope) heavy(kept []bool) bool {
	for i, k := range kept {
		if k && e.weights[i] > e.light {
			return true
		}
	}
	return false
}

// at is the cut at a price: the smallest of its value, whatever flow it is found from. It counts as the same work
// whether it was known or not, so that what is found for a limit does not depend on which were asked for before.
func (e *envelope) at(c *cut, price float64, keep bool) answered {
	c.spent += edgeLooks * int64(c.net.Edges())
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
		e.warm, e.price = append(e.warm[:0], c.net.Cap...), price
	}
	return e.answers[len(e.answers)-1]
}

// best follows the lower envelope of the cuts, which are lines over the price, to the price with the best bound for a
// room in grains. It returns the bound in units and the sets met, those closest to the room last; ok is false if no set
// fits. It begins between those of some sets that are closest to the room, if there are any on both sides.
func (c *cut) best(grain int64, room float64, from []set) (bound float64, sets []set, ok bool) {
	e := c.envelope(grain, room)
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
		case e.heavy(x.kept):
		case x.weight > room && x.weight < high.weight:
			high = x
		case x.weight <= room && x.weight > low.weight:
			low = x
		}
	}
	if low.kept == nil || low.cost <= high.cost {
		// The smallest set: at this price any value costs more than the program.
		price := min(2*units, float64(forbidden)/float64(max(e.light, 1)))
		x := e.at(c, price, false)
		if high, low = e.all, x.set; low.weight > room {
			bound = max(0, x.value-price*room)
			return bound, []set{high}, bound <= units*(1+1e-6)
		}
	}
	above := func() (fits bool) { // the set above the room, without what is too heavy
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
		if low.cost <= high.cost { // high is from other cuts, and no price takes it
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
