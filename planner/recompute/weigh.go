package recompute

import "math"

// sizes are what is large: what has more bytes than one of so many parts of the limit.
var sizes = []int64{10, 6, 16}

const (
	shortProgram = 1024 // operators of a program of which large values are held against all others

	mostWeighed = 1 << 10 // sets at a gate
	mostLooked  = 3 << 18 // what may be looked at for all gates of a limit

	edgesLooked = 4 // edges of cuts that are looked at in the time of an operator that runs again
)

// weigh bounds, in units, by large values and all others together. Whenever the
// backward pass comes by a place, some set of large values is there. What it costs to
// go on with that, as gates tell, are operators that make large values. What room it
// leaves is for the others, and what is to run again of those that do not fit is a
// cut's question, in which large values are there for nothing. Nothing is counted
// twice, so the sum is a bound for that set, and the least of all sets is one. Neither
// gates nor cuts see as much alone: what is cheap to go on with is what leaves no
// room. A bound that is far from what is known is not looked for any more.
func (s *Solver) weigh(limit int64, known, target float64) (least float64) {
	work := 0
	for _, parts := range sizes {
		x := s.newTight(limit, target*s.unit, parts)
		x.work, x.held = work, mostWeighed
		x.each = func(p gate) { least = max(least, x.sum(p)) }
		x.findGates(mostLooked)
		if work = x.work; least < known*nearly || least >= target {
			break
		}
	}
	s.spent += int64(work)
	return least
}

// sum is what it costs at least, in units, to go on from a gate, for large values and
// all others.
func (x *tight) sum(p gate) (least float64) {
	s, prob := x.s, x.s.p
	c := x.others(p.at)
	rooms := map[int64]float64{} // what the others cost
	least = x.most / s.unit
	for _, h := range p.sets {
		room := x.limit - x.first[p.at]
		for b := range h.there.each {
			room -= x.bytes[b]
		}
		if len(prob.Over.Of(p.at)) > 0 {
			room += prob.Bytes[prob.Outputs.Of(p.at)[0]]
		}
		cost, known := rooms[room]
		if !known {
			bound, _, ok := c.best(1, float64(room), nil)
			if cost = bound; !ok {
				cost = math.Inf(1)
			}
			rooms[room] = cost
		}
		least = min(least, cost+h.least/s.unit)
	}
	x.work += (int(c.spent) + foldedAt*len(c.values)) / edgesLooked
	c.spent = 0 // that is counted there
	return least
}

// others is the cut at a place at which all that operators make that make something
// large is there for nothing, and what the operator of the place reads and makes.
func (x *tight) others(at int32) *cut {
	s, p := x.s, x.s.p
	c := s.emptyCut(at)
	for op := range int32(len(p.Cost)) {
		if op == at || !x.outs[op].empty() {
			for _, v := range p.Outputs.Of(op) {
				s.stain(v, free)
			}
		}
	}
	for _, v := range p.Inputs.Of(at) {
		s.stain(v, free)
	}
	for _, v := range s.alive(at) {
		switch {
		case s.place[v] != 0:
		case s.may(v) && s.spans[v].last <= at: // it stays, and nobody reads it
		case s.may(v):
			s.ask(c, v)
		default:
			s.stain(v, free)
		}
	}
	s.finish(c)
	return c
}
