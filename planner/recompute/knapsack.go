package recompute

import (
	"cmp"
	"slices"
)

// A knapsack is the question what to have at a place of the order to the byte, or what at
// two places: where the most is alive, say, and soon behind it. What is there at the second
// place was there at the first, or is made again in between, and so is what is read in
// between. What runs again between the places and what does behind the second are different
// launches, so both cost, and both rooms bind.
//
// All falls into small parts that have nothing to do with each other but the room, of which
// equal layers have equal ones (choices.go). Prices on bytes bound what all of them cost
// together (Lagrange); a dynamic programme looks at choices that are not far from the best at
// those prices (mixes.go). It raises the bound, and what it chooses are plans to begin with:
// some is forgotten at the border, and some more behind the second place. Plans that are found
// from single places keep too much there, or forget too much at the border.
type knapsack struct {
	s             *Solver
	first, second *cut // second is nil for one place
	grain         int64
	room          [2]int64 // at either place, in grains
	values        []item
	kinds         []kind
	price         [2]float64 // of a grain at either place
	bound         float64    // in units, at these
	mixed         int        // ways to choose that were looked at
}

// item is a value in question at either place.
type item struct {
	value int32
	at    [2]bool // it is in question there
	reads [2]bool // what runs first up to the second place reads it, and what does behind
}

// More places raise bounds of few programs. Smaller grains and more walks take longer.
const (
	pairPlaces  = 3      // places that bind most, of which pairs are asked for
	pairNear    = 0.25   // how far below the best place they are
	pairBinding = 2      // places that are added to them
	grainLoss   = 50     // what is less than one of so many parts of the bytes may be lost in grains
	followed    = 0.3    // the part of the work in which plans of pairs are followed
	followWalks = 3 << 9 // … or so many walks, if that is more
)

// sets bounds by each of the places that bind most, and makes plans of what is cheapest to
// have there.
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

// pairsOf bounds by pairs of the places that bind most, and makes plans to begin with.
// Where those are over the limit, another place binds: pairs with that bound as well,
// and have plans of their own.
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

// overAt is the place where the first plan that is over the limit at one not known is so
// most; −1 if none is.
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

// knapsack asks for a place, or for two; it is nil if parts are too large. It is built once.
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
	known := make([]int32, len(s.p.Bytes)) // by value: its place in the knapsack's, counted from 1
	for i, v := range first.values {
		reads := int32(i) < first.needed
		if second != nil {
			reads = s.readBetween(v, first.at, second.at)
		}
		t.values = append(t.values, item{value: v, at: [2]bool{true, false}, reads: [2]bool{reads, false}})
		known[v] = int32(i) + 1
	}
	for i, v := range t.secondValues() {
		if known[v] == 0 { // at the first place it is there for nothing
			t.values = append(t.values, item{value: v})
			known[v] = int32(len(t.values))
		}
		x := &t.values[known[v]-1]
		x.at[1], x.reads[1] = true, int32(i) < second.needed
	}
	if !t.divide(known) {
		return nil
	}
	return t
}

// secondValues are those of the second place, if there is one.
func (t *knapsack) secondValues() []int32 {
	if t.second == nil {
		return nil
	}
	return t.second.values
}

// within has so many bytes be there at either place, and looks for the best prices.
func (t *knapsack) within(room [2]int64) {
	t.room = [2]int64{room[0] / t.grain, room[1] / t.grain}
	t.bound, t.price = 0, [2]float64{}
	t.setPrices()
}

// commonGrain is the largest size that those of almost all needed bytes are whole
// multiples of.
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

// pricedStart is a plan to begin with, and what a byte costs about where it is over the
// limit.
type pricedStart struct {
	plan  func() plan
	price float64
}

// followPairs improves plans of pairs, those first that are likely to cost least within the limit.
func (x *search) followPairs(pairs [2][]pricedStart) {
	x.stage(max(followed, float64(followWalks*len(x.s.p.Cost))/float64(x.work)))
	for _, starts := range pairs {
		x.improveEach(x.promising(starts), &followNear)
	}
}

// promising lists the plans of starts, each once, that which is likely to cost least
// within the limit first.
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
