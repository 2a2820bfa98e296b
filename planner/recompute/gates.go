package recompute

import (
	"cmp"
	"slices"

	"memopt/planner/internal/numbers"
)

// gate is a place after the border at which few sets of large values fit beside what its operator needs as it first
// runs. What is present after it must be carried through it, or be rerun. So the cost from a gate on with each of its
// sets bounds that of any earlier state: what must be rerun for one of the sets, and the cost from there. From gate to
// gate, the last first, that needs no search, if the room in between is not counted. A search that counts it follows;
// it hardly looks at states that do not lead to the end.
type gate struct {
	at    int32
	least float64   // cost from there on
	sets  []gateSet // by cost
}

// gateSet is a set that may be present while the operator of a gate runs, and a bound on the cost from there on.
type gateSet struct {
	there numbers.Set128
	least float64
}

// With more sets there are more gates, and searches that take longer.
const (
	mostHeld     = 1 << 9  // sets of a gate
	mostGates    = 1 << 20 // work for all gates of a limit
	mostFromGate = 1 << 16 // … for the search from the first
)

// findGates finds the places where fewer sets fit than at the places next to them.
func (x *stateSearch) findGates(most int) {
	border := x.s.p.Border
	sets := func(op int32) []numbers.Set128 {
		if op < border || int(op) >= len(x.ins) {
			return nil
		}
		return x.setsAt(op)
	}
	fewer := func(sets, than []numbers.Set128) bool { return sets != nil && (than == nil || len(sets) < len(than)) }
	op := int32(len(x.ins)) - 1
	var behind []numbers.Set128
	for here := sets(op); op >= border && x.work < most; op-- {
		before := sets(op - 1)
		x.neededToGate[op] = x.ins[op]
		if fewer(here, before) && !fewer(behind, here) {
			x.gates = append(x.gates, x.newGate(op, here))
		} else {
			x.neededToGate[op] = x.neededToGate[op].Or(x.neededToGate[op+1])
		}
		behind, here = here, before
	}
}

// newGate is a gate before those known.
func (x *stateSearch) newGate(at int32, sets []numbers.Set128) gate {
	p := gate{at: at, least: x.most}
	for _, set := range sets {
		if least := x.costByGate(searchState{stateKey: stateKey{set, at + 1}}); least < x.most {
			p.sets = append(p.sets, gateSet{set, least})
			p.least = min(p.least, least)
		}
	}
	slices.SortStableFunc(p.sets, func(a, b gateSet) int { return cmp.Compare(a.least, b.least) })
	return p
}

// setsAt lists the sets that may be present as an operator first runs, with its outputs. It lists none where nothing
// need be dropped, or too many fit.
func (x *stateSearch) setsAt(op int32) (sets []numbers.Set128) {
	p := x.s.p
	if x.s.plain[op] <= x.limit {
		return nil
	}
	must, room := x.ins[op].Or(x.outs[op]), x.limit-x.firstBytes[op]
	for b := range must.Each {
		room -= x.bytes[b]
	}
	if !x.through[op] && slices.ContainsFunc(p.Over.Of(op), func(v int32) bool { return x.number[v] >= 0 }) { // over a large value
		room += p.Bytes[p.Outputs.Of(op)[0]]
	}
	if room < 0 {
		return nil
	}
	var more []int32
	for b, maker := range x.maker {
		if b := int32(b); maker < op && x.lastNeed[b] >= op && x.bytes[b] <= room && !must.Has(b) {
			more = append(more, b)
		}
	}
	if x.many(more, room) {
		return nil
	}
	var choose func(from int, set numbers.Set128, room int64)
	choose = func(from int, set numbers.Set128, room int64) {
		sets = append(sets, set)
		for i := from; i < len(more) && len(sets) <= mostHeld; i++ {
			if b := more[i]; x.bytes[b] <= room {
				choose(i+1, set.With(b), room-x.bytes[b])
			}
		}
	}
	choose(0, must, room)
	if x.work += len(sets) / 2; len(sets) > mostHeld {
		return nil
	}
	return sets
}

// many reports whether clearly more sets of values, given by falling size, fit a room than a gate may have: all subsets
// of the smallest that fit together, or all sets of no more values than fit of the largest.
func (x *stateSearch) many(values []int32, room int64) bool {
	left, sets := room, 1
	for _, b := range slices.Backward(values) {
		if left -= x.bytes[b]; left < 0 || sets > mostHeld {
			break
		}
		sets *= 2
	}
	all, some := 1, 1 // sets of up to so many values, and of exactly so many
	for i, b := range values {
		if room -= x.bytes[b]; room < 0 || all > mostHeld {
			break
		}
		some = some * (len(values) - i) / (i + 1)
		all += some
	}
	return max(sets, all) > mostHeld
}

// costByGate is a bound on the cost from a state on, by the sets of the next gate.
func (x *stateSearch) costByGate(st searchState) (least float64) {
	next := len(x.gates) - 1
	for next >= 0 && x.gates[next].at < st.place {
		next--
	}
	x.reran = numbers.Set128{}
	again := x.rerunCost(x.neededToGate[st.place], st)
	if next < 0 {
		return again
	}
	least = x.most
	st.there = st.there.Or(x.reran) // for all sets
	for _, h := range x.gates[next].sets {
		if again+h.least >= least {
			break
		}
		x.reran = numbers.Set128{}
		x.work++
		least = min(least, again+x.rerunCost(h.there, st)+h.least)
	}
	return least
}

// fromGate is fromPlace for the sets of a gate.
func (x *stateSearch) fromGate(p gate) (least float64, end int32, all bool) {
	x.states, x.queue, x.known = x.states[:0], x.queue[:0], map[stateKey]int32{}
	made := x.outs[p.at].Minus(x.ins[p.at])
	for i, h := range p.sets {
		st := searchState{stateKey{h.there.Minus(made), p.at}, 0, -1, -1}
		x.known[st.stateKey] = int32(i)
		x.states = append(x.states, st)
		x.queue.Push(queued{h.least, 0, p.at, int32(i)})
	}
	return x.search(x.work + mostFromGate)
}
