package recompute

import (
	"cmp"
	"math"
	"slices"
)

// cases bounds by what may be there at the place that binds most. Where there is
// hardly room beside what its operator needs, few sets of large values fit, and
// each is a case. Who knows what is there knows what must run again afterwards,
// once, and by which place. What is made again behind a later place is then mostly
// made twice, and what that costs at least is a cut's question, in which an
// operator costs nothing that has not had to run before. Its parts (fold.go) are
// few different ones whatever the case, so what each costs for its bytes is worked
// out once.
//
// What must run again needs room itself. The moment at which the operator with the
// largest need does, before a later place, is a place like others: what that is made
// of ran before, and what is read behind the later place is read behind it.
//
// The least bound of all cases holds. So the case with the least is looked at
// further, first place by place, then at several places together, as long as there
// is work.
type cases struct {
	s     *Solver
	x     *tight // for its numbers
	limit int64
	place int32
	later []int32   // places behind it
	reads [][]int32 // by later place: large values from before that are read from the one before it up to there; at last, up to the end
	need  []int64   // by operator: bytes for it to run again
	idle  []int64   // by later place: bytes of what may not be forgotten, from the first place on
	stage map[question]*stage

	there []large // by case
	which int32   // the case that was looked at last
	level []int32 // by operator: the first of the later places by which it must run again in that
	prior []int32 // by operator: less than never if it ran again before the moment that was looked at last
	todo  []int32
	ran   []int32
	slope []slope
	key   []byte
	work  int
}

// question is what is made again behind a later place for what is read up to
// another; or, if there is an operator, behind the moment before that place at which
// that runs again. Bytes are in whole grains.
type question struct {
	from, until, op int32
	grain           int64
}

// stage is what is known of a question.
type stage struct {
	c      *cut
	room   int64
	price  float64 // of bytes, at which as little is kept as can be
	parts  []casePart
	bounds map[string][]choice // by kind and what costs nothing
}

// casePart is one part of a cut, not folded.
type casePart struct {
	kind int32
	ops  []int32 // of the program, in the order of the kind's
}

// slope is what more bytes save in a part.
type slope struct{ saved, bytes float64 }

// outlook is a case, and what it costs at least.
type outlook struct {
	least float64
	which int32
	steps int32 // how far it was looked at
}

func (a outlook) before(b outlook) bool {
	return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.which, b.which)) < 0
}

const (
	mostCases  = 1 << 22 // operators of a program times cases
	mostAsked  = 5 << 20 // operators that may be looked at for all cases of a limit
	caseGrains = 6       // grains that bytes are rounded to
	likely     = 4       // cases that plans are made for
)

// cases is a bound on the extra cost, and for the cases that promise least, by
// value, up to which place it stays. It is nothing if there are very many.
func (s *Solver) cases(x *tight, at []bounded, limit int64, target float64) (least float64, kept []stays) {
	c := &cases{s: s, x: x, limit: limit, place: at[0].c.at, stage: map[question]*stage{}, level: make([]int32, len(s.p.Cost)), prior: make([]int32, len(s.p.Cost))}
	var behind []bounded
	for _, b := range at[1:] {
		if b.c.at > c.place && b.bound > 0 && len(behind) < links {
			behind = append(behind, b)
		}
	}
	if !c.list(at[0].room) || len(behind) == 0 {
		return 0, nil
	}
	order := make([]int32, len(behind)) // of the later places: what binds most first
	for _, b := range behind {
		c.later = append(c.later, b.c.at)
	}
	slices.Sort(c.later)
	for i, b := range behind {
		j, _ := slices.BinarySearch(c.later, b.c.at)
		order[i] = int32(j)
	}
	c.read()
	c.rooms()
	var queue heap[outlook]
	for i := range c.there {
		queue.push(outlook{c.runs(int32(i)), int32(i), 0})
	}
	for len(queue) > 0 {
		c.s.p.poll()
		top := queue.pop()
		if least = top.least; least >= target || c.work > mostAsked || int(top.steps) > len(order)+1 {
			queue.push(top)
			break
		}
		once := c.runs(top.which)
		if int(top.steps) < len(order) {
			top.least = max(top.least, once+c.twice(order[top.steps], int32(len(c.later)), 1))
		} else {
			top.least = max(top.least, once+c.chain(int(top.steps) > len(order)))
		}
		top.steps++
		queue.push(top)
	}
	s.spent += int64(c.work)
	for len(queue) > 0 && len(kept) < likely {
		kept = append(kept, c.kept(queue.pop().which))
	}
	return least, kept
}

