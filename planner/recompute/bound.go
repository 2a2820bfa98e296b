package recompute

import (
	"cmp"
	"math"
	"slices"
)

// How much is looked at for bounds. More takes longer and raises few bounds.
const (
	mostRefined  = 4096    // operators of a program whose bounds are refined
	nearly       = 0.9     // places are looked at from this part of the best bound
	windows      = 16      // of the order, each with its worst place
	binding      = 6       // places added where plans of the best cut exceed the limit
	longProgram  = 1 << 15 // operators; in longer ones walks that find those places take too long, and hardly any binds
	roundings    = 3       // places at which bytes are rounded
	grainSizes   = 6       // distinct sizes of which grains are made
	grainParts   = 6       // a grain is a size, its half, … its sixth
	mostCutting  = 8 << 20 // edges that cuts may look at for the places of a limit
	mostRounding = 3 << 20 // … and for the rounded bytes of a place
)

// places lists the places at which cuts are made for a limit: the first of the backward pass, where most is kept, and
// the worst of each window.
func (s *Solver) places(limit int64) (at []int32) {
	add := func(op int32) {
		if int(op) < len(s.plain) && s.plain[op] > limit && !slices.Contains(at, op) {
			at = append(at, op)
		}
	}
	add(s.p.Border)
	add(s.p.Border + 1)
	add(s.p.Border + 2)
	var worst []int32 // of each window
	width := max(1, (len(s.plain)+windows-1)/windows)
	for from := 0; from < len(s.plain); from += width {
		at := from
		for op := from; op < min(from+width, len(s.plain)); op++ {
			if s.plain[op] > s.plain[at] {
				at = op
			}
		}
		worst = append(worst, int32(at))
	}
	slices.SortStableFunc(worst, func(a, b int32) int { return cmp.Compare(s.plain[b], s.plain[a]) })
	for _, op := range worst {
		add(op)
	}
	return at
}

// Bound is a proven lower bound on the extra cost of any launches within a limit that begin the operators in order. It
// reports false if there are none. With a cost, of a plan that the caller has, all passes raise the bound up to that,
// which goes further than solving does and takes longer. Without, it is what is known or soon found.
func (s *Solver) Bound(limit int64, cost float64) (extra float64, ok bool) {
	if s.plainPeak <= limit {
		return 0, true
	}
	e := s.bound(limit)
	if cost > 0 {
		e = s.raised(limit, cost/s.unit)
	}
	return e.least * s.unit, e.ok
}

// Early is Bound before anything else was asked for the limit; solving may raise it.
func (s *Solver) Early(limit int64) (extra float64, ok bool) {
	if s.plainPeak <= limit {
		return 0, true
	}
	s.bound(limit)
	e := s.early[limit]
	return e.least * s.unit, e.ok
}

// Excludes reports whether the bounds of other limits prove that no launches within a limit have less extra cost. It
// takes little time.
func (s *Solver) Excludes(limit int64, extra float64) bool {
	cost := extra / s.unit
	for _, c := range s.cuts {
		if c.boundSoFar(limit) >= cost {
			return true
		}
	}
	return false
}

// bounded is what the cuts at one place say for a limit.
type bounded struct {
	c     *cut
	bound float64
	room  int64
	sets  []set // those closest to the room last
	fine  []set // … with rounded bytes
}

// evidence is what is proven for a limit, and the plans found on the way.
type evidence struct {
	least float64   // the bound, in units
	at    []bounded // by bound, the best first
	ok    bool      // there may be a plan
	route route     // launches of states, if there are some

	sets  []pricedStart    // plans of the cheapest sets at a place
	pairs [2][]pricedStart // … at two places; those with an added place come second
	kept  []keep           // large values that the cheapest cases keep

	tried proof // the groups of passes that ran
}

// bound is what is proven for a limit, at first by cuts.
func (s *Solver) bound(limit int64) evidence {
	if e, known := s.proven[limit]; known {
		return e
	}
	e := s.prove(limit, roundings)
	s.proven[limit], s.early[limit] = e, e
	return e
}

