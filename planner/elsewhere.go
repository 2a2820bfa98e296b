package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/planner/limits"
	"memopt/planner/moving"
	"memopt/planner/outside"
	"memopt/planner/pack"
	"memopt/planner/profile"
	"memopt/planner/recompute"
)

// Elsewhere is a place beside the arena, Move takes a value there and back, and Moved sums up what a plan moves.
type (
	Elsewhere = outside.Elsewhere
	Move      = outside.Move
	Moved     = outside.Moved
)

// far is the place as a program of numbers has it.
func (m *model) far(e *Elsewhere) moving.Far { return e.Far(m.profile) }

// ours reports whether those who run the step hold what a node makes, and can move it. What the backward nodes of a program
// with its own allocator make is its own.
func (m *model) ours(op int32) bool {
	return !m.unplaced() || m.g.Nodes[m.nodes[op]].Phase == graph.Forward
}

// line is a timeline as launches with times and spans that may be moved. Spans have the numbers of lives.
func (m *model) line(t *timeline, far moving.Far) *moving.Line {
	l := &moving.Line{Far: far, Time: make([]int64, len(t.steps)), Work: make([]int64, len(t.steps)), Spans: make([]moving.Span, len(t.lives))}
	touched := make([]int32, len(t.lives)) // the last launch that did
	stays := make([]bool, len(t.lives))
	for i, x := range t.lives {
		l.Spans[i] = moving.Span{First: x.first, Last: x.last, Bytes: m.align(x.bytes)}
		touched[i] = x.first
	}
	touch := func(life, at int32) {
		if s := &l.Spans[life]; !stays[life] && touched[life]+1 < at {
			s.Idle = append(s.Idle, moving.Idle{From: touched[life] + 1, To: at})
		}
		touched[life] = at
	}
	current, ran, made := make([]int32, len(m.owners)), make([]bool, len(m.nodes)), int32(0)
	for i, s := range t.steps {
		op := m.op[s.Node]
		if l.Time[i] = m.once[op]; s.Again {
			l.Time[i] = int64(m.p.Cost[op])
		}
		for _, v := range m.p.Inputs.Of(op) {
			touch(t.buffer[current[v]], int32(i))
		}
		for _, v := range m.p.Outputs.Of(op) {
			if !s.Again || !m.stays(v, ran) {
				current[v] = made
			}
			life := t.buffer[made]
			stays[life] = stays[life] || m.lasting[m.owners[v]] || !m.ours(op)
			touch(life, int32(i))
			made++
		}
		if !s.Again {
			for _, v := range m.ends[op] { // held outside the graph up to here
				life := t.buffer[current[v]]
				l.Spans[life].Idle, touched[life] = nil, int32(i)
			}
		}
		ran[op] = ran[op] || !s.Again
	}
	for i, x := range t.lives {
		if stays[i] {
			l.Spans[i].Idle = nil
		}
		if x.scratch { // it is no span that can move
			l.Work[x.first] += l.Spans[i].Bytes
			l.Spans[i] = moving.Span{First: x.first, Last: x.last}
		}
	}
	return l
}

// cut is a timeline with the lives that moves leave, in the order in which they begin: what a copy back fills begins
// before what its launch makes. names is, by move, the value that leaves.
func (m *model) cut(t *timeline, moves []moving.Move) (after *timeline, names []int32) {
	made := make([]int32, 0, len(t.buffer)) // by instance: its launch
	owner := make([]int32, 0, len(t.buffer))
	for i, s := range t.steps {
		for _, v := range m.p.Outputs.Of(m.op[s.Node]) {
			made, owner = append(made, int32(i)), append(owner, m.owners[v])
		}
	}
	instances := make([][]int32, len(t.lives)) // by life
	for k, life := range t.buffer {
		instances[life] = append(instances[life], int32(k))
	}
	type piece struct {
		life
		of int32
	}
	pieces := make([]piece, 0, len(t.lives)+len(moves))
	last := make([]int32, len(t.lives)) // by life: where in pieces its last one is
	head := make([]piece, len(t.lives))
	for i, l := range t.lives {
		head[i], last[i] = piece{l, int32(i)}, -1
	}
	for _, x := range moves { // by when they leave
		end := t.lives[x.Span].last
		if k := last[x.Span]; k >= 0 {
			pieces[k].last = x.Gone
		} else {
			head[x.Span].last = x.Gone
		}
		name := t.lives[x.Span].owner
		for _, k := range instances[x.Span] {
			if made[k] < x.Out {
				name = owner[k]
			}
		}
		names = append(names, name)
		last[x.Span] = int32(len(pieces))
		pieces = append(pieces, piece{life{first: x.In, last: end, bytes: t.lives[x.Span].bytes, owner: name}, x.Span})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.first, b.first) })
	pieces = append(pieces, head...)
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.first, b.first) })
	after = &timeline{steps: t.steps, buffer: slices.Clone(t.buffer), lives: make([]life, len(pieces)), live: make([]int64, len(t.steps)+1)}
	for i, p := range pieces {
		after.lives[i] = p.life
		for _, k := range instances[p.of] {
			if p.first <= made[k] && made[k] < p.last {
				after.buffer[k] = int32(i)
			}
		}
		after.live[p.first] += p.bytes
		after.live[p.last] -= p.bytes
	}
	after.peak, after.at = sumUp(after.live)
	after.live = after.live[:len(t.steps)]
	return after, names
}

