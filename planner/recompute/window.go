package recompute

import (
	"cmp"
	"math"
	"slices"
)

// A window is places of the order, one behind another, at which few large values are
// read, such as those of a last layer right behind the border, where the most is kept of
// all others. What is there of these few is followed from launch to launch (tight.go), as
// if all others took no bytes and were there. So it is known what the few cost that never
// take more than so many bytes. The others take least somewhere in the window, and there
// they have the room that the few leave at most: what they cost from there on, a cut
// says, for which all that makers of the few make is there for nothing, or that cut and
// another place together (twins.go). No operator is among both, so both cost. The least of
// all ways to share the bytes is a bound. Places by themselves say less: at each of them
// something else of the few is not there, and has been made again for nothing in between.
type window struct {
	s          *Solver
	begin, end int32  // its first and its last place
	x          *tight // follows the few
	floor      int64  // the most bytes that operators of the window need of the few to run first
	others     *cut
	cuts       map[int32]*cut // at places behind it, without the few
	seconds    []*twin        // with such places

	// Of the limit that was looked at last: what the few cost that never take more bytes
	// than from, the most first, and what costs at least rest.
	levels []level
	from   int64
	rest   float64

	mixing int // ways to choose of two places that may be looked at yet
}

// level is how many bytes the few take at once if no more is spent on them.
type level struct {
	bytes int64
	cost  float64 // in units
}

const (
	windowValues  = 9       // that are followed
	windowPlaces  = 64      // of a window
	windowSeconds = 2       // places that are looked at together with it
	mostWindow    = 1 << 16 // what may be looked at for a level
	windowRooms   = 1 << 12 // rooms are told apart by one of so many parts of the limit
	windowMixing  = 1 << 19 // ways to choose of two places that are looked at for a bound
)

// windows bounds by the window that begins at the border, and by it and other places.
func (s *Solver) windows(at []bounded, limit int64, known, target float64) float64 {
	if s.front == nil {
		s.front = s.newWindow(s.p.Border, s.windowEnd(s.p.Border))
	}
	w := s.front
	w.seconds = w.seconds[:0]
	for _, b := range at {
		if b.c.at > w.end && len(w.seconds) < windowSeconds {
			if t := w.second(b.c.at); t != nil {
				w.seconds = append(w.seconds, t)
			}
		}
	}
	w.follow(limit, target)
	least := w.best(limit, known, target)
	s.count(w.others)
	return least
}

// windowEnd is the last place of a window that is not too large.
func (s *Solver) windowEnd(begin int32) int32 {
	end := begin
	for ; end < min(begin+windowPlaces, int32(len(s.p.Cost))); end++ {
		few := 0
		for v := range s.few(begin, end) {
			if s.p.Bytes[v] > s.top/small {
				few++
			}
		}
		if few > windowValues {
			break
		}
	}
	return end - 1
}

// few is what is read at the places of a window, what is made with that, and what that is
// made of, unless it is read behind the window.
func (s *Solver) few(begin, end int32) map[int32]bool {
	p, in := s.p, map[int32]bool{}
	var makers []int32
	add := func(v int32) {
		if s.may(v) && !in[v] {
			makers = append(makers, s.sim.maker[v])
			for _, out := range p.Outputs.Of(s.sim.maker[v]) {
				if s.may(out) {
					in[out] = true
				}
			}
		}
	}
	for op := begin; op <= end; op++ {
		for _, v := range p.Inputs.Of(op) {
			add(v)
		}
	}
	for ; len(makers) > 0; makers = makers[1:] {
		for _, v := range p.Inputs.Of(makers[0]) {
			if s.spans[v].last <= end {
				add(v)
			}
		}
	}
	return in
}

// newWindow is a window from a place to another.
func (s *Solver) newWindow(begin, end int32) *window {
	p, few := s.p, s.few(begin, end)
	x := s.newTightOf(s.top, math.Inf(1), small, func(v int32) bool { return few[v] }, true)
	x.end = end + 1
	x.behind = []check{{int32(len(p.Cost)) - 1, 0}}
	x.want(begin)
	c := s.emptyCut(end)
	w := &window{s: s, begin: begin, end: end, x: x, others: c, cuts: map[int32]*cut{}}
	w.free()
	for op := begin; op <= end; op++ {
		for _, v := range p.Outputs.Of(op) {
			s.stain(v, free)
		}
		need := x.first[op]
		for b := range x.ins[op].each {
			need += x.bytes[b]
		}
		if x.over(op) {
			need -= p.Bytes[p.Outputs.Of(op)[0]]
		}
		w.floor = max(w.floor, need)
	}
	for v, x := range s.spans {
		switch v := int32(v); {
		case s.place[v] != 0 || s.sim.maker[v] < 0 || x.made >= begin || x.last < begin:
		case !s.may(v):
			s.stain(v, free)
		case x.last > end:
			s.ask(c, v)
		}
	}
	s.finish(c)
	return w
}

