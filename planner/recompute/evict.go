package recompute

import (
	"cmp"
	"math"
	"slices"
)

// evictor walks the order once with a limit of bytes. Where something does not
// fit, it forgets what is cheap to make again for its bytes and not read for
// long. Plans so made are seldom the cheapest, but there is one close to the
// floor too, where what cuts keep at some places does not fit at others.
type evictor struct {
	s     *Solver
	limit int64
	w     weighing
	p     plan
	terrain

	there   []bool  // by value
	pinned  []int32 // by value: pending launches that read it
	touched []int32 // by value: the last place that did
	sum     int64   // bytes there that may be forgotten
	fixed   int64   // other bytes alive at the place, and what its operator needs
	place   int32
	need    []int32   // by value: the next place that wants it there
	again   []float64 // by value: cost of making it from what is there
	wanted  []float64 // by value: how many values are made from it, and it
	next    []int32   // by value: how many of its readers were passed
	more    []float64 // by value: what missed still has to add to wanted of what makes it
	asked   []bool    // by value: whether it has to
	dear    int       // the first of makes that lost an input since prices were said
	most    int       // launches left
	stays   []int32   // by value: the place up to which it is not forgotten, or nil
}

// terrain is what evictors look at, over and over, whatever they aim at.
type terrain struct {
	loose  []int32 // the values that may be forgotten
	makes  []maker // what makes those, in order
	across []int64 // by operator: bytes of the other values while it is the next to run first
}

// maker is an operator that may run again, with those of its values that may be
// forgotten.
type maker struct {
	op        int32
	cost      float64
	ins, outs []int32
}

func (s *Solver) terrain() terrain {
	t := terrain{across: s.across()}
	for v, is := range s.loose {
		if is {
			t.loose = append(t.loose, int32(v))
		}
	}
	held := func(v int32) bool { return !s.may(v) }
	for op, again := range s.p.Again {
		if again {
			op := int32(op)
			t.makes = append(t.makes, maker{op, s.p.Cost[op], slices.DeleteFunc(slices.Clone(s.p.Inputs.Of(op)), held), slices.DeleteFunc(slices.Clone(s.p.Outputs.Of(op)), held)})
		}
	}
	return t
}

// weighing says how much the parts of a value's worth count, as powers: the cost
// of making it again, its bytes, how far its next reader is, and how many values
// that are not there it is wanted for.
type weighing struct{ cost, bytes, far, wanted float64 }

var weighings = []weighing{{1, 1, 1, 0}, {1, 1, 1, 1}, {0.5, 1, 1, 0}, {1, 1, 0.5, 0}, {0.5, 1, 1, 1}, {1, 1, 2, 1}, {0, 0, 1, 0}, {1, 1, 0.5, 1}}

// evictions are plans of evictors, cheapest first, as many as some work allows,
// or up to one that costs at most so much. In each of some cases, values stay up to
// a place of theirs. Every weighing is tried in the first, and in the others that
// which was cheapest there.
func (s *Solver) evictions(limit, work int64, most float64, cases [][]int32) (all []func() plan) {
	type found struct {
		p     plan
		extra float64
	}
	var plans []found
	terrain := s.terrain()
	// walk is what the cheapest plan costs that one way finds.
	walk := func(w weighing, stays []int32) (least float64) {
		aim := limit
		least = math.Inf(1)
		for range aims {
			e := s.newEvictor(aim, w, terrain)
			if e.stays = stays; !e.run() || !s.sim.run(e.p, limit) {
				break
			}
			// The walk knows roughly what is alive; what it leaves free is for another.
			aim += limit - s.sim.peak
			if s.sim.peak > limit {
				continue
			}
			if s.sim.extra >= least {
				break
			}
			least = s.sim.extra
			plans = append(plans, found{e.p, least})
			if least <= most || aim-limit < limit/64 {
				break
			}
		}
		return least
	}
	until, least := s.sim.work+work, math.Inf(1)
	ways, best := weighings, weighings[0]
	for i, stays := range cases {
		for _, w := range ways {
			if s.sim.work > until || least <= most {
				break
			}
			if cost := walk(w, stays); cost < least {
				least, best = cost, w
			}
		}
		if i == 0 {
			ways, until = []weighing{best}, s.sim.work+work/2
		}
	}
	slices.SortStableFunc(plans, func(a, b found) int { return cmp.Compare(a.extra, b.extra) })
	plans = slices.CompactFunc(plans, func(a, b found) bool { return a.extra == b.extra })
	for _, f := range plans {
		if all = append(all, f.p.clone); f.extra <= most {
			break
		}
	}
	return all
}

