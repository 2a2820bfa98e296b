package moving

import (
	"cmp"
	"slices"
)

// away is a move that is being chosen: the span is gone during launches [lo, hi) at least, and for as much longer around
// these as copies hide behind launches.
type away struct {
	idle   int32 // of mover.idles
	lo, hi int32
	off    bool // it was taken back
}

// stay is an idle time of a span.
type stay struct {
	span, from, to int32
	bytes          int64
	used           bool // by a move
}

// mover chooses moves for a line.
type mover struct {
	l      *Line
	way    way
	clocks *clocks // by which moves are chosen
	idles  []stay  // by from
	most   int64   // of bytes that one may take
	aways  []away
	moves  []Move  // of aways, in their order
	saved  []Move  // before a change that is tried
	byFrom []int32 // aways in the order of their copies out
	byTo   []int32 // aways in the reverse order of their copies back
	plain  []int64 // bytes alive without moves
	live   []int64
	moved  int64 // the sum of the bytes of moves
	waited int64
}

// What choosing looks at.
const (
	widened = 3 // moves in flight at the peak that are tried for longer
	begunBy = 4 // spans that are tried at the peak
)

// ways are how moves are chosen; the moves that wait least are taken. The first prefers spans that are idle for long, which
// may fill an engine with small copies that take long to begin. The second weighs that with what copies take. The last
// takes copies to be slower than they are, and so begins with those that hide best.
var ways = []way{{slower: 1}, {slower: 1, weighs: true}, {slower: 3}}

type way struct {
	slower int64 // copies are taken to be as much slower
	weighs bool  // of changes that wait for nothing the best has the longest idle time for what its copies take, not the longest
}

// Within chooses moves after which no more than limit bytes are alive at any launch, for as little waiting as it finds. No
// move is left without which the limit would be kept. ok is false where it finds none, where a bound excludes that any wait
// for less than most, and where the waits come to dear on the way, though fewer may be left in the end.
func (l *Line) Within(limit, most, dear int64) (moves []Move, wait int64, ok bool) {
	clocks := newClocks(l)
	if l.mover(clocks, ways[0]).needs(limit) >= most {
		return nil, 0, false
	}
	for _, w := range ways {
		m := l.mover(clocks, w)
		chosen, found := m.within(limit, dear)
		if !found {
			continue
		}
		if waits := clocks.run(chosen); !ok || waits < wait {
			moves, wait, ok = chosen, waits, true
		}
		if wait == 0 {
			break
		}
	}
	return moves, wait, ok
}

// within is Within by one way.
func (m *mover) within(limit, dear int64) (moves []Move, ok bool) {
	for {
		at := m.peak()
		if len(m.live) == 0 || m.live[at] <= limit {
			break
		}
		if !m.lower(at, m.live[at]-limit) || m.waited/m.way.slower >= dear {
			return nil, false
		}
	}
	m.prune(limit)
	moves = slices.DeleteFunc(m.moves, func(x Move) bool { return x.Out < 0 })
	sortMoves(moves)
	return moves, true
}

// sortMoves puts moves in the order in which they leave.
func sortMoves(moves []Move) {
	slices.SortFunc(moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Out, b.Out), cmp.Compare(a.In, b.In), cmp.Compare(a.Span, b.Span))
	})
}

func (l *Line) mover(c *clocks, w way) *mover {
	m := &mover{l: l, way: w, clocks: c.slower(w.slower), plain: l.live(nil)}
	m.live = slices.Clone(m.plain)
	for k := range l.Spans {
		s := &l.Spans[k]
		for _, d := range s.Idle {
			if s.Bytes > 0 {
				m.idles = append(m.idles, stay{int32(k), d.From, d.To, s.Bytes, false})
				m.most = max(m.most, s.Bytes)
			}
		}
	}
	slices.SortStableFunc(m.idles, func(a, b stay) int { return int(a.from - b.from) })
	return m
}

