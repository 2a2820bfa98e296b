package recompute

import (
	"cmp"
	"slices"
	"sort"
)

// away is a move that is being chosen: the span is gone during launches [lo, hi) at least, and for as much longer around
// these as copies hide behind launches.
type away struct {
	span, lo, hi int32
	idle         Idle
}

// mover chooses moves for a line.
type mover struct {
	l     *Line
	begun []int64 // by launch, when it begins if nothing waits; and the end
	aways []away
	moves []Move // of aways, in their order
	live  []int64
	order []int
	waits waits
}

// What choosing looks at.
const (
	widened = 3 // moves in flight at the peak that are tried for longer
	begunBy = 4 // spans that are tried at the peak
)

// Within chooses moves after which no more than limit bytes are alive at any launch, for as little waiting as it finds. No
// move is left without which the limit would be kept. ok is false where it finds none.
func (l *Line) Within(limit int64) (moves []Move, wait int64, ok bool) {
	m := &mover{l: l, begun: make([]int64, len(l.Time)+1)}
	for i, t := range l.Time {
		m.begun[i+1] = m.begun[i] + t
	}
	m.live = l.live(nil)
	for {
		at := int32(0)
		for i, bytes := range m.live {
			if bytes > m.live[at] {
				at = int32(i)
			}
		}
		if len(m.live) == 0 || m.live[at] <= limit {
			break
		}
		if !m.lower(at, m.live[at]-limit) {
			return nil, 0, false
		}
	}
	m.prune(limit)
	slices.SortFunc(m.moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Out, b.Out), cmp.Compare(a.In, b.In), cmp.Compare(a.Span, b.Span))
	})
	return m.moves, l.Wait(m.moves), true
}

// lower takes bytes away at a launch: a span is moved, or one that is in flight there is away for longer. Of a few such
// changes that look best, it makes the one that waits least for the bytes that it helps by.
func (m *mover) lower(at int32, over int64) bool {
	type change struct {
		index  int // of aways; its length is one more
		with   away
		bytes  int64
		wait   int64
		idle   int64
		before away
	}
	var longer, more []change
	used := map[Idle]bool{}
	for i, a := range m.aways {
		used[Idle{a.span, a.idle.From}] = true
		x := m.moves[i]
		if a.idle.From <= at && at < a.idle.To && (at < x.Gone || at >= x.In) {
			b := a
			b.lo, b.hi = min(a.lo, at), max(a.hi, at+1)
			longer = append(longer, change{index: i, with: b, before: a, bytes: m.l.Spans[a.span].Bytes, wait: m.late(b)})
		}
	}
	room := m.l.Far.Bytes - m.l.far(m.moves)
	for k := range m.l.Spans {
		s := &m.l.Spans[k]
		if !(s.First < at && at < s.Last) || s.Bytes == 0 || s.Bytes > room {
			continue
		}
		i, found := sort.Find(len(s.Idle), func(i int) int {
			switch d := s.Idle[i]; {
			case at < d.From:
				return -1
			case at >= d.To:
				return 1
			}
			return 0
		})
		if !found || used[Idle{int32(k), s.Idle[i].From}] {
			continue
		}
		a := away{span: int32(k), lo: at, hi: at + 1, idle: s.Idle[i]}
		more = append(more, change{index: len(m.aways), with: a, bytes: s.Bytes, wait: m.late(a), idle: m.begun[a.idle.To] - m.begun[a.idle.From]})
	}
	helps := func(c change) float64 { return float64(min(c.bytes, over)) }
	best := func(a, b change) int {
		return cmp.Or(cmp.Compare(float64(a.wait)/helps(a), float64(b.wait)/helps(b)), cmp.Compare(b.idle, a.idle), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.with.span, b.with.span))
	}
	slices.SortStableFunc(longer, best)
	slices.SortStableFunc(more, best)
	tries := append(longer[:min(widened, len(longer))], more[:min(begunBy, len(more))]...)
	if len(tries) == 0 {
		return false
	}
	waited := m.waits.run(m.l, m.moves)
	chosen, least := -1, 0.0
	for i := range tries {
		m.take(tries[i].index, tries[i].with)
		price := float64(m.waits.run(m.l, m.moves)-waited) / helps(tries[i])
		if chosen < 0 || price < least {
			chosen, least = i, price
		}
		m.untake(tries[i].index, tries[i].before)
		if i+1 < len(tries) && price <= 0 {
			break
		}
	}
	m.take(tries[chosen].index, tries[chosen].with)
	m.live = m.l.live(m.moves)
	return true
}

// late is how long a move waits if its copies have the engines to themselves.
func (m *mover) late(a away) int64 {
	bytes := m.l.Spans[a.span].Bytes
	out := m.begun[a.idle.From] + m.l.Far.Out.Time(bytes) - m.begun[a.lo]
	in := m.begun[a.hi] + m.l.Far.In.Time(bytes) - m.begun[a.idle.To]
	return max(out, 0) + max(in, 0)
}

func (m *mover) take(i int, a away) {
	if i == len(m.aways) {
		m.aways = append(m.aways, a)
	} else {
		m.aways[i] = a
	}
	m.fit()
}

func (m *mover) untake(i int, before away) {
	if before.idle == (Idle{}) {
		m.aways = m.aways[:i]
	} else {
		m.aways[i] = before
	}
	m.fit()
}

// fit gives moves their launches. Copies out begin as soon as they can; copies back begin as late as they can for what
// they bring to be there in time, and where they must begin even later they are waited for.
func (m *mover) fit() {
	m.moves = m.moves[:0]
	for _, a := range m.aways {
		m.moves = append(m.moves, Move{Span: a.span, Out: a.idle.From, Back: a.idle.To})
	}
	m.order = m.order[:0]
	for i := range m.aways {
		m.order = append(m.order, i)
	}
	order := m.order
	slices.SortStableFunc(order, func(a, b int) int { return int(m.aways[a].idle.From - m.aways[b].idle.From) })
	free := int64(0)
	for _, i := range order {
		a, x := &m.aways[i], &m.moves[i]
		free = max(free, m.begun[a.idle.From]) + m.l.Far.Out.Time(m.l.Spans[a.span].Bytes)
		gone, _ := slices.BinarySearch(m.begun, free)
		x.Gone = min(int32(gone), a.lo)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(m.aways[b].idle.To - m.aways[a].idle.To) })
	next := m.begun[len(m.begun)-1]
	for _, i := range order {
		a, x := &m.aways[i], &m.moves[i]
		next = min(next, m.begun[a.idle.To]) - m.l.Far.In.Time(m.l.Spans[a.span].Bytes)
		in, exact := slices.BinarySearch(m.begun, next)
		if !exact {
			in--
		}
		x.In = min(max(int32(in), a.hi), a.idle.To)
		next = max(next, m.begun[x.In])
	}
}

// prune takes back moves without which the limit is kept: nothing is moved for nothing.
func (m *mover) prune(limit int64) {
	wait := m.waits.run(m.l, m.moves)
	for i := 0; i < len(m.aways); {
		a := m.aways[i]
		m.aways = slices.Delete(m.aways, i, i+1)
		m.fit()
		if slices.Max(m.l.live(m.moves)) <= limit {
			if w := m.waits.run(m.l, m.moves); w <= wait {
				wait = w
				continue
			}
		}
		m.aways = slices.Insert(m.aways, i, a)
		m.fit()
		i++
	}
}
