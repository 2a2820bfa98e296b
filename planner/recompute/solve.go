package recompute

import (
	"cmp"
	"math"
	"slices"
)

// Answer is a plan as launches, with its evidence.
type Answer struct {
	Launches []int32 // operators; what stands a second time runs again
	Peak     int64
	Extra    float64 // cost of what runs again
	Bound    float64 // proven: within the limit, no launches cost less extra
}

// Solver answers limits for one problem.
type Solver struct {
	p     *Problem
	sim   *simulator
	spans []span
	uses  Lists   // by value: the operators that read it
	plain []int64 // by operator: bytes alive if nothing runs again
	keep  plan    // the plan that makes nothing again
	total float64
	unit  float64 // of cost
	top   int64   // the peak of the plain program
	tiny  bool    // it can be solved exactly

	cuts    map[int32]*cut
	proven  map[int64]evidence // by limit
	place   []int32            // by value, while a cut is built
	stained []int32
	spent   int64 // work of the cuts
}

// New prepares a problem.
func New(p *Problem) (*Solver, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	s := &Solver{p: p, sim: newSimulator(p), spans: spans(p), cuts: map[int32]*cut{}, proven: map[int64]evidence{}, place: make([]int32, len(p.Bytes))}
	for _, c := range p.Cost {
		s.total += c
	}
	readers := make([][]int32, len(p.Bytes))
	for op := range int32(len(p.Cost)) {
		for _, v := range p.Inputs.Of(op) {
			readers[v] = append(readers[v], op)
		}
	}
	for _, ops := range readers {
		s.uses.Add(ops...)
	}
	if s.unit = s.total / units; s.unit == 0 {
		s.unit = 1
	}
	s.keep.gone = make([]bool, len(p.Bytes))
	for v, x := range s.spans {
		if p.Forced == nil {
			s.keep.gone[v] = s.may(int32(v)) && x.last < p.Border
		} else {
			s.keep.gone[v] = p.Forced[v]
		}
	}
	s.sim.run(s.keep, math.MaxInt64)
	s.plain, s.top = slices.Clone(s.sim.live), s.sim.peak
	s.tiny = s.small()
	s.sim.most = mostAgain*len(p.Cost) + 1024
	return s, nil
}

// How near to the bound a plan is taken as best, as parts of the whole cost: at
// first, and when the second half of the work begins.
const (
	enough = 0.0002
	good   = 0.0005
)

// mostAgain is how many launches for each operator a plan may have on average.
const mostAgain = 8

// How many launches are simulated for one limit, and of a program that can be
// solved exactly.
const (
	mostWork = 2 << 20
	fewWork  = 1 << 12
)

// Solve finds a plan within a limit; ok is false if it finds none.
func (s *Solver) Solve(limit int64) (Answer, bool) {
	if s.top <= limit {
		return s.answer(s.keep, 0), true
	}
	e := s.bound(limit)
	if !e.ok {
		return Answer{}, false
	}
	least, at := e.least*s.unit, e.at
	work := int64(mostWork)
	if s.tiny {
		work = fewWork // to see whether the first plan meets the bound
	}
	x := s.newSearch(limit, work)
	x.enough = least + min(enough*s.total, least/10)
	starts := s.starts(at, limit)
	x.descend(starts, false, 0.25)
	x.swap(0.4)
	x.enough = least + good*s.total
	x.descend(s.combined(at), true, 0.5)
	x.descend(s.near(at, limit), true, 0.6)
	x.descend(starts, true, 0.65)
	x.thorough = true
	x.swap(0.75)
	x.descend(s.eager(starts, limit), true, 0.85)
	x.swap(0.9)
	x.thorough = false
	x.explore(append(s.combined(at), starts...), 1)
	if s.tiny && x.extra > least*(1+1e-9) {
		launches, extra, ok := s.solveExactly(limit)
		if !ok {
			s.proven[limit] = evidence{}
			return Answer{}, false
		}
		if extra < x.extra || x.best.gone == nil {
			peak, _, err := Check(s.p, launches)
			if err != nil {
				panic(err)
			}
			e.least = extra / s.unit
			s.proven[limit] = e
			return Answer{launches, peak, extra, extra}, true
		}
		least = x.extra
		e.least = least / s.unit
		s.proven[limit] = e
	}
	if x.best.gone == nil {
		return Answer{}, false
	}
	return s.answer(x.best, least), true
}

