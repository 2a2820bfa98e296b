package recompute

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// evictor is online eviction, as in dynamic tensor rematerialization: it walks the order once
// with a limit of bytes, and where something does not fit it forgets the value that is worth
// least: cheap to make again for its bytes, and not read for long. Such plans are seldom the
// cheapest, but there is one close to the floor too, where what a cut keeps for one place does
// not fit at others.
type evictor struct {
	s     *Solver
	limit int64
	w     weighing
	p     plan
	*dependencies

	of       []parcel // by value
	unneeded []int32  // what was found to be wanted no more, and was not forgotten yet
	there    bitset   // of values
	open     bitset   // of those, what is unasked or stale
	sum      int64    // bytes there that may be forgotten
	fixed    int64    // other bytes alive at the place, and what its operator needs
	place    int32
	most     int // launches left that run something again
}

// parcel is what an evictor knows of a value.
type parcel struct {
	again   float64 // cost of making it from what is there
	wanted  float64 // how many values are made from it, and it
	worth   float64 // what both say of it, for its bytes; how far off it is wanted counts beside that
	need    int32   // the next place that wants it there
	next    int32   // how many of its readers were passed
	pinned  int32   // pending launches that read it
	touched int32   // the last place that did
	stay            // the places at which it is not forgotten
	there   bool
	unasked bool // need and wanted are not known any more
	stale   bool // nor is what it costs
}

// stay is from which place up to which something is not forgotten.
type stay struct{ from, to int32 }

// stays is by value; nil is that any may be forgotten.
type stays []stay

// dependencies is what evictors look at, over and over, whatever they aim at: how values
// that may be forgotten hang together, and nothing of other values. It stands in one row
// (indices are quicker than slices of so few).
type dependencies struct {
	ties   []ties  // by value
	ends   []int32 // what those tell
	across []int64 // by operator: bytes of other values while it is the next to run first
}

// ties are where, among the ends, the values stand that a value is made from, those that
// are made from it, as their makers come, and the operators that read it.
type ties struct {
	cost                  float64 // of its maker
	ins, outs, reads, end int32
	maker                 int32
}