// without is a candidate with moves after which its arena is within room, or nil.
func (m *model) without(c *candidate, room int64, e *Elsewhere) *candidate {
	if c.t.peak == 0 || c.away != nil {
		return nil
	}
	l := m.line(c.t, m.far(e))
	top := m.useful(room)
	aim := top
	for i := range placings {
		if aim <= 0 {
			return nil
		}
		chosen, wait, ok := l.Within(m.align(aim), math.MaxInt64, math.MaxInt64)
		if !ok {
			return nil
		}
		if len(chosen) == 0 {
			d, fits := m.place(c, room, placingLooks)
			if fits {
				return d
			}
			aim = min(aim, c.t.peak) - max(room/firstStep<<i, m.unit)
			continue
		}
		d := &candidate{by: byMoves, tries: c.tries, wait: wait}
		var names []int32
		d.t, names = m.cut(c.t, chosen)
		placed, fits := m.place(d, room, placingLooks)
		if fits {
			if m.elsewhere(placed, l, chosen, names) {
				return placed
			}
			return nil
		}
		less := placed.placed.Height - room
		if placed.placed.Height == math.MaxInt64 || less <= 0 || i > 0 {
			less = room / firstStep << i
		}
		aim = min(aim, d.t.peak) - max(less, m.unit)
	}
	return nil
}

// byMoves signs plans that move values.
const byMoves = "moves"

// elsewhere gives moves their places on the far side, and reports whether there is room.
func (m *model) elsewhere(c *candidate, l *moving.Line, chosen []moving.Move, names []int32) bool {
	problem, aligned := pack.Problem{Buffers: make([]pack.Buffer, len(chosen))}, int64(alignment)
	if l.Far.One {
		aligned = profile.Block
	}
	if l.Far.Bytes < outside.Unlimited {
		problem.Capacity = l.Far.Bytes / aligned * aligned
	}
	for i, x := range chosen {
		problem.Buffers[i] = pack.Buffer{First: x.Out, Last: x.Back + 1, Size: m.bytes[names[i]], Align: aligned}
	}
	placed, err := m.pack(problem, pack.Effort{Looks: placingLooks, Context: m.ctx})
	if err != nil || placed.Height > l.Far.Bytes {
		return false
	}
	c.away = make([]Move, len(chosen))
	for i, x := range chosen {
		c.away[i] = Move{Value: m.g.Values[names[i]].Name, Bytes: m.bytes[names[i]], Out: x.Out, Gone: x.Gone, In: x.In, Back: x.Back, Far: placed.Offsets[i]}
	}
	return true
}

// wait is what the step waits for copies, ns.
func (p *Plan) wait() int64 {
	if p.Moved == nil {
		return 0
	}
	return p.Moved.WaitNS
}

// moved sums up what a candidate moves.
func (p *Plan) moved(c *candidate) *Moved {
	e := p.Request.Elsewhere
	if e == nil {
		return nil
	}
	far, s := p.m.far(e), &Moved{Place: e.Place, Budget: e.Bytes, Values: len(c.away), WaitNS: c.wait, Alone: -1}
	if p.Moved != nil {
		s.Alone = p.Moved.Alone
	}
	for _, x := range c.away {
		bytes := p.m.align(x.Bytes)
		s.Bytes, s.Peak = s.Bytes+x.Bytes, max(s.Peak, x.Far+x.Bytes)
		s.CopyNS += far.Out.Time(bytes) + far.In.Time(bytes)
	}
	return s
}

