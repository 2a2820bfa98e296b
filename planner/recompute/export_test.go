package recompute

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"memopt/planner/flow"
)

// Every plan that a pass makes is checked in tests.
func init() { checking = true }

// BruteForce is the least extra cost within a limit of all plans that forget
// any set of values at the border, and at most one event more; +Inf if none
// fits.
func (s *Solver) BruteForce(limit int64) float64 {
	var values []int32
	for v, x := range s.spans {
		if s.droppable(int32(v)) && x.made < s.p.Border {
			values = append(values, int32(v))
		}
	}
	least := math.Inf(1)
	try := func(p plan) {
		if s.sim.run(p, limit) && s.sim.peak <= limit {
			least = min(least, s.sim.extra)
		}
	}
	p := plan{gone: make([]bool, len(s.p.Bytes))}
	for set := range 1 << min(len(values), 12) {
		for i, v := range values {
			p.gone[v] = set>>i&1 == 1
		}
		p.events = nil
		try(p)
		for at := range int32(len(s.p.Cost)) {
			v := values[(int(at)+set)%len(values)]
			p.events = []event{{at, v}}
			try(p)
		}
	}
	p.gone = slices.Clone(s.plainPlan.gone)
	p.events = nil
	try(p)
	return least
}

// Folds compares cuts of every place, where a byte costs so much, with those of
// networks in which every value and operator stands for itself. It returns the
// most values that a cut has, and how many of them its network has.
func (s *Solver) Folds(byteCost float64) (values, folded int, err error) {
	n, price := int32(len(s.p.Cost)), byteCost/s.unit
	for at := range n {
		c := s.newCut(at, n)
		x, value := c.solve(price, c.envelope(1, math.Inf(1)).weights, math.MaxInt64, nil, 0)
		var net flow.Network
		net.Reset(s.p.Context, 2+len(c.values)+int(n), 2*len(c.values)+len(s.p.Inputs.items)+int(n))
		asked := make([]bool, n)
		vertex := func(op int32) int32 { return int32(2+len(c.values)) + op }
		for i, v := range c.values {
			op := s.sim.maker[v]
			if int32(i) < c.needed {
				net.Edge(flow.Source, int32(2+i), flow.Endless)
			}
			net.Edge(int32(2+i), vertex(op), capacity(price, s.p.Bytes[v]))
			if asked[op] {
				continue
			}
			asked[op] = true
			if !s.p.Again[op] {
				net.Edge(vertex(op), flow.Sink, flow.Endless)
				continue
			}
			net.Edge(vertex(op), flow.Sink, int64(s.p.Cost[op]/s.unit))
			for _, in := range s.p.Inputs.Of(op) {
				if s.index[in] > 0 {
					net.Edge(vertex(op), 1+s.index[in], flow.Endless)
				}
			}
		}
		net.Flow()
		reach, plain, same := net.Reach(), 0.0, true
		for i, v := range c.values {
			kept := reach[2+i] && !reach[vertex(s.sim.maker[v])]
			if same = same && kept == x.kept[c.foldedOf[i]]; kept {
				plain += float64(capacity(price, s.p.Bytes[v]))
			}
		}
		for op := range n {
			if asked[op] && reach[vertex(op)] {
				plain += float64(int64(s.p.Cost[op] / s.unit))
			}
		}
		if !same || plain != value {
			return 0, 0, fmt.Errorf("the cut at %d is worth %v and keeps %v, that of the whole network is worth %v", at, value, x.kept, plain)
		}
		if len(c.values) > values {
			values, folded = len(c.values), len(c.value)
		}
	}
	return values, folded, nil
}