func (s *Solver) dependencies() *dependencies {
	if s.deps != nil {
		return s.deps
	}
	p := s.p
	t := &dependencies{ties: make([]ties, len(p.Bytes)), across: s.across()}
	add := func(values []int32) {
		for _, v := range values {
			if s.may(v) {
				t.ends = append(t.ends, v)
			}
		}
	}
	for v := range t.ties {
		l := &t.ties[v]
		if l.maker = s.sim.maker[v]; !s.may(int32(v)) {
			continue
		}
		l.cost = p.Cost[l.maker]
		l.ins = int32(len(t.ends))
		add(p.Inputs.Of(l.maker))
		l.outs = int32(len(t.ends))
		for _, op := range s.uses.Of(int32(v)) {
			add(p.Outputs.Of(op))
		}
		l.reads = int32(len(t.ends))
		t.ends = append(t.ends, s.uses.Of(int32(v))...)
		l.end = int32(len(t.ends))
	}
	s.deps = t
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

// evictBy are plans that one way of evictors finds, and what the cheapest costs of
// those that fit.
func (s *Solver) evictBy(limit int64, most float64, launches int, w weighing, stays stays) (plans []found, least float64) {
	aim := limit
	least = math.Inf(1)
	for range aims {
		e := s.newEvictor(aim, w, stays)
		if e.most = launches - len(s.p.Cost); !e.run() || !s.sim.run(e.p, limit) {
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

// evictPlans are plans of evictors, cheapest first, as many as some work allows, or up to one
// that costs at most so much. Behind what all weighings lead to comes what is kept of a chain,
// if that costs clearly less. Where there is no plan yet, one that fits comes before all: to
// repair what is cheaper may take all work there is, and come to nothing.
func (s *Solver) evictPlans(limit, work int64, most float64, cases []stays, none bool) (all []func() plan) {
	var plans []found
	until, least, below := s.sim.work+work, math.Inf(1), math.Inf(1)
	best := weighings[0]
	walk := func(ways []weighing, kept stays) (fits bool) {
		for _, w := range ways {
			if s.sim.work > until || least <= most {
				break
			}
			more, cost := s.evictBy(limit, most, s.sim.most, w, kept)
			for _, f := range more {
				if f.fits && f.extra < below {
					plans = append(plans, f)
				}
			}
			if cost < least {
				best = w
			}
			least, fits = min(least, cost), fits || !math.IsInf(cost, 1)
		}
		return fits
	}
	walk(weighings, nil)
	until = s.sim.work + work/2
	for way := []weighing{best}; len(cases) > 0; cases = cases[1:] {
		walk(way, cases[0])
	}
	until, below = math.MaxInt64, least*chainBelow
	s.withCheckpoints(walk)
	plans = cheapestFirst(plans)
	if k := slices.IndexFunc(plans, func(f found) bool { return f.fits }); none && k > 0 {
		fits := plans[k]
		copy(plans[1:], plans[:k])
		plans[0] = fits
	}
	for _, f := range plans {
		if all = append(all, f.p.clone); f.fits && f.extra <= most {
			break
		}
	}
	return all
}

// cheapestFirst sorts plans by cost, and leaves one of each.
func cheapestFirst(plans []found) []found {
	slices.SortStableFunc(plans, func(a, b found) int { return cmp.Compare(a.extra, b.extra) })
	return slices.CompactFunc(plans, func(a, b found) bool { return a.extra == b.extra })
}

// aims is how many limits an evictor aims at.
const aims = 4

// newEvictor is one that aims at a limit. Some values stay, or stays is nil.
func (s *Solver) newEvictor(limit int64, w weighing, stays stays) *evictor {
	n := len(s.p.Bytes)
	e := &evictor{s: s, limit: limit, w: w, dependencies: s.dependencies(), p: plan{gone: make([]bool, n)},
		of: make([]parcel, n), there: newBitset(n), open: newBitset(n), most: s.sim.most}
	copy(e.p.gone, s.p.Forced)
	for v := range e.of {
		e.of[v].unasked, e.of[v].stale = true, true
	}
	for v, x := range stays {
		e.of[v].stay = x
	}
	return e
}

const never = math.MaxInt32

func (e *evictor) run() bool {
	for op := range int32(len(e.s.p.Cost)) {
		e.s.p.poll()
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
		if e.of[v].next++; e.s.may(v) {
			e.unask(v)
		}
	}
}

// turn notes that a value is there now, or no longer is: what it is made from is
// wanted for others, and what is made from it costs something else.
func (e *evictor) turn(v int32) {
	l := &e.ties[v]
	for _, u := range e.ends[l.ins:l.outs] {
		e.unask(u)
	}
	e.reprice(v)
}

// unask has it asked anew what wants a value, and what that is made from.
func (e *evictor) unask(v int32) {
	x := &e.of[v]
	if x.unasked {
		return
	}
	if x.unasked = true; x.there {
		e.open.add(v)
		return
	}
	l := &e.ties[v]
	for _, u := range e.ends[l.ins:l.outs] {
		e.unask(u)
	}
}

// reprice has it worked out anew what it costs to make what is made from a value.
func (e *evictor) reprice(v int32) {
	l := &e.ties[v]
	for _, u := range e.ends[l.outs:l.reads] {
		x := &e.of[u]
		if x.stale {
			continue
		}
		if x.stale = true; x.there {
			e.open.add(u)
		} else {
			e.reprice(u)
		}
	}
}

// ask finds out what wants a value.
func (e *evictor) ask(v int32) {
	x, l, need, wanted := &e.of[v], &e.ties[v], int32(never), 0.0
	if i := l.reads + x.next; i < l.end {
		need, wanted = e.ends[i], 1
	}
	for _, u := range e.ends[l.outs:l.reads] {
		if e.ties[u].maker > e.place {
			break // nor did any of the others run yet
		}
		if y := &e.of[u]; !y.there {
			if y.unasked {
				e.ask(u)
			}
			need = min(need, y.need)
			wanted += y.wanted
		}
	}
	x.need, x.wanted, x.unasked = need, wanted, false
}

// price works out what it costs to make a value again.
func (e *evictor) price(v int32) {
	l := &e.ties[v]
	c := l.cost
	for _, u := range e.ends[l.ins:l.outs] {
		if y := &e.of[u]; !y.there {
			if y.stale {
				e.price(u)
			}
			c += y.again
		}
	}
	x := &e.of[v]
	x.again, x.stale = c, false
}

// weigh works out what a value is worth, as far as that does not depend on the place.
func (e *evictor) weigh(v int32) {
	x := &e.of[v]
	if e.s.p.Bytes[v] == 0 {
		x.worth = math.Inf(1) // it is of no use to forget it
		return
	}
	x.worth = power(x.again+e.s.unit, e.w.cost) * power(max(x.wanted, 1), e.w.wanted) / power(float64(e.s.p.Bytes[v]), e.w.bytes)
}

// walk runs an operator, after what it wants.
func (e *evictor) walk(op int32, first bool) bool {
	ins := e.s.p.Inputs.Of(op)
	for _, v := range ins {
		e.of[v].pinned++
	}
	for _, v := range ins {
		if !e.of[v].there && e.s.may(v) && !e.walk(e.s.sim.maker[v], false) {
			return false
		}
	}
	ok := e.launch(op, first)
	for _, v := range ins {
		e.of[v].pinned--
	}
	return ok
}

// across is, by operator, the bytes of what no plan ever forgets while it is
// the next to run first.
func (s *Solver) across() []int64 {
	sum := make([]int64, len(s.p.Cost)+1)
	for v, x := range s.spans {
		to := max(x.last+1, s.p.until(int32(v)))
		if s.sim.maker[v] >= 0 && !s.may(int32(v)) && x.made+1 < to {
			sum[x.made+1] += s.p.Bytes[v]
			if int(to) < len(sum) {
				sum[to] -= s.p.Bytes[v]
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
	if !first {
		if e.most--; e.most < 0 {
			return false
		}
	}
	room := e.limit - e.fixed - prob.Work[op]
	outs := prob.Outputs.Of(op)
	for _, v := range outs {
		if !e.of[v].there && (first || e.s.may(v)) || !first && !e.s.may(v) {
			room -= prob.Bytes[v]
		}
	}
	for _, v := range prob.Inputs.Of(op) {
		e.of[v].touched = e.place
	}
	if e.sum > room {
		e.s.sim.work += e.long()
		e.look()
		e.tidy()
		if e.over(op) {
			room += prob.Bytes[outs[0]]
		}
		for e.sum > room {
			if !e.forget() && !e.overwrite(op) {
				return false
			}
			if e.sum > room {
				e.look()
			}
		}
	}
	for _, v := range outs {
		x := &e.of[v]
		x.touched = e.place
		if e.s.may(v) && !x.there {
			x.there = true
			e.there.add(v)
			e.sum += prob.Bytes[v]
			if x.unasked || x.stale {
				e.open.add(v)
			} else {
				e.known(v)
			}
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
			return e.of[v].need == never && e.of[v].pinned <= 1
		}
		return e.s.spans[v].last == e.place
	})
}

// overwrite forgets an input that an operator may write over, though it is wanted again. It
// reports false if there is none.
func (e *evictor) overwrite(op int32) bool {
	for _, v := range e.s.p.Over.Of(op) {
		if x := &e.of[v]; x.there && x.pinned == 1 && !e.stays(v) {
			e.drop(v)
			return true
		}
	}
	return false
}

// look finds out when what is there is wanted, and what it would cost again, where
// that is not known.
func (e *evictor) look() {
	for w, rest := range e.open {
		if rest == 0 {
			continue
		}
		e.open[w] = 0
		for ; rest != 0; rest &= rest - 1 {
			v := int32(w<<6 + bits.TrailingZeros64(rest))
			if e.of[v].unasked {
				e.ask(v)
			}
			if e.of[v].stale {
				e.price(v)
			}
			e.known(v)
		}
	}
}

// known takes in what is known of a value that is there.
func (e *evictor) known(v int32) {
	if e.of[v].need == never {
		e.unneeded = append(e.unneeded, v)
	}
	e.weigh(v)
}

// long is the work that going through all values takes, in launches.
func (e *evictor) long() int64 { return int64(len(e.of)) / 2 }

// tidy forgets what is not wanted any more.
func (e *evictor) tidy() {
	pinned := e.unneeded[:0]
	for _, v := range e.unneeded {
		switch x := &e.of[v]; {
		case !x.there || x.need != never:
		case x.pinned > 0 || e.place < e.s.p.until(v):
			pinned = append(pinned, v)
		default:
			e.drop(v)
		}
	}
	e.unneeded = pinned
}

// forget forgets what is worth least. It reports false if nothing may go.
func (e *evictor) forget() bool {
	best, least := int32(-1), math.Inf(1)
	for v := range e.there.each {
		x := &e.of[v]
		if x.pinned > 0 || e.stays(v) {
			continue
		}
		if worth := x.worth / power(float64(x.need-e.place), e.w.far); worth < least {
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

// stays reports whether a value is not forgotten at the place.
func (e *evictor) stays(v int32) bool {
	return e.of[v].from <= e.place && e.place < e.of[v].to || e.place < e.s.p.until(v)
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
	e.of[v].there = false
	e.there.remove(v)
	e.open.remove(v)
	e.sum -= e.s.p.Bytes[v]
	e.turn(v)
	at := max(e.of[v].touched+1, e.s.p.until(v))
	if at <= e.s.p.Border && e.s.firstFrom(v, at) >= e.s.p.Border {
		e.p.gone[v] = true
	} else if i, known := e.p.search(event{at, v}); !known {
		e.p.events = slices.Insert(e.p.events, i, event{at, v})
	}
}
