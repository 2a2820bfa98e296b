package pack

import (
	"slices"

	"memopt/memopt/stop"
)

// push makes room for lives below a top by pushing others up. Which of two lives that meet lies on the other is given, and so
// each has a lowest place, with all below it as low as they can be, and a highest, with all on it as high as they can be. A life
// goes between those that end at or below some address at their lowest and all others that it meets, if it has room from there
// to where the others begin at their highest: then what is left free here and there in between is brought together. No other
// way to part them leaves it more. It pushes up the lowest places of what lies on it, and down the highest ones of what lies
// below it, as far as they are in the way. This is how an operation is put into a schedule of a job shop by heads and tails:
// F. Werner and A. Winkler, "Insertion techniques for the heuristic solution of the job shop problem", 1995.
type push struct {
	*part
	meetings
	top    int64
	under  rim     // the floor, from which lives are at their lowest
	over   rim     // the top, from which they are at their highest
	moved  []move  // to be taken back if what is put in has no room
	queue  queue   // of lives that push others
	waits  []bool  // by life: whether it is in the queue
	near   []int32 // scratch: those that are in and meet one
	sorter sorter
	looks  int
	most   int // looks that there are
}

// rim is an edge of what there is to pack into, and how near lives can come to it.
type rim struct {
	at    []int64 // by life: how far its nearer end is from the edge, or none if it is not in
	was   []int64 // the same before anything was pushed, which is in the order of which lie on each other; −1 if it is not in
	where *cells  // who was where
	sign  int64   // 1 if lives rise from here, or −1
}

// move is what a place of a life was.
type move struct {
	edge *rim
	life int32
	was  int64
}

const (
	queued  = 400  // lives, more than which are not worth it
	pushing = 2000 // looks, for each life, that they are worth
	start   = 250  // and those after which it goes on only while at least
	hardly  = 4    // one of so many that were tried is in
)

// pushIn puts in lives that do not end at or below top at their offsets, the largest first, and says which are left and how many
// looks it took.
func (p *part) pushIn(who meetings, at []int64, top int64, looks int, stopped func() bool) (left []int32, took int) {
	left = p.above(at, top)
	if len(left) > queued || len(left) == 0 {
		return left, 0
	}
	n := len(p.lives)
	s := p.newPush(who, at, top, left)
	slices.SortStableFunc(left, func(i, j int32) int { return bySize(p.lives[i], p.lives[j]) })
	s.most = min(looks*n, p.clock.deep())
	rest := left[:0]
	in := 0
	for k, x := range left {
		stop.Poll(p.ctx)
		slow := s.looks > start*n && in*hardly < k // others are not worth more
		if s.looks > s.most || slow || stopped() || !s.insert(x) {
			rest = append(rest, x)
		} else {
			in++
		}
	}
	for i, low := range s.under.at {
		if low < none {
			at[i] = low
		}
	}
	return rest, s.looks
}

// above is the lives of p at offsets that do not end at or below top.
func (p *part) above(at []int64, top int64) (lives []int32) {
	for i, l := range p.lives {
		if at[i]+l.size > top {
			lives = append(lives, int32(i))
		}
	}
	return lives
}

// newPush is all lives of p but some, which are not in, where they stand, as low and as high as they can be.
func (p *part) newPush(who meetings, at []int64, top int64, out []int32) *push {
	n := len(p.lives)
	s := &push{part: p, meetings: who, top: top, waits: make([]bool, n)}
	s.under, s.over = s.newRim(1), s.newRim(-1)
	for _, x := range out {
		s.under.at[x], s.under.was[x], s.over.at[x], s.over.was[x] = none, -1, none, -1
	}
	in := make([]int32, 0, n-len(out))
	for i := range p.lives {
		if s.under.was[i] >= 0 {
			in = append(in, int32(i))
		}
	}
	s.sorter.sort(in, func(i int32) uint64 { return uint64(at[i]) })
	s.settle(in)
	return s
}

// newRim is an edge that nothing is near to.
func (s *push) newRim(sign int64) rim {
	n := len(s.lives)
	return rim{make([]int64, n), make([]int64, n), newCells(s.lives, s.sections, s.block, s.top), sign}
}

// put puts in life i.
func (e *rim) put(i int32, at int64) {
	e.at[i], e.was[i] = at, at
	e.where.add(i, at)
}