// Knapsacks compares, for a place, what a knapsack of parts says with all sets.
func (s *Solver) Knapsacks(place int32, room int64) error {
	c := s.cut(place)
	n := len(c.values)
	if n > 14 {
		return nil
	}
	at := map[int32]int{}
	for i, v := range c.values {
		at[v] = i
	}
	least := math.Inf(1)
	for kept := range 1 << n {
		there, cost, bytes := kept, 0.0, int64(0)
		var make func(i int)
		make = func(i int) {
			op := s.sim.maker[c.values[i]]
			if there>>i&1 == 1 {
				return
			}
			for _, v := range s.p.Outputs.Of(op) {
				if j, in := at[v]; in {
					there |= 1 << j
				}
			}
			if cost += math.Floor(s.p.Cost[op] / s.unit); !s.p.Again[op] {
				cost = math.Inf(1)
				return
			}
			for _, v := range s.p.Inputs.Of(op) {
				if j, in := at[v]; in {
					make(j)
				}
			}
		}
		for i := range n {
			if kept>>i&1 == 1 {
				bytes += s.p.Bytes[c.values[i]]
			} else if i < int(c.needed) {
				make(i)
			}
		}
		if bytes <= room {
			least = min(least, cost)
		}
	}
	t := s.knapsack(c, nil)
	if t == nil {
		return nil
	}
	t.within([2]int64{room, 0})
	said, plans := t.best(math.Inf(1), 0)
	if said != least && math.Abs(said-least) > 1e-6*least+1 {
		return fmt.Errorf("at %d in %d: a knapsack for %v, all sets for %v", place, room, said, least)
	}
	for _, start := range plans {
		p, bytes := start.plan(), int64(0)
		for _, v := range c.values {
			if s.droppable(v) && s.spans[v].made < s.p.Border && !p.gone[v] {
				bytes += s.p.Bytes[v]
			}
		}
		if bytes > room {
			return fmt.Errorf("at %d in %d: a set of %d", place, room, bytes)
		}
	}
	return nil
}

// Cases is what cases of what is there at a place say of a limit, what the cut of
// the place says, and what the cheapest launches cost. It reports false if there are
// none, or the program is too large to tell.
func (s *Solver) Cases(place int32, limit int64) (cases, cut, least float64, ok bool) {
	if !s.small() || limit < 0 {
		return 0, 0, 0, false
	}
	if _, least, ok = s.solveExactly(limit); !ok {
		return 0, 0, 0, false
	}
	n := int32(len(s.p.Cost))
	var at []bounded
	for op := place; op < n; op++ {
		c := s.newCut(op, n)
		at = append(at, bounded{c: c, room: limit - c.fixed, bound: 1})
	}
	cut, _, _ = at[0].c.best(1, float64(at[0].room), nil)
	cases, _ = s.cases(s.newStateSearch(limit, math.Inf(1)), at, math.Inf(1))
	return cases * s.unit, cut * s.unit, least, true
}

// Tails is what is found from the end of the order on for a limit, in how many
// gates, and what the cheapest launches cost. It reports false if there are none,
// or the program is too large to tell.
func (s *Solver) Tails(limit int64) (tails float64, gates int, least float64, ok bool) {
	e := s.prove(limit, 0)
	if !s.small() || !e.ok || len(e.at) == 0 {
		return 0, 0, 0, false
	}
	if _, least, ok = s.solveExactly(limit); !ok {
		return 0, 0, 0, false
	}
	x := s.newStateSearch(limit, math.Inf(1))
	x.findGates(mostGates)
	tails, _ = s.newStateSearch(limit, math.Inf(1)).tails(e.at)
	return tails, len(x.gates), least, true
}

// Evictors compares, place by place, what evictors keep of what is there with what
// they work out when they know nothing.
func (s *Solver) Evictors(limit int64) error {
	n := len(s.p.Bytes)
	for _, by := range scores {
		e := s.newEvictor(limit, by, nil)
		for op := range int32(len(s.p.Cost)) {
			if e.enter(op); !e.runOperator(op, true) {
				break
			}
			e.refresh()
			fresh := *s.newEvictor(limit, by, nil)
			fresh.resident, fresh.place = e.resident, e.place
			for v := range fresh.values {
				fresh.values[v].reads, fresh.values[v].resident = e.values[v].reads, e.values[v].resident
			}
			copy(fresh.stale, e.resident)
			fresh.refresh()
			for v := range int32(n) {
				if x, y := e.values[v], fresh.values[v]; e.resident.Has(v) && (x.nextUse != y.nextUse || x.dependents != y.dependents || x.rerun != y.rerun || x.score != y.score) {
					return fmt.Errorf("place %d: value %d is used next at %d, has %v dependents, costs %v and scores %v; worked out anew %d, %v, %v, %v",
						op, v, x.nextUse, x.dependents, x.rerun, x.score, y.nextUse, y.dependents, y.rerun, y.score)
				}
			}
		}
	}
	return nil
}

