package recompute

import (
	"cmp"
	"slices"
)

// A twin is the question what to have at two places of the order: where the most is
// alive, say, and soon behind it. What is there at the second place was there at the
// first, or is made again in between, and so is what is read in between. What runs
// again between the places and what does behind the second are different launches, so
// both cost, and both rooms bind.
//
// As in a knapsack of one room (parts.go) all falls into small parts, of which equal
// layers have equal ones (twinparts.go). Two prices on bytes bound what all of them cost
// together; a knapsack of two rooms, in whole grains, looks at choices that are not far
// from the best at those prices (twinmix.go). It raises the bound, and what it chooses
// are plans to begin with: some is forgotten at the border, and some more behind the
// second place. Plans that are found from single places keep too much there, or forget
// too much at the border.
type twin struct {
	s             *Solver
	first, second *cut
	grain         int64
	room          [2]int64 // at either place, in grains
	values        []twinValue
	kinds         []twinKind
	price         [2]float64 // of a grain at either place
	bound         float64    // in units, at these
}

// twinValue is a value in question at either place.
type twinValue struct {
	value int32
	at    [2]bool // it is in question there
	reads [2]bool // what runs first up to the second place reads it, and what does behind
}

const (
	twinPlaces = 3   // places that bind most, of which pairs are asked for
	twinNear   = 0.5 // how far below the best place they are
	twinGrains = 50  // what is less than one of so many parts of the bytes may be lost in grains
)

// twins bounds by pairs of the places that bind most, and makes plans to begin with,
// those of the pair first that bounds best.
func (s *Solver) twins(at []bounded, limit int64, target float64) (least float64, plans []func() plan) {
	var places []*cut
	for _, b := range at {
		if b.c.at >= s.p.Border && b.bound >= at[0].bound*twinNear && len(places) < twinPlaces {
			places = append(places, b.c)
		}
	}
	type pairPlans struct {
		bound float64
		plans []func() plan
	}
	var all []pairPlans
	for _, other := range places[min(1, len(places)):] {
		first, second := places[0], other
		if first.at > second.at {
			first, second = second, first
		}
		if t := s.newTwin(first, second, limit); t != nil {
			bound, found := t.best(target)
			all = append(all, pairPlans{bound, found})
			least = max(least, bound)
		}
	}
	slices.SortStableFunc(all, func(a, b pairPlans) int { return cmp.Compare(b.bound, a.bound) })
	for _, x := range all {
		plans = append(plans, x.plans...)
	}
	return least, plans
}

// newTwin asks for two places; it is nil if parts are too large.
func (s *Solver) newTwin(first, second *cut, limit int64) *twin {
	g := first.commonGrain()
	t := &twin{s: s, first: first, second: second, grain: g, room: [2]int64{(limit - first.fixed) / g, (limit - second.fixed) / g}}
	known := make([]int32, len(s.p.Bytes)) // by value: its place in the twin's, counted from 1
	for i, v := range first.values {
		t.values = append(t.values, twinValue{value: v, at: [2]bool{true, false}, reads: [2]bool{s.readBetween(v, first.at, second.at), false}})
		known[v] = int32(i) + 1
	}
	for i, v := range second.values {
		if known[v] == 0 { // at the first place it is there for nothing
			t.values = append(t.values, twinValue{value: v})
			known[v] = int32(len(t.values))
		}
		x := &t.values[known[v]-1]
		x.at[1], x.reads[1] = true, int32(i) < second.needed
	}
	if !t.divide(known) {
		return nil
	}
	t.setPrices()
	return t
}

// commonGrain is the largest size that those of almost all needed bytes are whole
// multiples of.
func (c *cut) commonGrain() (grain int64) {
	sum, all := map[int64]int64{}, int64(0)
	for _, v := range c.value {
		if v.bytes > 0 && v.needed {
			sum[v.bytes] += v.bytes * v.times
			all += v.bytes * v.times
		}
	}
	var sizes []int64
	for b := range sum {
		sizes = append(sizes, b)
	}
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(b, a)) })
	rest := all
	for _, b := range sizes {
		if rest < all/twinGrains {
			break
		}
		rest -= sum[b]
		for b > 0 {
			grain, b = b, grain%b
		}
	}
	return max(grain, 1)
}

// follow improves plans of twins, and remembers the best. One that comes to cost much
// more than the best before it is within the limit is given up. share is the part of
// the work that it may take. It reports whether it found a better one.
func (x *search) follow(starts []func() plan, least, share float64) (better bool) {
	x.until, x.stage = x.sim.work+int64(share*float64(x.work)), x.sim.work
	for _, start := range starts {
		if x.done() {
			break
		}
		p := start()
		x.forgetWorth()
		if !x.repair(&p, x.extra+max(0, x.extra-least)) {
			continue
		}
		if extra := x.takeBack(&p); extra < x.extra {
			x.best, x.extra, better = p, extra, true
		}
	}
	return better
}