// kept is, by value, the place up to which it stays in a case.
func (c *cases) kept(which int32) stays {
	all := make(stays, len(c.s.p.Bytes))
	needs := c.needs()
	for b := range c.there[which].minus(needs).each {
		last := int32(-1) // of the values with that number, the last one made
		for v, op := range c.s.sim.maker {
			if c.x.bit[v] == b && op < c.place && (last < 0 || op > c.s.sim.maker[last]) {
				last = int32(v)
			}
		}
		all[last].to = c.place + 1
	}
	return all
}

// needs is the large values that are there in all cases: what the operator of the place
// reads and makes, and what stays.
func (c *cases) needs() large {
	x := c.x
	needs := x.ins[c.place].or(x.outs[c.place])
	for _, v := range c.s.sim.staying {
		if b := x.bit[v]; b >= 0 && c.s.p.stays(v, c.s.sim.maker[v], c.place) {
			needs = needs.with(b)
		}
	}
	return needs
}

// list lists the sets of large values that fit in a room beside what the
// operator needs, and leave no room for more. It reports false if there are very
// many.
func (c *cases) list(room int64) bool {
	x := c.x
	needs := c.needs()
	var all []int32 // largest first
	for b, op := range x.maker {
		if b := int32(b); op < c.place && x.asked[b] > c.place && x.bytes[b] <= room && !needs.has(b) {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b int32) int { return cmp.Compare(x.bytes[b], x.bytes[a]) })
	most, looks := mostCases/len(c.level), 0
	var choose func(from int, set large, room int64) bool
	choose = func(from int, set large, room int64) bool {
		if looks++; looks > 2*most {
			return false
		}
		full := true
		for i := len(all) - 1; i >= 0 && x.bytes[all[i]] <= room && full; i-- {
			full = set.has(all[i])
		}
		if full {
			c.there = append(c.there, set.or(needs))
			return len(c.there) <= most
		}
		for i := from; i < len(all); i++ {
			if b := all[i]; x.bytes[b] <= room && !choose(i+1, set.with(b), room-x.bytes[b]) {
				return false
			}
		}
		return true
	}
	return choose(0, large{}, room)
}

// read lists what is read up to each later place.
func (c *cases) read() {
	p := c.s.p
	known := make([]bool, len(p.Bytes))
	from := c.place + 1
	for j := range len(c.later) + 1 {
		until := int32(len(p.Cost))
		if j < len(c.later) {
			until = c.later[j] + 1
		}
		var reads []int32
		for op := from; op < until; op++ {
			for _, v := range p.Inputs.Of(op) {
				if c.x.bit[v] >= 0 && c.s.sim.maker[v] < c.place && !known[v] {
					known[v] = true
					reads = append(reads, v)
				}
			}
		}
		c.reads = append(c.reads, reads)
		from = until
	}
}

// runs is what must run again behind the place in a case, and notes by which later
// place.
func (c *cases) runs(which int32) (cost float64) {
	c.which = which
	for op := range c.level {
		c.level[op] = never
	}
	for j, reads := range c.reads {
		for _, op := range c.missing(reads, c.level, int32(j)) {
			c.work++
			cost += c.s.p.Cost[op]
		}
	}
	return cost
}

// missing is what must run again in the case for some values to be there, besides
// what has a level. It gets one.
func (c *cases) missing(want, level []int32, as int32) []int32 {
	there := c.there[c.which]
	c.todo, c.ran = append(c.todo[:0], want...), c.ran[:0]
	for len(c.todo) > 0 {
		v := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		b, op := c.x.bit[v], c.s.sim.maker[v]
		if b < 0 || there.has(b) || level[op] < never {
			continue
		}
		level[op] = as
		c.ran = append(c.ran, op)
		c.todo = append(c.todo, c.s.p.Inputs.Of(op)...)
	}
	return c.ran
}

// rooms works out what operators need to run again, and what is there whatever is
// forgotten between the place and each later one.
func (c *cases) rooms() {
	p := c.s.p
	c.need = make([]int64, len(p.Cost))
	for op := range c.place {
		if !p.Again[op] {
			continue
		}
		c.need[op] = p.Work[op]
		for i, v := range p.Outputs.Of(op) {
			if i > 0 || len(p.Over.Of(op)) == 0 {
				c.need[op] += p.Bytes[v]
			}
		}
		for _, v := range p.Inputs.Of(op) {
			if c.s.may(v) {
				c.need[op] += p.Bytes[v]
			}
		}
	}
	least, from := int64(math.MaxInt64), c.place+1
	for _, at := range c.later {
		for ; from <= at; from++ {
			least = min(least, c.x.idle[from])
		}
		c.idle = append(c.idle, least)
	}
}