// Work is how many launches were simulated so far, about.
func (s *Solver) Work() int64 { return s.sim.work }

// WithoutCoarse has the solver look at no coarse program.
func (s *Solver) WithoutCoarse() { s.coarser = &coarse{} }

// Twins is what is proven of a limit by two places: by prices, and by a knapsack; and
// what the cut of either place says, and the cheapest launches cost. It reports false if
// there are none, or the program is too large to tell.
func (s *Solver) Pairs(first, second int32, limit int64) (priced, packed, single, least float64, ok bool) {
	if !s.small() || limit < 0 {
		return 0, 0, 0, 0, false
	}
	if _, least, ok = s.solveExactly(limit); !ok {
		return 0, 0, 0, 0, false
	}
	n := int32(len(s.p.Cost))
	a, b := s.newCut(first, n), s.newCut(second, n)
	t := s.newKnapsack(a, b)
	if t == nil {
		return 0, 0, 0, 0, false
	}
	t.within([2]int64{limit - a.fixed, limit - b.fixed})
	for _, c := range []*cut{a, b} {
		bound, _, _ := c.best(1, float64(limit-c.fixed), nil)
		single = max(single, bound)
	}
	priced = t.mix.Bound * s.unit
	packed, plans := t.best(math.Inf(1), 0)
	if first >= s.p.Border {
		for _, p := range plans {
			s.sim.run(p.plan(), limit)
		}
	}
	return priced, packed * s.unit, single * s.unit, least, true
}

// Walks is what a search does with the plan for a limit: walk
// walks a plan that forgets one thing less, another one each time, and trial tries
// such changes, having walked the plan once for many of them. Both tell how many
// launches the plan comes to. Where walk is to begin at the border, it keeps what is
// before it, unless the plan forgets something there.
func (s *Solver) Walks(limit int64) (walk func(border bool) int) {
	a, _ := s.Solve(limit, Ask{})
	p := a.plan.clone()
	s.sim.run(p, limit)
	x := &search{s: s, sim: s.sim, touched: make([]int32, len(s.p.Bytes))}
	all := x.appendDrops(&p, nil)
	turn := 0
	walk = func(border bool) int {
		c := all[turn%len(all)]
		turn++
		var at int
		if c.border {
			p.gone[c.value] = false
		} else {
			at, _ = p.search(c.event)
			p.events = slices.Delete(p.events, at, at+1)
		}
		if !border {
			s.sim.hasPrefix = false
		}
		s.sim.run(p, limit)
		if p.add(c.change); !c.border && p.events[at] != c.event {
			panic("the plan is another one")
		}
		return s.sim.launches
	}
	return walk
}