// movedBy puts the moves of a file into a candidate.
func (m *model) movedBy(c *candidate, moves []Move, e *Elsewhere) error {
	if len(moves) == 0 {
		return nil
	}
	if e == nil {
		return fmt.Errorf("it moves values, and its request names no place for them")
	}
	l := m.line(c.t, m.far(e))
	chosen := make([]moving.Move, len(moves))
	for i, x := range moves {
		v := m.g.ByName(x.Value)
		if v == nil {
			return fmt.Errorf("it moves %q, which is no value", x.Value)
		}
		k := m.lifeOf(c.t, v.ID, x.Out)
		if k < 0 {
			return fmt.Errorf("it moves %q at step %d, where that is not there", x.Value, x.Out)
		}
		chosen[i] = moving.Move{Span: k, Out: x.Out, Gone: x.Gone, In: x.In, Back: x.Back}
	}
	if _, _, _, err := moving.Check(l, chosen); err != nil {
		return err
	}
	c.t, _ = m.cut(c.t, chosen)
	c.away, c.wait = moves, l.Wait(chosen)
	return nil
}

// lifeOf is the life that the instance of a value lies in which is current before a launch, or −1.
func (m *model) lifeOf(t *timeline, v, before int32) (life int32) {
	life = -1
	made := 0
	for i, s := range t.steps {
		if int32(i) >= before {
			break
		}
		for _, o := range m.p.Outputs.Of(m.op[s.Node]) {
			if m.owners[o] == v {
				life = t.buffer[made]
			}
			made++
		}
	}
	return life
}

// How plans with moves are looked for.
const (
	awayLimits  = 100 // limits of the arena, as parts of what everything kept takes
	awayAnchors = 20  // which of them are looked for first
	awayPlaced  = 2   // plans of a limit that places are looked for: the second best where the best finds none

	// Moves that wait for awayWorse times the bound of plans that move nothing, and awayMore of a step, are not looked for.
	awayWorse, awayMore = 3, 0.05
)

// awayAbove is how far above a limit plans are taken whose values are moved, in parts. What such a plan runs again costs
// less the higher it is, and what it waits for copies more.
var awayAbove = []int64{awayLimits, 70, 53, 42, 33, 26, 20, 16, 12, 9, 7, 5, 4, 3, 2, 1}

// moved is the cheaper of a plan within a limit that moves nothing, which may be nil, and of one that does.
//
// Those are looked for at fixed limits. Every twentieth has the cheapest of the plans found for all of these up to it,
// unless a bound excludes that there is one. Halfway between two limits there is what was found there, if that costs no
// more than the plan of the lower one and no less than that of the upper one; else there is the plan of the lower one. So
// a lower limit never costs less. What costs no less than the plan that moves nothing is not looked for.
func (s *Search) moved(limit int64, c *candidate) *candidate {
	if s.plan.Request.Elsewhere == nil || s.base.placed.Height <= limit {
		return c
	}
	s.plan.Moved = &Moved{Alone: -1}
	most := math.Inf(1)
	if c != nil {
		s.plan.Moved.Alone, most = s.m.overhead(c.cost), c.cost
	}
	k := int64(awayLimits)
	for k > 0 && s.awayLimit(k) > limit {
		k--
	}
	if least, ok := s.least(s.awayLimit(k)); s.awayLimit(k) < s.plan.Floor.Peak || !ok || least >= most*(1-1e-9) {
		return c // no move leads there, or none for less
	}
	from, to := k/awayAnchors*awayAnchors, min(k/awayAnchors*awayAnchors+awayAnchors, awayLimits)
	low := s.anchored(from, most)
	if from == k {
		return limits.Cheaper(c, low)
	}
	if low != nil {
		most = low.cost
	}
	high := limits.Cheaper(low, s.awayAt(to, most))
	for from < k && high != nil && high != low { // else all between cost as much as low, or more than most
		m := from + (to-from)/2
		d := s.awayAt(m, most)
		if d == nil || d.cost < high.cost {
			d = low
		}
		switch {
		case m > k:
			to, high = m, d
		case d != nil:
			from, low, most = m, d, d.cost
		default:
			from = m
		}
	}
	return limits.Cheaper(c, low)
}

// anchored is the cheapest plan found at anchors up to one that costs less than most, or nil.
func (s *Search) anchored(k int64, most float64) (c *candidate) {
	for ; k > 0 && s.awayLimit(k) >= s.plan.Floor.Peak; k -= awayAnchors {
		if least, ok := s.least(s.awayLimit(k)); !ok || least >= most*(1-1e-9) {
			break
		}
		if d := s.awayAt(k, most); d != nil {
			c, most = d, d.cost
		}
	}
	return c
}