// needs is a lower bound of the wait of any moves that keep a limit, and endless if there are none. What must be gone at
// a launch was copied out before it, and comes back behind it, at no more than the rate of the largest copy.
func (m *mover) needs(limit int64) (wait int64) {
	idle, begun := make([]int64, len(m.l.Time)+1), m.clocks.begun
	for _, d := range m.idles {
		idle[d.from] += d.bytes
		idle[d.to] -= d.bytes
	}
	out, in := m.l.Far.Out.Best(m.most), m.l.Far.In.Best(m.most)
	there := int64(0)
	for i, bytes := range m.live {
		if there += idle[i]; bytes <= limit {
			continue
		}
		over := bytes - limit
		if over > min(there, m.l.Far.Bytes) {
			return endlessWait
		}
		wait = max(wait, max(0, int64(float64(over)/out)-begun[i])+max(0, int64(float64(over)/in)-(begun[len(begun)-1]-begun[i+1])))
	}
	return wait
}

// endlessWait is above any wait.
const endlessWait = 1 << 62

// peak is the launch at which most bytes are alive, with the present moves.
func (m *mover) peak() (at int32) {
	copy(m.live, m.plain)
	change := m.clocks.change
	clear(change)
	for i := range m.moves {
		if x := &m.moves[i]; x.Out >= 0 {
			bytes := m.l.Spans[x.Span].Bytes
			change[x.Gone] -= bytes
			change[x.In] += bytes
		}
	}
	sum := int64(0)
	for i := range m.live {
		sum += change[i]
		if m.live[i] += sum; m.live[i] > m.live[at] {
			at = int32(i)
		}
	}
	return at
}

// lowering is a change that may lower the peak: a new move, or one that is longer.
type lowering struct {
	index int // of aways; its length is one more
	with  away
	price float64 // what it waits for each byte that it helps by, if its copies have the engines to themselves
	idle  float64 // what the way looks for where nothing waits
	bytes int64
	span  int32
}

// before orders changes by what looks best.
func (a *lowering) before(b *lowering) bool {
	return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(b.idle, a.idle), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.span, b.span)) < 0
}

// insert puts a change into the best few.
func insert(few []lowering, c lowering, most int) []lowering {
	i := len(few)
	for i > 0 && c.before(&few[i-1]) {
		i--
	}
	if i == most {
		return few
	}
	if len(few) == most {
		few = few[:most-1]
	}
	return slices.Insert(few, i, c)
}

// lower takes bytes away at a launch: a span is moved, or one that is in flight there is away for longer. Of a few such
// changes that look best, it makes the one that waits least for the bytes that it helps by.
func (m *mover) lower(at int32, over int64) bool {
	helps := func(bytes int64) float64 { return float64(min(bytes, over)) }
	var few [widened + begunBy]lowering
	longer := few[:0]
	for i, a := range m.aways {
		d, x := &m.idles[a.idle], &m.moves[i]
		if d.from <= at && at < d.to && (at < x.Gone || at >= x.In) {
			a.lo, a.hi = min(a.lo, at), max(a.hi, at+1)
			longer = insert(longer, lowering{index: i, with: a, bytes: d.bytes, span: d.span, price: float64(m.late(a)) / helps(d.bytes)}, widened)
		}
	}
	room := m.l.Far.Bytes - m.moved
	if room < m.most {
		room = m.l.Far.Bytes - m.l.far(m.moves)
	}
	more := few[len(longer):len(longer)]
	for i := range m.idles {
		d := &m.idles[i]
		if d.from > at {
			break
		}
		if at >= d.to || d.used || d.bytes > room {
			continue
		}
		a := away{idle: int32(i), lo: at, hi: at + 1}
		more = insert(more, lowering{index: len(m.aways), with: a, bytes: d.bytes, span: d.span,
			price: float64(m.late(a)) / helps(d.bytes), idle: m.idle(d, helps(d.bytes))}, begunBy)
	}
	tries := few[:len(longer)+len(more)]
	if len(tries) == 0 {
		return false
	}
	m.saved = append(m.saved[:0], m.moves...)
	chosen, least, waited := -1, 0.0, int64(0)
	for i := range tries {
		before := m.take(&tries[i])
		wait := m.clocks.run(m.moves)
		price := float64(wait-m.waited) / helps(tries[i].bytes)
		if chosen < 0 || price < least {
			chosen, least, waited = i, price, wait
		}
		if price <= 0 { // the first one
			m.waited = wait
			return true
		}
		m.untake(&tries[i], before)
	}
	m.take(&tries[chosen])
	m.waited = waited
	return true
}

