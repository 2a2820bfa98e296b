package recompute

import (
	"cmp"
	"slices"

	"memopt/planner/mixes"
)

// A knapsack is the cheapest sets of values to have at one place of the order, to the byte, or at two together: for
// example where the most is alive, and soon after. A value that is present at the second place was present at the
// first, or is recomputed in between, as is what is read in between. Reruns between the places and after the second are
// different launches, so both cost; and both rooms bind.
//
// The values fall into small parts that share nothing but the rooms; equal layers have equal parts (choices.go). Prices
// on bytes bound the cost of all parts together (Lagrange). A dynamic program over choices that are not far from the
// best at those prices raises the bound (planner/mixes). What it chooses are plans to begin with: some values are dropped at
// the border, and some more after the second place. Plans of single places keep too much there, or drop too much at the
// border.
type knapsack struct {
	s             *Solver
	first, second *cut // second is nil for one place
	grain         int64
	values        []item
	kinds         []kind
	mix           mixes.Problem // of the kinds' choices: rooms in grains, costs in units
}

// item is a value that may be present or not at either place.
type item struct {
	value int32
	at    [2]bool // by place: it may be present or not there
	reads [2]bool // operators between the places read it, and operators after the second
}

// More pairs raise bounds of few programs. Smaller grains and more walks take longer.
const (
	pairPlaces  = 3      // places that bind most, whose pairs are bounded
	pairNear    = 0.25   // … if their bound is this part of the best at least
	pairBinding = 2      // places added where plans of pairs exceed the limit
	grainLoss   = 50     // grains may lose one of so many parts of the bytes
	followed    = 0.3    // the share of the work for plans of pairs
	followWalks = 3 << 9 // … or so many walks, if that is more
)

// sets bounds by a knapsack at each of the places that bind most, and keeps the plans of the cheapest sets.
func (l *solving) sets() {
	s, e, target := l.s, &l.e, l.aim()
	first := e.at[0].bound
	for i := range e.at[:min(roundings, len(e.at))] {
		x := &e.at[i]
		if x.bound < first*nearly {
			break
		}
		t := s.knapsack(x.c, nil)
		if t == nil {
			continue
		}
		t.within([2]int64{x.room, 0})
		bound, starts := t.best(target, 0)
		x.bound = max(x.bound, bound)
		l.raise(bound)
		e.sets = append(e.sets, starts...)
	}
}

// pairsOf bounds by pairs of the places that bind most, and returns plans of the cheapest sets. Where those exceed the
// limit, another place binds; pairs with it bound too, and their plans come second.
func (s *Solver) pairsOf(at []bounded, limit int64, target float64) (least float64, plans [2][]pricedStart) {
	var places []*cut
	for _, b := range at {
		if b.c.at >= s.p.Border && b.bound >= at[0].bound*pairNear && len(places) < pairPlaces {
			places = append(places, b.c)
		}
	}
	var best []pricedStart // of the pair that bounds best
	ask := func(first, second *cut, to *[]pricedStart) {
		if first.at > second.at {
			first, second = second, first
		}
		t := s.knapsack(first, second)
		if t == nil {
			return
		}
		t.within([2]int64{limit - first.fixed, limit - second.fixed})
		bound, starts := t.best(target, least)
		*to = append(*to, starts...)
		if bound > least {
			least, best = bound, starts
		}
	}
	for _, other := range places[min(1, len(places)):] {
		ask(places[0], other, &plans[0])
	}
	for range pairBinding {
		if least >= target-fair*units {
			break
		}
		op := s.overAt(best, limit, places)
		if op < 0 {
			break
		}
		c := s.cut(op)
		s.count(c)
		ask(places[0], c, &plans[1])
		ask(places[1], c, &plans[1])
		places = append(places, c)
	}
	return least, plans
}

// overAt is the place of the peak of the first plan that exceeds the limit at a place not known; −1 if there is none.
func (s *Solver) overAt(plans []pricedStart, limit int64, known []*cut) int32 {
	for _, p := range plans {
		if !s.sim.run(p.plan(), limit) || s.sim.peak <= limit {
			continue
		}
		op := s.sim.place[s.sim.peakLaunch]
		if op >= s.p.Border && !slices.ContainsFunc(known, func(c *cut) bool { return c.at == op }) {
			return op
		}
	}
	return -1
}