// chain is what runs twice at least, by all later places together. What those say
// that matter may be looked at with rounded bytes, too.
func (c *cases) chain(round bool) float64 {
	n := len(c.later)
	said, rounded := make([][]float64, n), make([][]bool, n)
	for j := range n {
		said[j], rounded[j] = make([]float64, n+1), make([]bool, n+1)
		for k := j + 1; k <= n; k++ {
			said[j][k] = c.twice(int32(j), int32(k), 1)
		}
	}
	for {
		behind, next := make([]float64, n+1), make([]int, n+1)
		for j := n - 1; j >= 0; j-- {
			for k := j + 1; k <= n; k++ {
				if next[j] == 0 || behind[j] < said[j][k]+behind[k] {
					behind[j], next[j] = said[j][k]+behind[k], k
				}
			}
		}
		same := true
		for j := 0; j < n && round; j = next[j] {
			if k := next[j]; !rounded[j][k] && said[j][k] > 0 {
				rounded[j][k], same = true, false
				all := c.stage[question{int32(j), int32(k), -1, 1}].c.grains()
				for _, g := range all[:min(caseGrains, len(all))] {
					said[j][k] = max(said[j][k], c.twice(int32(j), int32(k), g))
				}
			}
		}
		if same {
			return behind[0]
		}
	}
}

// twice is what must run again for what is read from a later place up to another,
// besides what must run once: behind the place, or behind the moment before it that
// needs most room.
func (c *cases) twice(from, until int32, grain int64) float64 {
	q := question{from, until, -1, grain}
	least := c.again(q, func(op int32) bool { return c.level[op] > from && c.level[op] < never })
	op := int32(-1)
	for o, l := range c.level[:c.place] {
		if l == from && (op < 0 || c.need[o] >= c.need[op]) {
			op = int32(o)
		}
	}
	if c.work += len(c.level) / 8; op < 0 || c.need[op]+c.idle[from] <= c.stage[q].c.fixed {
		return least
	}
	for o := range c.prior {
		c.prior[o] = never
	}
	c.prior[op] = from
	c.missing(c.s.p.Inputs.Of(op), c.prior, from)
	q.op = op
	return max(least, c.again(q, func(op int32) bool { return c.prior[op] == never && c.level[op] < never }))
}

// again is what must run again that does not run for nothing.
func (c *cases) again(q question, nothing func(op int32) bool) float64 {
	g := c.stage[q]
	if g == nil {
		g = c.newStage(q)
		c.stage[q] = g
	}
	bytes, cost := int64(0), int64(0)
	c.slope = c.slope[:0]
	for _, part := range g.parts {
		c.key = append(c.key[:0], byte(part.kind), byte(part.kind>>8))
		for i, op := range part.ops {
			if i%8 == 0 {
				c.key = append(c.key, 0)
			}
			if nothing(op) {
				c.key[len(c.key)-1] |= 1 << (i % 8)
			}
		}
		hull, known := g.bounds[string(c.key)]
		if !known {
			hull = g.c.hull(int(part.kind), q.grain, g.price, func(i int) bool { return nothing(part.ops[i]) })
			g.bounds[string(c.key)] = hull
			c.work += 64 * len(part.ops) * len(hull)
		}
		bytes += hull[0].bytes
		cost += hull[0].cost
		for i, x := range hull[1:] {
			c.slope = append(c.slope, slope{float64(hull[i].cost - x.cost), float64(x.bytes - hull[i].bytes)})
		}
		c.work += len(part.ops)
	}
	if over := bytes - g.room; over > 0 {
		return (float64(cost) + g.price*float64(over)) * c.s.unit
	}
	slices.SortFunc(c.slope, func(a, b slope) int { return cmp.Compare(b.saved*a.bytes, a.saved*b.bytes) })
	least, room := float64(cost), float64(g.room-bytes)
	for _, x := range c.slope {
		if x.bytes >= room {
			least -= x.saved * room / x.bytes
			break
		}
		least -= x.saved
		room -= x.bytes
	}
	return max(0, least*(1-hullError)-float64(len(g.c.values))) * c.s.unit
}

// hullError is how far, as a part, the points of a hull may be above what is
// least between them.
const hullError = 1e-9