// late is how long a move waits if its copies have the engines to themselves.
func (m *mover) late(a away) int64 {
	d, c := &m.idles[a.idle], m.clocks
	out := c.begun[d.from] + c.out[d.span] - c.begun[a.lo]
	in := c.begun[a.hi] + c.in[d.span] - c.begun[d.to]
	return max(out, 0) + max(in, 0)
}

// idle is how long a span is idle, or that for the time that its copies take for each byte that they help by.
func (m *mover) idle(d *stay, helps float64) float64 {
	c := m.clocks
	long := float64(c.begun[d.to] - c.begun[d.from])
	if m.way.weighs {
		return long * helps / float64(max(c.out[d.span]+c.in[d.span], 1))
	}
	return long
}

// take makes a change, and returns the move that was there before.
func (m *mover) take(c *lowering) (before away) {
	if c.index < len(m.aways) {
		before = m.aways[c.index]
		m.aways[c.index] = c.with
	} else {
		i, d := int32(c.index), &m.idles[c.with.idle]
		d.used, m.moved = true, m.moved+d.bytes
		m.aways, m.moves = append(m.aways, c.with), append(m.moves, Move{})
		at := func(k int32) *stay { return &m.idles[m.aways[k].idle] }
		from, _ := slices.BinarySearchFunc(m.byFrom, i, func(k, _ int32) int {
			return cmp.Or(cmp.Compare(at(k).from, d.from), -1) // behind those that are as early
		})
		m.byFrom = slices.Insert(m.byFrom, from, i)
		to, _ := slices.BinarySearchFunc(m.byTo, i, func(k, _ int32) int {
			return cmp.Or(cmp.Compare(d.to, at(k).to), cmp.Compare(at(k).from, d.from), -1)
		})
		m.byTo = slices.Insert(m.byTo, to, i)
	}
	m.fit()
	return before
}

// untake undoes a change.
func (m *mover) untake(c *lowering, before away) {
	if c.index < len(m.saved) {
		m.aways[c.index] = before
	} else {
		i, d := int32(c.index), &m.idles[c.with.idle]
		d.used, m.moved = false, m.moved-d.bytes
		m.aways = m.aways[:i]
		other := func(k int32) bool { return k == i }
		m.byFrom, m.byTo = slices.DeleteFunc(m.byFrom, other), slices.DeleteFunc(m.byTo, other)
	}
	m.moves = append(m.moves[:0], m.saved...)
}

// fit gives moves their launches. Copies out begin as soon as they can; copies back begin as late as they can for what
// they bring to be there in time, and where they must begin even later they are waited for.
func (m *mover) fit() {
	c, free := m.clocks, int64(0)
	for _, i := range m.byFrom {
		a, x := &m.aways[i], &m.moves[i]
		if a.off {
			x.Out = -1
			continue
		}
		d := &m.idles[a.idle]
		x.Span, x.Out, x.Back = d.span, d.from, d.to
		free = max(free, c.begun[d.from]) + c.out[d.span]
		gone, _ := slices.BinarySearch(c.begun[:a.lo], free)
		x.Gone = int32(gone)
	}
	next := c.begun[len(c.begun)-1]
	for _, i := range m.byTo {
		a, x := &m.aways[i], &m.moves[i]
		if a.off {
			continue
		}
		d := &m.idles[a.idle]
		next = min(next, c.begun[d.to]) - c.in[d.span]
		in, exact := slices.BinarySearch(c.begun, next)
		if !exact {
			in--
		}
		x.In = min(max(int32(in), a.hi), d.to)
		next = max(next, c.begun[x.In])
	}
}

// prune takes back moves without which the limit is kept: nothing is moved for nothing.
func (m *mover) prune(limit int64) {
	for i := range m.aways {
		m.aways[i].off = true
		m.fit()
		if m.live[m.peak()] <= limit {
			if w := m.clocks.run(m.moves); w <= m.waited {
				m.waited = w
				continue
			}
		}
		m.aways[i].off = false
	}
	m.fit()
}