// knapsack is that of one place or two; nil if its parts are too large. It is built once.
func (s *Solver) knapsack(first, second *cut) *knapsack {
	pair := [2]*cut{first, second}
	t, known := s.pairs[pair]
	if !known {
		t = s.newKnapsack(first, second)
		s.pairs[pair] = t
	}
	return t
}

func (s *Solver) newKnapsack(first, second *cut) *knapsack {
	t := &knapsack{s: s, first: first, second: second, grain: 1}
	if second != nil {
		t.grain = first.commonGrain()
	}
	known := make([]int32, len(s.p.Bytes)) // by value: its item, counted from 1
	for i, v := range first.values {
		reads := int32(i) < first.needed
		if second != nil {
			reads = s.readBetween(v, first.at, second.at)
		}
		t.values = append(t.values, item{value: v, at: [2]bool{true, false}, reads: [2]bool{reads, false}})
		known[v] = int32(i) + 1
	}
	if second != nil {
		for i, v := range second.values {
			if known[v] == 0 { // at the first place it is present for nothing
				t.values = append(t.values, item{value: v})
				known[v] = int32(len(t.values))
			}
			x := &t.values[known[v]-1]
			x.at[1], x.reads[1] = true, int32(i) < second.needed
		}
	}
	if !t.divide(known) {
		return nil
	}
	return t
}

// within sets the rooms, and finds the best prices.
func (t *knapsack) within(room [2]int64) {
	t.mix = mixes.Problem{Room: [2]int64{room[0] / t.grain, room[1] / t.grain}, Single: t.second == nil, Whole: units, Context: t.s.p.Context}
	for _, k := range t.kinds {
		t.mix.Kinds = append(t.mix.Kinds, mixes.Kind{Choices: k.mixed, Times: len(k.parts)})
	}
	t.mix.SetPrices()
}

// best raises the bound up to a target, and returns plans of the cheapest mixes. It does not raise it far where it cannot exceed a
// bound that is known.
func (t *knapsack) best(target, known float64) (bound float64, plans []pricedStart) {
	bound, cheapest := t.mix.Best(target, known)
	price, ways := max(t.mix.Price[0], t.mix.Price[1])/float64(t.grain)*t.s.unit, dealings
	if t.second == nil {
		ways = setDealings
	}
	for _, m := range cheapest {
		for _, w := range ways {
			plans = append(plans, pricedStart{func() plan { return t.plan(m, w) }, price})
		}
	}
	return bound, plans
}

// commonGrain is the largest size of which the sizes of almost all needed bytes are multiples.
func (c *cut) commonGrain() (grain int64) {
	sizes, bytes := c.sizes()
	all := int64(0)
	for _, sum := range bytes {
		all += sum
	}
	rest := all
	for _, b := range sizes {
		if rest < all/grainLoss {
			break
		}
		rest -= bytes[b]
		for b > 0 {
			grain, b = b, grain%b
		}
	}
	return max(grain, 1)
}

// pricedStart is a plan to begin with, and about what it costs to save a byte over the limit.
type pricedStart struct {
	plan  func() plan
	price float64
}

// followPairs improves plans of pairs, those first that are likely to cost least within the limit.
func (x *search) followPairs(pairs [2][]pricedStart) {
	x.stage(max(followed, float64(followWalks*len(x.s.p.Cost))/float64(x.work)))
	for _, starts := range pairs {
		x.improve(x.promising(starts), &followNear)
	}
}

// promising are the plans of starts, each once, by what they are likely to cost within the limit.
func (x *search) promising(starts []pricedStart) (plans []func() plan) {
	var costs []float64
	var order []int
	var all []plan
	for _, s := range starts {
		p := s.plan()
		if !x.sim.run(p, x.limit) || slices.ContainsFunc(all, p.equal) {
			continue
		}
		costs = append(costs, x.sim.extra+s.price*float64(max(0, x.sim.peak-x.limit)))
		order, all = append(order, len(all)), append(all, p)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
	for _, i := range order {
		plans = append(plans, all[i].clone)
	}
	return plans
}