// newStage makes a cut, with its parts one by one.
func (c *cases) newStage(q question) *stage {
	from, until := c.later[q.from], int32(len(c.s.p.Cost))
	if int(q.until) < len(c.later) {
		until = c.later[q.until]
	}
	var k *cut
	if q.op < 0 {
		k = c.s.newCut(from, until)
	} else {
		k = c.moment(q.op, from, until)
		k.fixed += c.idle[q.from]
	}
	c.work += foldedAt * len(k.values)
	heavy := int64(1)
	for _, v := range k.value {
		heavy = max(heavy, v.bytes/q.grain)
	}
	g := &stage{c: k, room: (c.limit - k.fixed) / q.grain, price: min(2*units, float64(forbidden)/float64(heavy)), bounds: map[string][]choice{}}
	first := make([]int32, len(k.kinds)) // of each kind's parts
	kind := make([]int32, len(k.value))
	for i := range k.kinds {
		first[i] = int32(len(g.parts))
		begin, end := k.part(i)
		for v := begin; v < end; v++ {
			kind[v] = int32(i)
		}
		for range k.times(i) {
			g.parts = append(g.parts, casePart{int32(i), make([]int32, k.opsOf(begin, end))})
		}
	}
	for i, v := range k.as {
		begin, _ := k.part(int(kind[v]))
		g.parts[first[kind[v]]+k.turn[i]].ops[k.value[v].maker-k.value[begin].maker] = c.s.sim.maker[k.values[i]]
	}
	return g
}

// moment is the cut at which an operator runs again, and what is read from a later
// place on up to another. What is made in between is there for nothing.
func (c *cases) moment(op, from, until int32) *cut {
	s, p := c.s, c.s.p
	k := s.emptyCut(from)
	k.fixed = c.need[op]
	for _, v := range p.Inputs.Of(op) {
		s.stain(v, free)
	}
	for _, v := range p.Outputs.Of(op) {
		s.stain(v, free)
	}
	for v, x := range s.spans {
		switch v := int32(v); {
		case s.sim.maker[v] < 0 || s.place[v] != 0 || x.made < c.place && s.may(v) && !s.readBetween(v, from, until):
		case x.made >= c.place || !s.may(v) && x.last > c.place:
			s.stain(v, free)
		case s.may(v):
			s.ask(k, v)
		}
	}
	s.finish(k)
	return k
}

// opsOf is how many operators the part of some folded values has.
func (c *cut) opsOf(begin, end int32) int32 {
	last := c.value[begin].maker
	for v := begin; v < end; v++ {
		last = max(last, c.value[v].maker)
	}
	return last - c.value[begin].maker + 1
}

// hull is what a kind of part costs at least for its bytes in whole grains, the least first,
// if some of its operators cost nothing: the corners of the lower hull, up to a
// price for bytes.
func (c *cut) hull(kind int, grain int64, most float64, free func(i int) bool) []choice {
	begin, end := c.part(kind)
	n, ops := end-begin, c.opsOf(begin, end)
	first := c.value[begin].maker
	made := c.ops[first-2-int32(len(c.value)):][:ops]
	edges := int(2*n + ops)
	for _, op := range made {
		edges += len(op.asks)
	}
	net := network{ctx: c.net.ctx}
	net.reset(int(2+n+ops), edges)
	prices := make([]int64, ops)
	keep := make([]int32, n)
	for i := range n {
		v := c.value[begin+i]
		if v.needed {
			net.edge(source, 2+i, endless)
		}
		keep[i] = net.edge(2+i, 2+n+v.maker-first, 0)
	}
	for o, op := range made {
		vertex := 2 + n + int32(o)
		if prices[o] = op.price; op.price < endless && free(o) {
			prices[o] = 0
		}
		net.edge(vertex, sink, prices[o])
		for _, in := range op.asks {
			if in >= begin && in < end { // not what is common to many parts
				net.edge(vertex, 2+in-begin, endless)
			}
		}
	}
	empty := slices.Clone(net.cap)
	solve := func(price float64) (x choice, value float64) {
		copy(net.cap, empty)
		for i, e := range keep {
			net.cap[e] = capacity(price, c.value[begin+int32(i)].bytes/grain)
		}
		net.flow()
		reach := net.reach()
		for i := range n {
			v := c.value[begin+i]
			if reach[2+i] && !reach[2+n+v.maker-first] {
				x.bytes += v.bytes / grain
				value += float64(capacity(price, v.bytes/grain))
			}
		}
		for o, p := range prices {
			if reach[2+n+int32(o)] {
				x.cost += p
			}
		}
		return x, value + float64(x.cost)
	}
	var corners []choice
	var between func(low, high choice)
	between = func(low, high choice) {
		if high.bytes <= low.bytes || high.cost >= low.cost {
			return
		}
		price := float64(low.cost-high.cost) / float64(high.bytes-low.bytes)
		x, value := solve(price)
		if value >= (float64(low.cost)+price*float64(low.bytes))*(1-hullError)-float64(n) {
			return
		}
		between(low, x)
		corners = append(corners, x)
		between(x, high)
	}
	low, _ := solve(most)
	high, _ := solve(0)
	corners = append(corners, low)
	between(low, high)
	if high.bytes > low.bytes && high.cost < low.cost {
		corners = append(corners, high)
	}
	return corners
}
