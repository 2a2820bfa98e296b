package recompute

import (
	"cmp"
	"slices"
)

// gate is a place behind the border at which few sets of large values fit beside
// what its operator needs as it first runs. What is to be there behind it must be
// carried through it, or be made again. So who knows what it costs to go on from
// there with each set knows much of any state before it: what must run again for
// one of the sets, and to go on with that. From gate to gate, the last one first,
// that needs no search, as the room in between does not count. A search follows,
// in which it does, and which hardly looks at what does not lead to the end.
type gate struct {
	at    int32
	least float64 // what it costs to go on from there
	sets  []held  // what costs least to go on with first
}

// held is a set that may be there while the operator of a gate runs, and what it
// costs to go on with it at least.
type held struct {
	there large
	least float64
}

// With more sets there are more gates, and searches that take longer.
const (
	mostHeld     = 1 << 9  // sets at a gate
	mostGates    = 1 << 20 // what may be looked at for all gates of a limit
	mostFromGate = 1 << 16 // the same for the search that follows
)

// findGates finds the places where fewer sets fit than at those beside them.
func (x *tight) findGates(most int) {
	border := x.s.p.Border
	sets := func(op int32) []large {
		if op < border || int(op) >= len(x.ins) {
			return nil
		}
		return x.setsAt(op)
	}
	fewer := func(sets, than []large) bool { return sets != nil && (than == nil || len(sets) < len(than)) }
	op := int32(len(x.ins)) - 1
	var behind []large
	for here := sets(op); op >= border && x.work < most; op-- {
		before := sets(op - 1)
		x.span[op] = x.ins[op]
		if fewer(here, before) && !fewer(behind, here) {
			x.gates = append(x.gates, x.newGate(op, here))
		} else {
			x.span[op] = x.span[op].or(x.span[op+1])
		}
		behind, here = here, before
	}
}

// newGate is a gate at a place before those known.
func (x *tight) newGate(at int32, sets []large) gate {
	p := gate{at: at, least: x.most}
	for _, set := range sets {
		if least := x.ahead(tightState{whereabouts: whereabouts{set, at + 1}}); least < x.most {
			p.sets = append(p.sets, held{set, least})
			p.least = min(p.least, least)
		}
	}
	slices.SortStableFunc(p.sets, func(a, b held) int { return cmp.Compare(a.least, b.least) })
	return p
}

// setsAt lists the sets that may be there when an operator first runs, and what it
// makes with each. It lists none where nothing need be forgotten, or very many fit.
func (x *tight) setsAt(op int32) (sets []large) {
	p := x.s.p
	if x.s.plain[op] <= x.limit {
		return nil
	}
	must, room := x.ins[op].or(x.outs[op]), x.limit-x.first[op]
	for b := range must.each {
		room -= x.bytes[b]
	}
	if x.over(op) {
		room += p.Bytes[p.Outputs.Of(op)[0]]
	}
	if room < 0 {
		return nil
	}
	var more []int32
	for b, maker := range x.maker {
		if b := int32(b); maker < op && x.asked[b] >= op && x.bytes[b] <= room && !must.has(b) {
			more = append(more, b)
		}
	}
	if x.many(more, room) {
		return nil
	}
	var choose func(from int, set large, room int64)
	choose = func(from int, set large, room int64) {
		sets = append(sets, set)
		for i := from; i < len(more) && len(sets) <= mostHeld; i++ {
			if b := more[i]; x.bytes[b] <= room {
				choose(i+1, set.with(b), room-x.bytes[b])
			}
		}
	}
	choose(0, must, room)
	if x.work += len(sets) / 2; len(sets) > mostHeld {
		return nil
	}
	return sets
}

// many reports whether it is plain that more sets of values, the largest first, fit in
// a room than a gate may have: all of the smallest that fit together, or all of no more
// than fit of the largest.
func (x *tight) many(values []int32, room int64) bool {
	left, sets := room, 1
	for _, b := range slices.Backward(values) {
		if left -= x.bytes[b]; left < 0 || sets > mostHeld {
			break
		}
		sets *= 2
	}
	all, some := 1, 1 // sets of up to so many values, and of just as many
	for i, b := range values {
		if room -= x.bytes[b]; room < 0 || all > mostHeld {
			break
		}
		some = some * (len(values) - i) / (i + 1)
		all += some
	}
	return max(sets, all) > mostHeld
}

// ahead is what must run again behind a state at least, by the sets of the next
// gate.
func (x *tight) ahead(st tightState) (least float64) {
	next := len(x.gates) - 1
	for next >= 0 && x.gates[next].at < st.place {
		next--
	}
	x.made = large{}
	again := x.missing(x.span[st.place], st)
	if next < 0 {
		return again
	}
	least = x.most
	st.there = st.there.or(x.made) // for all sets
	for _, h := range x.gates[next].sets {
		if again+h.least >= least {
			break
		}
		x.made = large{}
		x.work++
		least = min(least, again+x.missing(h.there, st)+h.least)
	}
	return least
}

// fromGate is what from is for the sets of a gate.
func (x *tight) fromGate(p gate) (least float64, end int32, all bool) {
	x.states, x.queue, x.known = x.states[:0], x.queue[:0], map[whereabouts]int32{}
	made := x.outs[p.at].minus(x.ins[p.at])
	for i, h := range p.sets {
		st := tightState{whereabouts{h.there.minus(made), p.at}, 0, -1, -1}
		x.known[st.whereabouts] = int32(i)
		x.states = append(x.states, st)
		x.queue.push(promise{h.least, 0, p.at, int32(i)})
	}
	return x.search(x.work + mostFromGate)
}
