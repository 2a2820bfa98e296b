package recompute

import (
	"cmp"
	"math"
	"math/bits"
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
	*terrain

	there   bitset  // of values
	pinned  []int32 // by value: pending launches that read it
	touched []int32 // by value: the last place that did
	sum     int64   // bytes there that may be forgotten
	fixed   int64   // other bytes alive at the place, and what its operator needs
	place   int32
	passed  int32     // how many of makes ran first by now
	next    []int32   // by value: how many of its readers were passed
	need    []int32   // by value: the next place that wants it there
	wanted  []float64 // by value: how many values are made from it, and it
	unasked bitset    // values of which these two are not known any more
	again   []float64 // by value: cost of making it from what is there
	stale   bitset    // values of which this is not known any more
	most    int       // launches left
	stays   []int32   // by value: the place up to which it is not forgotten, or nil
}

// terrain is what evictors look at, over and over, whatever they aim at: the
// operators that make values that may be forgotten, and nothing of other values.
type terrain struct {
	makes  []int32 // what makes such values, in order
	ins    Lists   // by one of makes
	outs   Lists
	madeBy []int32 // by value: which of makes, −1
	users  Lists   // by value: which of makes read it
	across []int64 // by operator: bytes of other values while it is the next to run first
}

func (s *Solver) terrain() *terrain {
	if s.land != nil {
		return s.land
	}
	t := &terrain{across: s.across(), madeBy: make([]int32, len(s.p.Bytes))}
	for v := range t.madeBy {
		t.madeBy[v] = -1
	}
	held := func(v int32) bool { return !s.may(v) }
	for op := range int32(len(s.p.Cost)) {
		outs := slices.DeleteFunc(slices.Clone(s.p.Outputs.Of(op)), held)
		for _, v := range outs {
			t.madeBy[v] = int32(len(t.makes))
		}
		if len(outs) > 0 {
			t.makes = append(t.makes, op)
			t.outs.Add(outs...)
			t.ins.Add(slices.DeleteFunc(slices.Clone(s.p.Inputs.Of(op)), held)...)
		}
	}
	t.users.rebuild(len(s.p.Bytes), func(put func(list, item int32)) {
		for i := range int32(len(t.makes)) {
			for _, v := range t.ins.Of(i) {
				put(v, i)
			}
		}
	})
	s.land = t
	return t
}

// weighing says how much the parts of a value's worth count, as powers: the cost
// of making it again, its bytes, how far its next reader is, and how many values
// that are not there it is wanted for.
type weighing struct{ cost, bytes, far, wanted float64 }

var weighings = []weighing{{1, 1, 1, 0}, {1, 1, 1, 1}, {0.5, 1, 1, 0}, {1, 1, 0.5, 0}, {0.5, 1, 1, 1}, {1, 1, 2, 1}, {0, 0, 1, 0}, {1, 1, 0.5, 1}}

// found is a plan, and what it costs.
type found struct {
	p     plan
	extra float64
	fits  bool // it is within the limit
}

// evicted are plans that one way of evictors finds, and what the cheapest costs of
// those that fit.
func (s *Solver) evicted(limit int64, most float64, launches int, w weighing, stays []int32) (plans []found, least float64) {
	aim := limit
	least = math.Inf(1)
	for range aims {
		e := s.newEvictor(aim, w, s.terrain())
		if e.stays, e.most = stays, launches; !e.run() || !s.sim.run(e.p, limit) {
			break
		}
		// The walk knows roughly what is alive; what it leaves free is for another.
		aim += limit - s.sim.peak
		f := found{e.p, s.sim.extra, s.sim.peak <= limit}
		if f.fits && f.extra >= least {
			break
		}
		if plans = append(plans, f); !f.fits {
			continue
		}
		if least = f.extra; least <= most || aim-limit < limit/64 {
			break
		}
	}
	return plans, least
}