// combined are plans that forget by every place what its cut does not keep.
func (s *Solver) combined(at []bounded) (all []func() plan) {
	for back := range 3 {
		all = append(all, func() plan {
			p := s.keep.clone()
			for _, b := range at {
				for _, sets := range [][]set{b.sets, b.fine} {
					// The nearest hull points to the room, on the side that fits.
					if fits := b.fitting(sets); back < len(fits) {
						s.forgetBy(&p, b.c, fits[len(fits)-1-back])
					}
				}
			}
			return p
		})
	}
	return all
}

// fitting are the sets whose bytes are within the room.
func (b bounded) fitting(sets []set) (fits []set) {
	for _, x := range sets {
		if b.bytes(x) <= b.room {
			fits = append(fits, x)
		}
	}
	return fits
}

// bytes is what a set keeps.
func (b bounded) bytes(x set) (sum int64) {
	for i, k := range x.kept {
		if k {
			sum += b.c.bytes[i]
		}
	}
	return sum
}

// forgetBy forgets by the place of a cut what it does not keep, each value
// right after its last use before.
func (s *Solver) forgetBy(p *plan, c *cut, x set) {
	for i, v := range c.values {
		if x.kept[i] || !s.may(v) {
			continue
		}
		last := s.spans[v].made
		for _, op := range s.uses.Of(v) {
			if op < c.at {
				last = op
			}
		}
		if last < s.p.Border {
			p.gone[v] = true
		} else if _, known := p.search(event{last + 1, v}); !known {
			p.apply(event{last + 1, v}, false)
		}
	}
}

// descend repairs and improves plans, and remembers the best. far follows also
// what costs more than the best before it is improved. share is the part of the
// work by which it ends.
func (x *search) descend(starts []func() plan, far bool, share float64) {
	x.share(share)
	for _, start := range starts {
		if x.done() {
			return
		}
		if far {
			x.forgetWorth()
		}
		p, most := start(), x.extra
		if far {
			most = math.Inf(1)
		}
		if x.repair(&p, most) {
			if extra := x.takeBack(&p); extra < x.extra {
				x.best, x.extra = p, extra
			}
		}
	}
}

// swap improves the best plan by exchanges.
func (x *search) swap(share float64) {
	x.share(share)
	if x.best.gone != nil {
		x.best, x.extra = x.exchange(x.best, x.extra)
	}
}

// exchange remembers something that does not fit, and forgets what is cheaper to
// lose instead, as long as that pays.
func (x *search) exchange(p plan, extra float64) (plan, float64) {
	for better := true; better && !x.done(); {
		better = false
		for _, c := range x.savings(&p) {
			q := p.clone()
			q.remove(c)
			x.tabu, x.tabued = c.event, true
			repaired := x.repair(&q, extra)
			x.tabued = false
			if repaired {
				if e := x.takeBack(&q); e < extra {
					p, extra, better = q, e, true
					break
				}
			}
			if x.done() {
				break
			}
		}
	}
	return p, extra
}

// explore improves every start by exchanges of its own.
func (x *search) explore(starts []func() plan, share float64) {
	x.share(share)
	for _, start := range starts {
		if x.done() {
			return
		}
		p := start()
		if !x.repair(&p, math.Inf(1)) {
			continue
		}
		if p, extra := x.exchange(p, x.takeBack(&p)); extra < x.extra {
			x.best, x.extra = p, extra
		}
	}
}

// eager are starts that forget, behind the border, everything at once that the
// cuts do not keep.
func (s *Solver) eager(starts []func() plan, limit int64) (all []func() plan) {
	for _, start := range starts {
		all = append(all, func() plan {
			p := start()
			s.sim.eager = make([]bool, len(s.p.Bytes))
			for v := range s.sim.eager {
				s.sim.eager[v] = s.may(int32(v)) && p.gone[v]
			}
			if s.sim.run(p, limit) {
				p.events = slices.Clone(s.sim.forgot)
			}
			s.sim.eager = nil
			return p
		})
	}
	return all
}