// aims is how many limits an evictor aims at.
const aims = 4

func (s *Solver) newEvictor(limit int64, w weighing, t terrain) *evictor {
	n := len(s.p.Bytes)
	e := &evictor{s: s, limit: limit, w: w, terrain: t, p: plan{gone: make([]bool, n)}, there: make([]bool, n), pinned: make([]int32, n), touched: make([]int32, n),
		need: make([]int32, n), again: make([]float64, n), wanted: make([]float64, n), next: make([]int32, n), more: make([]float64, n), asked: make([]bool, n), most: s.sim.most}
	copy(e.p.gone, s.p.Forced)
	return e
}

const never = math.MaxInt32

func (e *evictor) run() bool {
	for op := range int32(len(e.s.p.Cost)) {
		if e.place, e.fixed = op, e.across[op]; !e.walk(op, true) {
			return false
		}
	}
	return true
}

// walk runs an operator, after what it wants.
func (e *evictor) walk(op int32, first bool) bool {
	ins := e.s.p.Inputs.Of(op)
	for _, v := range ins {
		e.pinned[v]++
	}
	for _, v := range ins {
		if !e.there[v] && e.s.may(v) && !e.walk(e.s.sim.maker[v], false) {
			return false
		}
	}
	ok := e.launch(op, first)
	for _, v := range ins {
		e.pinned[v]--
	}
	return ok
}

// across is, by operator, the bytes of what may not be forgotten while it is
// the next to run first.
func (s *Solver) across() []int64 {
	sum := make([]int64, len(s.p.Cost)+1)
	for v, x := range s.spans {
		if s.sim.maker[v] >= 0 && !s.may(int32(v)) && x.made < x.last {
			sum[x.made+1] += s.p.Bytes[v]
			if int(x.last)+1 < len(sum) {
				sum[x.last+1] -= s.p.Bytes[v]
			}
		}
	}
	for op := 1; op < len(sum); op++ {
		sum[op] += sum[op-1]
	}
	return sum
}

// launch runs an operator when there is room for what it writes.
func (e *evictor) launch(op int32, first bool) bool {
	prob := e.s.p
	if e.most--; e.most < 0 {
		return false
	}
	room := e.limit - e.fixed - prob.Work[op]
	outs := prob.Outputs.Of(op)
	for _, v := range outs {
		if !e.there[v] && (first || e.s.may(v)) || !first && !e.s.may(v) {
			room -= prob.Bytes[v]
		}
	}
	for _, v := range prob.Inputs.Of(op) {
		e.touched[v] = e.place
	}
	if e.sum > room {
		e.look()
		if e.over(op) {
			room += prob.Bytes[outs[0]]
		}
		for e.sum > room {
			if !e.forget() {
				return false
			}
		}
	}
	for _, v := range outs {
		e.touched[v] = e.place
		if e.s.may(v) && !e.there[v] {
			e.there[v] = true
			e.sum += prob.Bytes[v]
		}
	}
	return true
}

// over reports whether what an operator writes may lie over an input that nobody
// wants any more.
func (e *evictor) over(op int32) bool {
	return slices.ContainsFunc(e.s.p.Over.Of(op), func(v int32) bool {
		if e.s.may(v) {
			return e.need[v] == never && e.pinned[v] <= 1
		}
		return e.s.spans[v].last == e.place
	})
}