// settle finds the lowest and the highest place of each life of an order in which none comes before one it lies on, side by side.
func (s *push) settle(order []int32) {
	lowest := func(func() bool) bool {
		h := newHeights(s.sections)
		for _, i := range order {
			l := s.lives[i]
			at := l.fixed
			if at == free {
				at = up(max(s.floor, h.over(l.l, l.r)), l.align)
			}
			s.under.put(i, at)
			h.raise(l.l, l.r, at+l.size)
		}
		return false
	}
	highest := func(func() bool) bool {
		h := newHeights(s.sections) // upside down, from the top
		for _, i := range slices.Backward(order) {
			l := s.lives[i]
			at := s.top - l.fixed - l.size
			if l.fixed == free {
				at = s.from(&s.over, l, h.over(l.l, l.r))
			}
			s.over.put(i, at)
			h.raise(l.l, l.r, at+l.size)
		}
		return false
	}
	firstOf(lowest, highest)
	s.looks += 2 * sweep * len(order)
}

// from is how far from an edge life l is as near to it as it can be beyond an end.
func (s *push) from(e *rim, l life, end int64) int64 {
	if l.align == 1 {
		return end
	}
	if e.sign > 0 {
		return up(end, l.align)
	}
	at := s.top - end - l.size
	if at < 0 {
		return none // below the floor
	}
	return end + at%l.align
}

// insert puts life x in where it has most room to spare, if it has any.
func (s *push) insert(x int32) bool {
	l := s.lives[x]
	s.meet(x)
	end := func(i int32) int64 { return s.under.at[i] + s.lives[i].size }
	s.sorter.sort(s.near, func(i int32) uint64 { return uint64(end(i)) })
	most, low, high, cut := int64(-1), int64(0), int64(0), 0
	begin := int64(0) // of those above, from the top
	for k := len(s.near); ; k-- {
		at := up(s.floor, l.align)
		if k > 0 {
			at = up(end(s.near[k-1]), l.align)
		}
		if spare := s.top - begin - l.size - at; spare > most {
			most, low, high, cut = spare, at, begin, k
		}
		if k == 0 {
			break
		}
		j := s.near[k-1]
		begin = max(begin, s.over.at[j]+s.lives[j].size)
	}
	high = s.from(&s.over, l, high)
	if most < 0 || low+l.size+high > s.top {
		return false
	}
	s.moved = s.moved[:0]
	if s.shift(&s.under, &s.over, s.near[cut:], low+l.size) && s.shift(&s.over, &s.under, s.near[:cut], high+l.size) {
		for _, m := range s.moved {
			at, was := m.edge.at[m.life], &m.edge.was[m.life]
			m.edge.where.move(m.life, *was, at)
			*was = at
		}
		s.under.put(x, low)
		s.over.put(x, high)
		return true
	}
	for _, m := range slices.Backward(s.moved) {
		m.edge.at[m.life] = m.was
	}
	for _, t := range s.queue {
		s.waits[t.begin] = false
	}
	return false
}

// shift moves lives of near away from an edge as far as they are nearer to it than end, and what is in the way of those. It
// reports false if one of them comes too near to the edge opposite.
func (s *push) shift(e, opposite *rim, near []int32, end int64) bool {
	s.queue = s.queue[:0]
	for _, j := range near {
		if e.at[j] < end && !s.move(e, opposite, j, end) {
			return false
		}
	}
	for len(s.queue) > 0 {
		i := s.queue[0].begin
		s.queue.pop()
		s.waits[i] = false
		l := &s.lives[i]
		before, begun, to := s.of(*l)
		if s.looks += len(before) + int(to-begun); s.looks > s.most {
			return false
		}
		from, end := e.was[i]+l.size, e.at[i]+l.size // what is farther than i and meets it was not nearer than from
		for j := range e.where.near(l, from, end) {
			if e.at[j] < end && e.was[j] >= from && s.lives[j].l < l.r && s.lives[j].r > l.l && !s.move(e, opposite, j, end) {
				return false
			}
		}
	}
	return true
}

// move is shift for one life, which pushes others when it is its turn.
func (s *push) move(e, opposite *rim, j int32, end int64) bool {
	l := s.lives[j]
	at := s.from(e, l, end)
	if at > s.top-l.size-opposite.at[j] {
		return false
	}
	s.moved = append(s.moved, move{e, j, e.at[j]})
	e.at[j] = at
	if !s.waits[j] {
		s.waits[j] = true
		s.queue.push(turn{s.under.was[j] * e.sign, j})
	}
	return true
}

// meet makes near the lives that are in and meet life x, which is not.
func (s *push) meet(x int32) {
	near, looks := s.meeting(s.lives[x], s.lives, s.under.was, s.near)
	s.near = near
	s.looks += 4 * looks
}

const sweep = 60 // looks that it costs to find a place of a life anew
