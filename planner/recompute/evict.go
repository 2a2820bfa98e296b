package recompute

import (
	"math"
	"math/bits"
	"slices"

	"memopt/planner/internal/numbers"
)

// evictor is online eviction, as in dynamic tensor rematerialization. It runs the order once within a limit of bytes;
// where a launch does not fit, it evicts the resident value with the lowest score: cheap to recompute for its bytes,
// and not read soon. Its plans are seldom the cheapest, but they exist close to the floor, where the set that a cut
// keeps at one place does not fit at others.
type evictor struct {
	s     *Solver
	limit int64
	score score
	p     plan // dropped so far
	*dependencies

	values   []evictable // by value
	resident numbers.Set // droppable values in memory
	stale    numbers.Set // resident values whose next use or cost is out of date
	unneeded []int32     // values found to have no next use
	sum      int64       // bytes of the resident values
	fixed    int64       // bytes of values that no plan drops, and work space, at the current place
	place    int32
	reruns   int // launches left that rerun an operator
}

// evictable is what an evictor knows of a value that may be dropped.
type evictable struct {
	rerun      float64 // cost to recompute it from what is resident
	dependents float64 // missing values that are computed from it, and 1 if the order reads it
	score      float64 // of both and its bytes; the distance to its next use is applied when it is compared
	nextUse    int32   // the next place that needs it
	reads      int32   // how many of its readers have run
	pins       int32   // pending launches that read it
	touched    int32   // the last place that read or wrote it
	interval           // places at which it must not be evicted
	resident   bool
	staleUse   bool // nextUse and dependents are out of date
	staleCost  bool // rerun is out of date
}

// interval is the places [from, to).
type interval struct{ from, to int32 }

// keep is, by value, the places at which evictors must not evict it; nil allows all evictions.
type keep []interval

// dependencies is the dataflow among the values that may be dropped, in one array: evictors spend most of their time
// there, and indices are faster than short slices.
type dependencies struct {
	edges         []edges // by value
	targets       []int32 // of all edges
	unforgettable []int64 // by operator: bytes of the values that no plan drops, while it is the next to run first
}

// edges are where, among the targets, the inputs of a value's maker, the outputs of its readers (in the order of their
// makers) and the readers begin.
type edges struct {
	cost                       float64 // of the maker
	ins, outs, readers, behind int32
	maker                      int32
}

func (s *Solver) dependencies() *dependencies {
	if s.deps != nil {
		return s.deps
	}
	p := s.p
	d := &dependencies{edges: make([]edges, len(p.Bytes)), unforgettable: s.unforgettable()}
	add := func(values []int32) {
		for _, v := range values {
			if s.droppable(v) {
				d.targets = append(d.targets, v)
			}
		}
	}
	for v := range d.edges {
		e := &d.edges[v]
		if e.maker = s.sim.maker[v]; !s.droppable(int32(v)) {
			continue
		}
		e.cost = p.Cost[e.maker]
		e.ins = int32(len(d.targets))
		add(p.Inputs.Of(e.maker))
		e.outs = int32(len(d.targets))
		for _, op := range s.uses.Of(int32(v)) {
			add(p.Outputs.Of(op))
		}
		e.readers = int32(len(d.targets))
		d.targets = append(d.targets, s.uses.Of(int32(v))...)
		e.behind = int32(len(d.targets))
	}
	s.deps = d
	return d
}