// evictions are plans of evictors and those of segments, cheapest first, as many as
// some work allows, or up to one that costs at most so much. In each of some cases,
// values stay up to a place of theirs. Every weighing is tried in the first, and in
// the others that which was cheapest there.
func (s *Solver) evictions(limit, work int64, most float64, cases [][]int32) (all []func() plan) {
	var plans []found
	walk := func(w weighing, stays []int32) float64 {
		more, least := s.evicted(limit, most, s.sim.most, w, stays)
		for _, f := range more {
			if f.fits {
				plans = append(plans, f)
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
	if least > most {
		for _, p := range s.segments(limit) {
			if s.sim.run(p, limit) {
				plans = append(plans, found{p, s.sim.extra, s.sim.peak <= limit})
			}
		}
	}
	slices.SortStableFunc(plans, func(a, b found) int { return cmp.Compare(a.extra, b.extra) })
	plans = slices.CompactFunc(plans, func(a, b found) bool { return a.extra == b.extra })
	for _, f := range plans {
		if all = append(all, f.p.clone); f.fits && f.extra <= most {
			break
		}
	}
	return all
}

// aims is how many limits an evictor aims at.
const aims = 4

func (s *Solver) newEvictor(limit int64, w weighing, t *terrain) *evictor {
	n := len(s.p.Bytes)
	e := &evictor{s: s, limit: limit, w: w, terrain: t, p: plan{gone: make([]bool, n)}, there: newBitset(n), pinned: make([]int32, n), touched: make([]int32, n), next: make([]int32, n),
		need: make([]int32, n), wanted: make([]float64, n), unasked: newBitset(n), again: make([]float64, n), stale: newBitset(n), most: s.sim.most}
	copy(e.p.gone, s.p.Forced)
	for v := range int32(n) {
		e.unasked.add(v)
		e.stale.add(v)
	}
	return e
}

const never = math.MaxInt32

func (e *evictor) run() bool {
	for op := range int32(len(e.s.p.Cost)) {
		if e.enter(op); !e.walk(op, true) {
			return false
		}
	}
	return true
}

// enter goes on to a place.
func (e *evictor) enter(op int32) {
	e.place, e.fixed = op, e.across[op]
	for _, v := range e.s.p.Inputs.Of(op) {
		if e.next[v]++; e.s.may(v) {
			e.unask(v)
		}
	}
	if int(e.passed) < len(e.makes) && e.makes[e.passed] == op {
		for _, v := range e.ins.Of(e.passed) {
			e.unask(v)
		}
		e.passed++
	}
}

// turn notes that a value is there now, or no longer is: what it is made from is
// wanted for others, and what is made from it costs something else.
func (e *evictor) turn(v int32) {
	for _, u := range e.ins.Of(e.madeBy[v]) {
		e.unask(u)
	}
	e.reprice(v)
}

// unask has it asked anew what wants a value, and what that is made from.
func (e *evictor) unask(v int32) {
	if e.unasked.has(v) {
		return
	}
	if e.unasked.add(v); e.there.has(v) {
		return
	}
	for _, u := range e.ins.Of(e.madeBy[v]) {
		e.unask(u)
	}
}

// reprice has it worked out anew what it costs to make what is made from a value.
func (e *evictor) reprice(v int32) {
	for _, i := range e.users.Of(v) {
		outs := e.outs.Of(i)
		if e.stale.has(outs[0]) {
			continue
		}
		for _, u := range outs {
			e.stale.add(u)
		}
		for _, u := range outs {
			if !e.there.has(u) {
				e.reprice(u)
			}
		}
	}
}

// ask finds out what wants a value.
func (e *evictor) ask(v int32) {
	if !e.unasked.has(v) {
		return
	}
	e.unasked.remove(v)
	e.need[v], e.wanted[v] = never, 0
	if ops := e.s.uses.Of(v); int(e.next[v]) < len(ops) {
		e.need[v], e.wanted[v] = ops[e.next[v]], 1
	}
	for _, i := range slices.Backward(e.users.Of(v)) {
		if i >= e.passed {
			continue
		}
		wanted := 0.0
		for _, u := range e.outs.Of(i) {
			if !e.there.has(u) {
				e.ask(u)
				e.need[v] = min(e.need[v], e.need[u])
				wanted += e.wanted[u]
			}
		}
		e.wanted[v] += wanted
	}
}

// price works out what it costs to run one of makes again.
func (e *evictor) price(i int32) {
	outs := e.outs.Of(i)
	if !e.stale.has(outs[0]) {
		return
	}
	c := e.s.p.Cost[e.makes[i]]
	for _, v := range e.ins.Of(i) {
		if !e.there.has(v) {
			e.price(e.madeBy[v])
			c += e.again[v]
		}
	}
	for _, v := range outs {
		e.again[v] = c
		e.stale.remove(v)
	}
}

// walk runs an operator, after what it wants.
func (e *evictor) walk(op int32, first bool) bool {
	ins := e.s.p.Inputs.Of(op)
	for _, v := range ins {
		e.pinned[v]++
	}
	for _, v := range ins {
		if !e.there.has(v) && e.s.may(v) && !e.walk(e.s.sim.maker[v], false) {
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
		if !e.there.has(v) && (first || e.s.may(v)) || !first && !e.s.may(v) {
			room -= prob.Bytes[v]
		}
	}
	for _, v := range prob.Inputs.Of(op) {
		e.touched[v] = e.place
	}
	if e.sum > room {
		e.s.sim.work += e.long()
		e.look()
		e.tidy()
		if e.over(op) {
			room += prob.Bytes[outs[0]]
		}
		for e.sum > room {
			if !e.forget() {
				return false
			}
			if e.sum > room {
				e.look()
			}
		}
	}
	for _, v := range outs {
		e.touched[v] = e.place
		if e.s.may(v) && !e.there.has(v) {
			e.there.add(v)
			e.sum += prob.Bytes[v]
			e.turn(v)
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

// look finds out when what is there is wanted, and what it would cost again, where
// that is not known.
func (e *evictor) look() {
	for w, there := range e.there {
		for rest := there & (e.unasked[w] | e.stale[w]); rest != 0; rest &= rest - 1 {
			v := int32(w<<6 + bits.TrailingZeros64(rest))
			e.ask(v)
			e.price(e.madeBy[v])
		}
	}
}

// long is the work that going through all values takes, in launches.
func (e *evictor) long() int64 { return int64(len(e.need)) / 2 }

// tidy forgets what is not wanted any more.
func (e *evictor) tidy() {
	for v := range e.there.each {
		if e.need[v] == never && e.pinned[v] == 0 {
			e.drop(v)
		}
	}
}

// forget forgets what is worth least. It reports false if nothing may go.
func (e *evictor) forget() bool {
	prob := e.s.p
	best, least := int32(-1), math.Inf(1)
	for v := range e.there.each {
		if e.pinned[v] > 0 || prob.Bytes[v] == 0 || e.stays != nil && e.place < e.stays[v] {
			continue
		}
		worth := power(e.again[v]+e.s.unit, e.w.cost) * power(max(e.wanted[v], 1), e.w.wanted) / power(float64(prob.Bytes[v]), e.w.bytes) / power(float64(e.need[v]-e.place), e.w.far)
		if worth < least {
			best, least = v, worth
		}
	}
	if best < 0 {
		return false
	}
	e.s.sim.work += e.long()
	e.drop(best)
	return true
}

// power is math.Pow, at once for the powers that weighings have.
func power(x, y float64) float64 {
	switch y {
	case 0:
		return 1
	case 0.5:
		return math.Sqrt(x)
	case 1:
		return x
	case 2:
		return x * x
	}
	return math.Pow(x, y)
}

// drop forgets a value after what touched it last.
func (e *evictor) drop(v int32) {
	e.there.remove(v)
	e.sum -= e.s.p.Bytes[v]
	e.turn(v)
	at := e.touched[v] + 1
	if at <= e.s.p.Border && e.readFrom(v, at) >= e.s.p.Border {
		e.p.gone[v] = true
	} else if i, known := e.p.search(event{at, v}); !known {
		e.p.events = slices.Insert(e.p.events, i, event{at, v})
	}
}

// readFrom is the first operator from a place on that reads a value.
func (e *evictor) readFrom(v, at int32) int32 {
	ops := e.s.uses.Of(v)
	if i, _ := slices.BinarySearch(ops, at); i < len(ops) {
		return ops[i]
	}
	return never
}