// starts are plans to begin with: mixtures of what the cuts keep, and that.
func (s *Solver) starts(at []bounded, limit int64) (all []func() plan) {
	for _, b := range at[:min(3, len(at))] {
		for _, sets := range [][]set{b.fine, b.sets} {
			if len(sets) == 0 {
				continue
			}
			for _, front := range []bool{true, false} {
				all = append(all, func() plan {
					less, more := s.around(b, sets, limit)
					return s.mix(b.c, less, more, front, limit)
				})
			}
		}
		for _, x := range b.fine[max(0, len(b.fine)-2):] {
			all = append(all, func() plan { return s.from(b.c, x) })
		}
		for _, x := range b.sets[max(0, len(b.sets)-3):] {
			all = append(all, func() plan { return s.from(b.c, x) })
		}
	}
	return all
}

// near are the plan that forgets nothing, and mixtures of the sets nearest to
// the room of each place, which may be over the limit elsewhere.
func (s *Solver) near(at []bounded, limit int64) (all []func() plan) {
	all = append(all, s.keep.clone)
	for _, b := range at[:min(3, len(at))] {
		less, more := b.nearest(b.sets)
		for _, front := range []bool{true, false} {
			all = append(all, func() plan { return s.mix(b.c, less, more, front, limit) })
		}
	}
	return all
}

// nearest are the largest set within the room and the smallest beyond it.
func (b bounded) nearest(sets []set) (less, more set) {
	low, high := int64(-1), int64(math.MaxInt64)
	for _, x := range sets {
		switch sum := b.bytes(x); {
		case sum <= b.room && sum > low:
			less, low = x, sum
		case sum > b.room && sum < high:
			more, high = x, sum
		}
	}
	return less, more
}

// around are the two sets nearest to the limit: one that fits everywhere, if one
// does, and the next larger. If what fits at the cut's place is over the limit
// elsewhere, the cut is made for less room.
func (s *Solver) around(b bounded, sets []set, limit int64) (less, more set) {
	room := b.room
	for range 4 {
		sorted := slices.Clone(sets)
		slices.SortStableFunc(sorted, func(x, y set) int { return cmp.Compare(b.bytes(y), b.bytes(x)) })
		over := int64(0)
		for i, x := range sorted {
			less = x
			if more = x; i > 0 {
				more = sorted[i-1]
			}
			if b.bytes(x) > room || !s.sim.run(s.from(b.c, x), limit) {
				continue
			}
			if s.sim.peak <= limit {
				return less, more
			}
			if over == 0 {
				over = s.sim.peak - limit
			}
		}
		if room -= over; over == 0 || room < 0 {
			break
		}
		_, lower, ok := b.c.best(b.c.bytes, float64(room))
		s.count(b.c)
		if !ok || lower == nil {
			break
		}
		sets = lower
	}
	return less, more
}

// mix keeps what more does of the values made before some place (front) or
// behind it, and what less does of the others; as many as the limit lets. Equal
// layers that a price takes all or none of are divided so.
func (s *Solver) mix(c *cut, less, more set, front bool, limit int64) plan {
	order := make([]int32, len(c.values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if !front {
			a, b = b, a
		}
		return cmp.Or(cmp.Compare(s.spans[c.values[a]].made, s.spans[c.values[b]].made), cmp.Compare(a, b))
	})
	kept := slices.Clone(less.kept)
	first := func(n int) plan {
		copy(kept, less.kept)
		for _, i := range order[:n] {
			kept[i] = more.kept[i]
		}
		return s.from(c, set{kept: kept})
	}
	from, to := 0, len(order)+1
	for from+1 < to {
		m := (from + to) / 2
		if s.sim.run(first(m), limit) && s.sim.peak <= limit {
			from = m
		} else {
			to = m
		}
	}
	return first(from)
}

// from is the plan that has at the border what a cut keeps.
func (s *Solver) from(c *cut, x set) plan {
	p := s.keep.clone()
	for i, v := range c.values {
		if s.may(v) && s.spans[v].made < s.p.Border {
			p.gone[v] = !x.kept[i] || s.forced(v)
		}
	}
	return p
}

// may reports whether a plan may forget a value.
func (s *Solver) may(v int32) bool {
	m := s.sim.maker[v]
	return m >= 0 && s.p.Again[m] && !s.p.Held[v]
}

func (s *Solver) forced(v int32) bool { return s.p.Forced != nil && s.p.Forced[v] }

func (s *Solver) answer(p plan, bound float64) Answer {
	s.sim.run(p, math.MaxInt64)
	return Answer{slices.Clone(s.sim.ops[:s.sim.launches]), s.sim.peak, s.sim.extra, bound}
}