// prove makes the cuts for a limit, and rounds bytes at up to so many places.
func (s *Solver) prove(limit int64, rounded int) (e evidence) {
	e.ok = limit >= 0 // nothing at all takes nothing, but not less
	look := func(op int32) {
		c := s.cut(op)
		bound, sets, ok := c.best(1, float64(limit-c.fixed), nil)
		s.count(c)
		if e.ok = e.ok && ok; ok && sets != nil {
			e.at = append(e.at, bounded{c: c, bound: bound, room: limit - c.fixed, sets: sets})
			e.least = max(e.least, bound)
		}
	}
	begin := s.cutWork
	places, binds := s.places(limit), binding
	if len(places) > 0 && len(s.plain) > longProgram {
		places, binds = []int32{slices.MaxFunc(places, func(a, b int32) int { return cmp.Compare(s.plain[a], s.plain[b]) })}, 1
	}
	for i, op := range places {
		if i > 1 && s.cutWork-begin > mostCutting {
			break
		}
		if look(op); !e.ok {
			return evidence{}
		}
	}
	sort := func() {
		slices.SortStableFunc(e.at, func(a, b bounded) int { return cmp.Or(cmp.Compare(b.bound, a.bound), cmp.Compare(a.c.at, b.c.at)) })
	}
	sort()
	// Where the plan of the best cut exceeds the limit, another place binds.
	for range binds {
		op := int32(-1)
		if len(e.at) > 0 {
			op = s.beyond(&e.at[0], limit, places)
		}
		if op < 0 || s.cutWork-begin > mostCutting {
			break
		}
		places = append(places, op)
		if look(op); !e.ok {
			return evidence{}
		}
		sort()
	}
	for i := range e.at[:min(rounded, len(e.at))] {
		x := &e.at[i]
		if x.bound < e.at[0].bound*nearly || s.cutWork-begin > mostCutting+int64(i+1)*mostRounding {
			break
		}
		begin, grain := s.cutWork, int64(1)
		for _, g := range x.c.grains() {
			bound, _, ok := x.c.best(g, float64((limit-x.c.fixed)/g), x.sets)
			s.count(x.c)
			if !ok {
				return evidence{}
			}
			if bound > x.bound {
				x.bound, grain = bound, g
				e.least = max(e.least, bound)
			}
			if s.cutWork-begin > mostRounding {
				break
			}
		}
		if grain > 1 { // from all to nothing kept, for plans
			_, x.fine, _ = x.c.best(grain, float64((limit-x.c.fixed)/grain), nil)
			s.count(x.c)
		}
	}
	sort()
	return e
}

// beyond is the peak's place of a plan of a cut's sets that exceeds the limit, if it is not among those known; −1 if
// there is none.
func (s *Solver) beyond(b *bounded, limit int64, known []int32) int32 {
	for _, x := range slices.Backward(b.sets) {
		if w := s.walkOf(b.c, x); w.complete && w.peak > limit && !slices.Contains(known, w.place) {
			return w.place
		}
	}
	return -1
}

// walkResult is the result of a walk, for any limit.
type walkResult struct {
	done     bool
	complete bool // it came to its end
	peak     int64
	place    int32 // of the order, where that is
	work     int64
}

// walkOf is the walk of the plan with a set of a cut at the border. It is walked once for all limits, and counts as the
// same work each time.
func (s *Solver) walkOf(c *cut, x set) walkResult {
	w := x.walk
	if w.done {
		s.sim.work += w.work
		return *w
	}
	before := s.sim.work
	w.done, w.complete = true, s.sim.run(s.planOf(c, x), math.MaxInt64)
	if w.complete {
		w.peak, w.place = s.sim.peak, s.sim.place[s.sim.peakLaunch]
	}
	w.work = s.sim.work - before
	return *w
}

// cut is the cut at a place. It is built once, and counts as the same work each time.
func (s *Solver) cut(at int32) *cut {
	c := s.cuts[at]
	if c == nil {
		c = s.newCut(at, int32(len(s.p.Cost)))
		s.cuts[at] = c
	}
	c.spent += foldWork * int64(len(c.values))
	return c
}

// count adds the work of a cut to the solver's.
func (s *Solver) count(c *cut) {
	s.cutWork += c.spent
	c.spent = 0
}

// grains are the sizes that bytes are rounded down to, those first of which there are most bytes.
func (c *cut) grains() (all []int64) {
	sizes, _ := c.sizes()
	for part := int64(1); part <= grainParts; part++ {
		for _, b := range sizes[:min(grainSizes, len(sizes))] {
			if g := b / part; g > 1 && !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

// sizes lists the sizes of needed values, those first of which there are most bytes, and the bytes of each size.
func (c *cut) sizes() (sizes []int64, bytes map[int64]int64) {
	bytes = map[int64]int64{}
	for _, v := range c.value {
		if v.bytes > 0 && v.needed {
			bytes[v.bytes] += v.bytes * v.times
		}
	}
	for b := range bytes {
		sizes = append(sizes, b)
	}
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(b, a)) })
	return sizes, bytes
}