// free has what makers of the few make be there for nothing in the cut that was begun.
func (w *window) free() {
	for op, outs := range w.x.outs {
		if outs.empty() {
			continue
		}
		for _, v := range w.s.p.Outputs.Of(int32(op)) {
			if w.s.may(v) {
				w.s.stain(v, free)
			}
		}
	}
}

// second is the window and a place behind it; nil if parts are too large.
func (w *window) second(at int32) *twin {
	if w.cuts[at] == nil {
		w.cuts[at] = w.s.cutWithout(at, int32(len(w.s.p.Cost)), w.free)
	}
	return w.s.twin(w.others, w.cuts[at])
}

// cost is what the others cost at least for a room.
func (w *window) cost(room int64) float64 {
	bound, _, ok := w.others.best(1, float64(room), nil)
	if !ok {
		return math.Inf(1)
	}
	return bound
}

// follow finds the levels of the few that may lead to less than a target within a limit.
func (w *window) follow(limit int64, target float64) {
	x, s := w.x, w.s
	w.levels, w.rest = w.levels[:0], 0
	low, high := int64(-1), limit // rooms for which the others cost a target, and less
	if w.cost(high) >= target {
		low = high
	}
	for high-low > max(1, limit/windowRooms) {
		if room := (low + high) / 2; w.cost(room) >= target {
			low = room
		} else {
			high = room
		}
	}
	w.from = limit - low - 1
	w.rest = target - w.cost(limit-w.floor)
	x.most = w.rest * s.unit
	for x.limit = w.from; x.limit >= w.floor && w.rest > 0; {
		x.work = 0
		cost, end, all := x.cross(w.begin)
		s.spent += int64(x.work)
		if cost >= x.most {
			break
		}
		bytes := w.floor
		if all {
			bytes = x.peak(end)
		}
		w.levels = append(w.levels, level{bytes, cost / s.unit})
		x.limit = bytes - 1
	}
}

// best is the bound for the limit that was followed, or one that is lower, or a target if
// that is less. Where it is not above a known one it is that.
func (w *window) best(limit int64, known, target float64) float64 {
	least := min(target, w.cost(limit-w.from-1), w.rest+w.cost(limit-w.floor))
	alone := func(x level) float64 { return x.cost + w.cost(limit-x.bytes) }
	w.mixing = windowMixing
	levels := slices.Clone(w.levels)
	slices.SortStableFunc(levels, func(a, b level) int { return cmp.Compare(alone(a), alone(b)) })
	for _, x := range levels {
		if least <= known {
			return known
		}
		if target := least - x.cost; target > 0 {
			if others := w.asked(limit, x.bytes, known-x.cost, target); others < target {
				least = x.cost + others
			}
		}
	}
	return least
}

// excludes reports whether what was followed last is that nothing within a limit costs
// less.
func (w *window) excludes(limit int64, cost float64) bool {
	return w.best(limit, cost*(1-1e-9), cost) >= cost
}

// asked is what the others cost at least if the few take so many bytes, or a target if
// that is less.
func (w *window) asked(limit, bytes int64, known, target float64) float64 {
	room := limit - bytes
	least := w.cost(room)
	if least < target {
		b, _, whole := w.others.knapsack(room, target, mostPart)
		if !whole {
			_, sets, _ := w.others.best(1, float64(room), nil)
			b = w.s.byGrains(w.others, room, sets)
		}
		least = max(least, b)
	}
	for _, t := range w.seconds {
		if least >= target {
			return target
		}
		if w.mixing <= 0 { // what is known stays a bound
			break
		}
		before := t.mixed
		t.within([2]int64{room, limit - t.second.fixed})
		b, _ := t.best(target, max(known, least))
		least = max(least, b)
		w.mixing -= t.mixed - before
	}
	return min(least, target)
}

// cross is what it costs at least from a place on, the state in which that ends, and
// whether it is that at most.
func (x *tight) cross(place int32) (least float64, end int32, exact bool) {
	x.enter(place)
	return x.search(mostWindow)
}

// peak is the most bytes on the way to a state.
func (x *tight) peak(end int32) (peak int64) {
	for i := end; x.states[i].before >= 0; i = x.states[i].before {
		from, op := x.states[x.states[i].before], x.states[i].ran
		if op < 0 {
			continue
		}
		_, bytes := x.launch(from, op)
		if bytes > x.limit { // it wrote over something
			bytes -= x.s.p.Bytes[x.s.p.Outputs.Of(op)[0]]
		}
		peak = max(peak, bytes)
	}
	return peak
}