// unforgettable is, by operator, the bytes of values that no plan drops while it is the next to run first.
func (s *Solver) unforgettable() []int64 {
	sum := make([]int64, len(s.p.Cost)+1)
	for v, x := range s.spans {
		to := max(x.last+1, s.p.until(int32(v)))
		if s.sim.maker[v] >= 0 && !s.droppable(int32(v)) && x.made+1 < to {
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

// score ranks values for eviction, lowest first, by cost^c · dependents^d / (bytes^b · distance^f). These are the
// exponents.
type score struct{ cost, bytes, distance, dependents float64 }

// newEvictor prepares a run within a limit that evicts by a score and respects what must be kept.
func (s *Solver) newEvictor(limit int64, by score, kept keep) *evictor {
	n := len(s.p.Bytes)
	e := &evictor{s: s, limit: limit, score: by, dependencies: s.dependencies(), p: plan{gone: make([]bool, n)},
		values: make([]evictable, n), resident: numbers.New(n), stale: numbers.New(n), reruns: s.sim.mostLaunches}
	copy(e.p.gone, s.p.Forced)
	for v := range e.values {
		e.values[v].staleUse, e.values[v].staleCost = true, true
	}
	for v, x := range kept {
		e.values[v].interval = x
	}
	return e
}

// never is the next use of a value that nothing needs, after all places.
const never = math.MaxInt32

// run runs the order. It reports false if something cannot fit, or there are too many reruns.
func (e *evictor) run() bool {
	for op := range int32(len(e.s.p.Cost)) {
		e.s.p.poll()
		if e.enter(op); !e.runOperator(op, true) {
			return false
		}
	}
	return true
}

// enter advances to the place of an operator.
func (e *evictor) enter(op int32) {
	e.place, e.fixed = op, e.unforgettable[op]
	for _, v := range e.s.p.Inputs.Of(op) {
		if e.values[v].reads++; e.s.droppable(v) {
			e.expireUse(v)
		}
	}
}

// runOperator runs an operator after its missing inputs.
func (e *evictor) runOperator(op int32, first bool) bool {
	ins := e.s.p.Inputs.Of(op)
	for _, v := range ins {
		e.values[v].pins++
	}
	for _, v := range ins {
		if !e.values[v].resident && e.s.droppable(v) && !e.runOperator(e.s.sim.maker[v], false) {
			return false
		}
	}
	ok := e.launch(op, first)
	for _, v := range ins {
		e.values[v].pins--
	}
	return ok
}

// launch runs an operator whose inputs are resident, after it has evicted until the outputs fit.
func (e *evictor) launch(op int32, first bool) bool {
	prob := e.s.p
	if !first {
		if e.reruns--; e.reruns < 0 {
			return false
		}
	}
	room := e.limit - e.fixed - prob.Work[op]
	outs := prob.Outputs.Of(op)
	for _, v := range outs {
		if !e.values[v].resident && (first || e.s.droppable(v)) || !first && !e.s.droppable(v) {
			room -= prob.Bytes[v]
		}
	}
	for _, v := range prob.Inputs.Of(op) {
		e.values[v].touched = e.place
	}
	if e.sum > room {
		e.s.sim.work += e.sweepWork()
		e.refresh()
		e.dropUnneeded()
		if e.overwrites(op) {
			room += prob.Bytes[outs[0]]
		}
		for e.sum > room {
			if !e.evict() && !e.evictOverwritable(op) {
				return false
			}
			if e.sum > room {
				e.refresh()
			}
		}
	}
	for _, v := range outs {
		x := &e.values[v]
		x.touched = e.place
		if e.s.droppable(v) && !x.resident {
			x.resident = true
			e.resident.Add(v)
			e.sum += prob.Bytes[v]
			if x.staleUse || x.staleCost {
				e.stale.Add(v)
			} else {
				e.fresh(v)
			}
			e.toggled(v)
		}
	}
	return true
}

// sweepWork is what one look at all values counts, in launches.
func (e *evictor) sweepWork() int64 { return int64(len(e.values)) / 2 }

// overwrites reports whether the first output of an operator may lie over an input that nothing else needs.
func (e *evictor) overwrites(op int32) bool {
	return slices.ContainsFunc(e.s.p.Over.Of(op), func(v int32) bool {
		if e.s.droppable(v) {
			return e.values[v].nextUse == never && e.values[v].pins <= 1
		}
		return e.s.spans[v].last == e.place
	})
}

// evict drops the value with the lowest score. It reports false if none may go.
func (e *evictor) evict() bool {
	best, least := int32(-1), math.Inf(1)
	for v := range e.resident.Each {
		x := &e.values[v]
		if x.pins > 0 || e.mustKeep(v) {
			continue
		}
		if score := x.score / power(float64(x.nextUse-e.place), e.score.distance); score < least {
			best, least = v, score
		}
	}
	if best < 0 {
		return false
	}
	e.s.sim.work += e.sweepWork()
	e.drop(best)
	return true
}

// evictOverwritable drops an input that an operator may write over although it is needed later. It reports false if
// there is none. It matters near the floor alone: without it a GPT of two layers fits a batch of 28, not 30.
func (e *evictor) evictOverwritable(op int32) bool {
	for _, v := range e.s.p.Over.Of(op) {
		if x := &e.values[v]; x.resident && x.pins == 1 && !e.mustKeep(v) {
			e.drop(v)
			return true
		}
	}
	return false
}

// mustKeep reports whether a value must not be evicted at the current place.
func (e *evictor) mustKeep(v int32) bool {
	return e.values[v].from <= e.place && e.place < e.values[v].to || e.place < e.s.p.until(v)
}

// dropUnneeded drops the values that nothing needs any more.
func (e *evictor) dropUnneeded() {
	pinned := e.unneeded[:0]
	for _, v := range e.unneeded {
		switch x := &e.values[v]; {
		case !x.resident || x.nextUse != never:
		case x.pins > 0 || e.place < e.s.p.until(v):
			pinned = append(pinned, v)
		default:
			e.drop(v)
		}
	}
	e.unneeded = pinned
}

// drop drops a value right after the last place that touched it.
func (e *evictor) drop(v int32) {
	e.values[v].resident = false
	e.resident.Remove(v)
	e.stale.Remove(v)
	e.sum -= e.s.p.Bytes[v]
	e.toggled(v)
	at := max(e.values[v].touched+1, e.s.p.until(v))
	if at <= e.s.p.Border && e.s.firstReader(v, at) >= e.s.p.Border {
		e.p.gone[v] = true
	} else if i, known := e.p.search(event{at, v}); !known {
		e.p.events = slices.Insert(e.p.events, i, event{at, v})
	}
}

// toggled expires what depends on whether a value is resident: the next uses of what it is computed from, and the costs
// of what is computed from it.
func (e *evictor) toggled(v int32) {
	x := &e.edges[v]
	for _, u := range e.targets[x.ins:x.outs] {
		e.expireUse(u)
	}
	e.expireCosts(v)
}

// expireUse marks the next use of a value out of date and, if the value is missing, those of what it is computed from.
func (e *evictor) expireUse(v int32) {
	x := &e.values[v]
	if x.staleUse {
		return
	}
	if x.staleUse = true; x.resident {
		e.stale.Add(v)
		return
	}
	d := &e.edges[v]
	for _, u := range e.targets[d.ins:d.outs] {
		e.expireUse(u)
	}
}

// expireCosts marks the costs of the values that are computed from one out of date.
func (e *evictor) expireCosts(v int32) {
	d := &e.edges[v]
	for _, u := range e.targets[d.outs:d.readers] {
		x := &e.values[u]
		if x.staleCost {
			continue
		}
		if x.staleCost = true; x.resident {
			e.stale.Add(u)
		} else {
			e.expireCosts(u)
		}
	}
}

// refresh brings the resident values that are out of date up to date.
func (e *evictor) refresh() {
	for w, rest := range e.stale {
		if rest == 0 {
			continue
		}
		e.stale[w] = 0
		for ; rest != 0; rest &= rest - 1 {
			v := int32(w<<6 + bits.TrailingZeros64(rest))
			if e.values[v].staleUse {
				e.findUse(v)
			}
			if e.values[v].staleCost {
				e.findCost(v)
			}
			e.fresh(v)
		}
	}
}

// findUse finds the next use and the dependents of a value: its next reader in the order, and what missing values that
// are computed from it are needed for.
func (e *evictor) findUse(v int32) {
	x, d, next, dependents := &e.values[v], &e.edges[v], int32(never), 0.0
	if i := d.readers + x.reads; i < d.behind {
		next, dependents = e.targets[i], 1
	}
	for _, u := range e.targets[d.outs:d.readers] {
		if e.edges[u].maker > e.place {
			break // this and all that follow have not run yet
		}
		if y := &e.values[u]; !y.resident {
			if y.staleUse {
				e.findUse(u)
			}
			next = min(next, y.nextUse)
			dependents += y.dependents
		}
	}
	x.nextUse, x.dependents, x.staleUse = next, dependents, false
}

// findCost finds the cost to recompute a value with the missing values that it is computed from.
func (e *evictor) findCost(v int32) {
	d := &e.edges[v]
	cost := d.cost
	for _, u := range e.targets[d.ins:d.outs] {
		if y := &e.values[u]; !y.resident {
			if y.staleCost {
				e.findCost(u)
			}
			cost += y.rerun
		}
	}
	x := &e.values[v]
	x.rerun, x.staleCost = cost, false
}

// fresh scores a resident value whose next use and cost are up to date, but for the distance to its next use.
func (e *evictor) fresh(v int32) {
	x := &e.values[v]
	if x.nextUse == never {
		e.unneeded = append(e.unneeded, v)
	}
	if e.s.p.Bytes[v] == 0 {
		x.score = math.Inf(1) // to evict it frees nothing
		return
	}
	x.score = power(x.rerun+e.s.unit, e.score.cost) * power(max(x.dependents, 1), e.score.dependents) / power(float64(e.s.p.Bytes[v]), e.score.bytes)
}

// power is math.Pow, faster for the exponents of the scores.
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