// awayLimit is one of the fixed limits.
func (s *Search) awayLimit(k int64) int64 {
	top := s.base.placed.Height
	return top/awayLimits*k + top%awayLimits*k/awayLimits
}

// plainLimit is about the same limit, where plans without moves are looked for.
func (s *Search) plainLimit(k int64) int64 {
	limit := s.awayLimit(k)
	if on := s.limits.Grid(limit); on > 0 {
		return on
	}
	return limit
}

// plainWithin is the cheapest plan found within a limit that moves nothing, or nil. A limit that has none is hard to
// search, so those below one are not.
func (s *Search) plainWithin(limit int64) (c *candidate) {
	if limit > s.noPlain {
		if c = s.limits.Within(limit); c == nil {
			s.noPlain = limit
		}
	}
	return c
}

// away is what was found at a fixed limit: a plan, or none that costs less than most.
type away struct {
	plan *candidate
	most float64
}

// awayAt is the cheapest plan that is found within a fixed limit by moving values of plans for higher ones, if it costs
// less than most; else nil.
func (s *Search) awayAt(at int64, most float64) *candidate {
	if at == awayLimits {
		return s.base
	}
	a, known := s.away[at]
	if !known || a.plan == nil && a.most < most {
		if s.away == nil {
			s.away = map[int64]away{}
		}
		a = away{s.lookAway(at, most), most}
		s.away[at] = a
	}
	if a.plan == nil || a.plan.cost >= most {
		return nil
	}
	return a.plan
}

// lookAway is the search of awayAt. Whatever most is, it finds the same plan, or nil.
func (s *Search) lookAway(at int64, most float64) *candidate {
	type try struct {
		from *candidate
		cost float64 // before places
	}
	var tries []try
	e, limit := s.plan.Request.Elsewhere, s.awayLimit(at)
	best, dear := most, float64(outside.Unlimited)
	if early, may := s.solver.Early(s.plainLimit(at)); may {
		dear = min(dear, awayWorse*early+awayMore*s.m.total)
	}
	for _, above := range awayAbove {
		from := s.base
		if at+above < awayLimits {
			plain := s.plainLimit(at + above)
			if least, ok := s.solver.Least(plain); !ok || least >= best {
				break // and so is what is lower
			}
			if from = s.plainWithin(plain); from == nil {
				break
			}
		} else if above < awayLimits {
			continue
		}
		if from.cost >= best {
			break
		}
		l := s.m.line(from.t, s.m.far(e))
		if _, wait, ok := l.Within(s.m.aligned(limit), int64(min(best-from.cost, outside.Unlimited)), int64(dear)); ok && from.cost+float64(wait) < best {
			best = from.cost + float64(wait)
			tries = append(tries, try{from, best})
		}
	}
	slices.SortStableFunc(tries, func(a, b try) int { return cmp.Compare(a.cost, b.cost) })
	for _, t := range tries[:min(awayPlaced, len(tries))] {
		if c := s.m.without(t.from, limit, e); c != nil {
			return c
		}
	}
	return nil
}

// lowestMoved is the lowest plan that moves values and costs at most so much, if it is lower than c.
func (s *Search) lowestMoved(c *candidate, most float64) *candidate {
	if s.plan.Request.Elsewhere == nil {
		return c
	}
	s.plan.Moved = &Moved{Alone: s.m.overhead(c.cost)}
	from, to := int64(0), int64(awayLimits)
	for from+1 < to {
		k := (from + to) / 2
		if s.awayLimit(k) >= c.placed.Height {
			to = k
			continue
		}
		d := (*candidate)(nil)
		if s.awayLimit(k) >= s.plan.Floor.Peak {
			d = s.awayAt(k, most*(1+1e-9))
		}
		if d == nil {
			from = k
			continue
		}
		c, to = d, k
	}
	return c
}

// least is a bound of what plans within a limit cost, with what they wait for copies, and whether there may be any.
func (s *Search) least(limit int64) (cost float64, may bool) {
	v, e := s.solver, s.plan.Request.Elsewhere
	if e == nil {
		return v.Least(limit)
	}
	m := s.m
	if s.begun == nil {
		s.begun = make([]int64, len(m.once)+1)
		for op, t := range m.once {
			s.begun[op+1] = s.begun[op] + t
			for _, o := range m.p.Outputs.Of(int32(op)) {
				s.largest = max(s.largest, m.align(m.bytes[m.owners[o]]))
			}
		}
	}
	far := m.far(e)
	return v.r.BoundMoved(m.aligned(limit), s.begun, recompute.Away{Bytes: far.Bytes, Out: far.Out.Best(s.largest), In: far.In.Best(s.largest)})
}