// Stretches compares what walks of random plans by stretches tell with what those
// place by place do. It tells how many places were in stretches, and how many looked at.
func (s *Solver) Stretches(r *rand.Rand, limit int64) (stretched, looked int, err error) {
	n := int32(len(s.p.Cost))
	p := s.plainPlan.clone()
	for range 60 {
		v := int32(r.IntN(len(s.p.Bytes)))
		if !s.droppable(v) {
			continue
		}
		switch e := (event{int32(r.IntN(int(n))), v}); {
		case r.IntN(2) == 0:
			p.gone[v] = !p.gone[v]
		case r.IntN(20) > 0 && e.at < s.p.Border: // few walks begin before the border
		default:
			if _, known := p.search(e); !known {
				p.add(change{e, false})
			}
		}
		s.sim.complete = false
		ok := s.sim.run(p, limit)
		by := *s.sim
		for _, all := range []*[]int32{&by.ops, &by.firstMade, &by.place, &by.start} {
			*all = slices.Clone(*all)
		}
		by.ranges = slices.Clone(by.ranges)
		by.live, by.tops = slices.Clone(by.live), slices.Clone(by.tops)
		is := s.sim.byPlaces(p)
		if ok != is {
			return 0, 0, fmt.Errorf("%v by stretches, %v by places: %v", ok, is, p)
		}
		if !ok {
			break
		}
		to := s.sim
		looked += to.launches - by.launches
		if to.launches != by.launches || to.instances != by.instances {
			return 0, 0, fmt.Errorf("%d launches of %d instances by stretches, %d of %d by places: %v", by.launches, by.instances, to.launches, to.instances, p)
		}
		for op := range n {
			if by.start[op] != to.start[op] {
				return 0, 0, fmt.Errorf("place %d begins at %d by stretches, at %d by places: %v", op, by.start[op], to.start[op], p)
			}
			if s.sim.mustLook.Has(op) {
				looked++
			} else {
				stretched++
			}
		}
		for k := range to.launches {
			if by.ops[k] != to.ops[k] || by.firstMade[k] != to.firstMade[k] || by.place[k] != to.place[k] || by.live[k] != to.live[k] {
				return 0, 0, fmt.Errorf("launch %d is %d at %d makes %d alive %d by stretches, %d at %d makes %d alive %d by places: %v",
					k, by.ops[k], by.place[k], by.firstMade[k], by.live[k], to.ops[k], to.place[k], to.firstMade[k], to.live[k], p)
			}
		}
		for i := range to.instances {
			if x, y := by.ranges[i], to.ranges[i]; x.first != y.first || x.last != y.last || x.value != y.value {
				return 0, 0, fmt.Errorf("instance %d of %d from %d to %d by stretches, of %d from %d to %d by places: %v",
					i, x.value, x.first, x.last, y.value, y.first, y.last, p)
			}
		}
		if !slices.Equal(by.tops, to.tops) ||
			by.peak != to.peak || by.peakLaunch != to.peakLaunch || by.extra != to.extra || by.over != to.over {
			return 0, 0, fmt.Errorf("peak %d at %d, cost %v, %v over by stretches, peak %d at %d, cost %v, %v over by places: %v",
				by.peak, by.peakLaunch, by.extra, by.over, to.peak, to.peakLaunch, to.extra, to.over, p)
		}
	}
	return stretched, looked, nil
}

// byPlaces walks a plan place by place, and looks at each whether something is to be made again.
func (s *simulator) byPlaces(p plan) bool {
	s.begin()
	s.walks++
	s.complete, s.hasPrefix = false, false
	ops, events := int32(len(s.p.Cost)), s.eventsOf(&p)
	for op := range ops {
		if op == s.p.Border {
			for v, gone := range p.gone {
				if gone && s.p.until(int32(v)) <= op {
					s.current[v] = -1
				}
			}
		}
		for ; len(events) > 0 && events[0].at <= op; events = events[1:] {
			if e := events[0]; e.at >= s.p.until(e.value) {
				s.current[e.value] = -1
			}
		}
		s.start[op] = int32(s.launches)
		if s.rerun(op, op); s.launches > s.mostLaunches {
			return false
		}
	}
	s.start[ops] = int32(s.launches)
	s.bury()
	s.sum()
	return true
}

// bury finds what dies where when all last readers are known.
func (s *simulator) bury() {
	live, bytes := s.clearLive(), s.p.Bytes
	for v, held := range s.p.Held {
		if i := s.current[v]; held && i >= 0 {
			s.ranges[i].last = int32(s.launches) // read behind the last launch
		}
	}
	for v := range int32(len(s.p.Until)) { // as it was first made
		if s.p.Until[v] == 0 {
			continue
		}
		i := s.firstMade[s.lastAt(s.maker[v])] + s.port(v)
		s.ranges[i].last = max(s.ranges[i].last, s.lastAt(s.p.Until[v]-1))
	}
	for _, l := range s.ranges[:s.instances] {
		live[l.last+1] -= bytes[l.value]
	}
}

// lastAt is the last launch of a place, at which its operator first ran.
func (s *simulator) lastAt(place int32) int32 {
	k, _ := slices.BinarySearch(s.place[:s.launches], place+1)
	return int32(k) - 1
}

// port is which of its maker's outputs a value is.
func (s *simulator) port(v int32) int32 {
	return int32(slices.Index(s.p.Outputs.Of(s.maker[v]), v))
}

// Checkpoints is what it costs to come back through so many links of a chain, from the last to the
// first, with what goes on to the first there and room for so much more.
func (s *Solver) Checkpoints(room, links int) (cost float64, ok bool) {
	v := s.newCheckpoints()
	if v == nil || 1+links >= len(v.at)-1 {
		return 0, false
	}
	return v.again[room][1][1+links], true
}