// look finds out what is wanted when, and what it would cost again.
func (e *evictor) look() {
	s := e.s
	s.sim.work += int64(len(e.need)) / 2
	for _, v := range e.loose {
		ops, k := s.uses.Of(v), e.next[v]
		for int(k) < len(ops) && ops[k] < e.place {
			k++
		}
		e.next[v] = k
		if int(k) < len(ops) && ops[k] == e.place {
			k++
		}
		if e.need[v], e.wanted[v] = never, 0; int(k) < len(ops) {
			e.need[v], e.wanted[v] = ops[k], 1
		}
	}
	makes := e.makes
	for len(makes) > 0 && makes[len(makes)-1].op > e.place {
		makes = makes[:len(makes)-1]
	}
	for i := range makes {
		m := &makes[len(makes)-1-i]
		want, wanted := int32(never), 0.0
		for _, v := range m.outs {
			if !e.there[v] {
				want = min(want, e.need[v])
				wanted += e.wanted[v]
			}
		}
		if want < never {
			for _, v := range m.ins {
				e.need[v] = min(e.need[v], want)
				e.wanted[v] += wanted
			}
		}
	}
	e.price(makes)
	e.dear = len(makes)
	for _, v := range e.loose {
		if e.there[v] && e.need[v] == never && e.pinned[v] == 0 {
			e.drop(v)
			e.dear = min(e.dear, e.makerOf(v)+1)
		}
	}
}

// makerOf is which of makes makes a value.
func (e *evictor) makerOf(v int32) int {
	i, _ := slices.BinarySearchFunc(e.makes, e.s.sim.maker[v], func(m maker, op int32) int { return cmp.Compare(m.op, op) })
	return i
}

// forget forgets what is worth least. It reports false if nothing may go.
func (e *evictor) forget() bool {
	prob := e.s.p
	best, least := int32(-1), math.Inf(1)
	for _, v := range e.loose {
		if !e.there[v] || e.pinned[v] > 0 || prob.Bytes[v] == 0 || e.stays != nil && e.place < e.stays[v] {
			continue
		}
		worth := math.Pow(e.again[v]+e.s.unit, e.w.cost) * math.Pow(max(e.wanted[v], 1), e.w.wanted) / math.Pow(float64(prob.Bytes[v]), e.w.bytes) / math.Pow(float64(e.need[v]-e.place), e.w.far)
		if worth < least {
			best, least = v, worth
		}
	}
	if best < 0 {
		return false
	}
	e.drop(best)
	e.missed(best)
	return true
}

// missed is look for a value that has just been forgotten: more is wanted of
// what it is made from, and what is made from it costs more.
func (e *evictor) missed(v int32) {
	e.s.sim.work += int64(len(e.need)) / 2
	at := e.makerOf(v)
	e.more[v], e.asked[v] = e.wanted[v], true
	open := 1 // values of which more is wanted, and whose makers are still to come
	for i := at; i >= 0 && open > 0; i-- {
		m := &e.makes[i]
		want, more := int32(never), 0.0
		for _, u := range m.outs {
			if e.asked[u] {
				want, more = min(want, e.need[u]), more+e.more[u]
				e.asked[u], e.more[u] = false, 0
				open--
			}
		}
		if want == never {
			continue
		}
		for _, u := range m.ins {
			e.need[u] = min(e.need[u], want)
			e.wanted[u] += more
			if e.there[u] {
				continue
			}
			if e.more[u] += more; !e.asked[u] {
				e.asked[u] = true
				open++
			}
		}
	}
	e.price(e.makes[min(at+1, e.dear):])
	e.dear = len(e.makes)
}

// price says what values cost again that some operators make, as far as the walk
// has come.
func (e *evictor) price(makes []maker) {
	for i := range makes {
		m := &makes[i]
		if m.op > e.place {
			return
		}
		c := m.cost
		for _, v := range m.ins {
			if !e.there[v] {
				c += e.again[v]
			}
		}
		for _, v := range m.outs {
			e.again[v] = c
		}
	}
}

// drop forgets a value after what touched it last.
func (e *evictor) drop(v int32) {
	e.there[v] = false
	e.sum -= e.s.p.Bytes[v]
	at := e.touched[v] + 1
	if at <= e.s.p.Border && e.reader(v, at) >= e.s.p.Border {
		e.p.gone[v] = true
	} else if i, known := e.p.search(event{at, v}); !known {
		e.p.events = slices.Insert(e.p.events, i, event{at, v})
	}
}

// reader is the first operator from a place on that reads a value.
func (e *evictor) reader(v, at int32) int32 {
	ops := e.s.uses.Of(v)
	if i, _ := slices.BinarySearch(ops, at); i < len(ops) {
		return ops[i]
	}
	return never
}
