package pack

import (
	"cmp"
	"math"
	"slices"
)

// push makes room for lives below a top by pushing others up. In the order in which lives lie on each other each has a lowest
// place, with all below it as low as they can be, and a highest, with all on it as high as they can be. A life goes between two
// of those it meets if it has room between where the lower ones end at their lowest and where the upper ones begin at their
// highest: then what is left free here and there in between is brought together. It pushes up what lies on it, and down the
// highest places of what lies below it, as far as they are in the way. This is how an operation is put into a
// schedule of a job shop by heads and tails: F. Werner and A. Winkler, "Insertion techniques for the heuristic solution of the
// job shop problem", 1995.
type push struct {
	*part
	meetings
	top   int64
	order []int32 // of the lives that were in when it was made, each before those that lie on it
	key   []int64 // by life: rises in that order, and with those put in since; −1 for those that are not in
	low   []int64 // by life: its lowest place
	high  []int64 // and where it ends at its highest
	moved []move  // to be taken back if what is put in has no room
	queue queue   // of lives that push others
	waits []bool  // by life: whether it is in the queue
	near  []int32 // scratch: those that are in and meet one
	ends  []int64 // scratch: where those before each of them end
	looks int
}

// move is what a place of a life was.
type move struct {
	place *int64
	was   int64
}

const (
	rounds  = 4       // in each of which the order is found anew
	spacing = 1 << 32 // between the keys of lives that follow each other
	queued  = 400     // lives, more than which are not worth them
	pushing = 1000    // looks, for each life, that they are worth
)

// pushIn puts in lives that do not end at or below top at their offsets, the largest first, and says which are left.
func (p *part) pushIn(at []int64, top int64, stopped func() bool) (left []int32) {
	s := &push{part: p, top: top, low: slices.Clone(at), high: make([]int64, len(at)), key: make([]int64, len(at)), waits: make([]bool, len(at))}
	for i, l := range p.lives {
		if at[i]+l.size > top {
			left = append(left, int32(i))
		} else {
			s.order = append(s.order, int32(i))
		}
	}
	if len(left) > queued || len(left) == 0 {
		return left
	}
	s.meetings = newMeetings(p)
	slices.SortStableFunc(left, func(i, j int32) int { return bySize(p.lives[i], p.lives[j]) })
	looks := min(pushing*len(p.lives), min(p.clock.alone(), math.MaxInt/deeply)*deeply)
	defer func() { p.clock.spend(s.looks / deeply) }()
	for range rounds {
		s.sort(left)
		s.sink()
		s.lift()
		var rest []int32
		for _, x := range left {
			if s.looks > looks || stopped() || !s.insert(x) {
				rest = append(rest, x)
			} else {
				s.order = append(s.order, x)
			}
		}
		done := len(rest) == 0 || len(rest) == len(left)
		if left = rest; done {
			break
		}
	}
	for _, i := range s.order {
		at[i] = s.low[i]
	}
	return left
}

// sort brings the order up to date with where lives are, but for those that are left.
func (s *push) sort(left []int32) {
	slices.SortFunc(s.order, func(i, j int32) int { return cmp.Or(cmp.Compare(s.low[i], s.low[j]), cmp.Compare(i, j)) })
	for k, i := range s.order {
		s.key[i] = int64(k+1) * spacing
	}
	for _, i := range left {
		s.key[i] = -1
	}
}

// sink finds the lowest place of each life.
func (s *push) sink() {
	h := newHeights(s.sections)
	for _, i := range s.order {
		l := s.lives[i]
		at := l.fixed
		if at == free {
			at = up(max(s.floor, h.over(l.l, l.r)), l.align)
		}
		s.low[i] = at
		h.raise(l.l, l.r, at+l.size)
	}
	s.looks += sweep * len(s.order)
}

// lift finds the highest place of each life.
func (s *push) lift() {
	h := newHeights(s.sections) // upside down, from the top
	for k := len(s.order) - 1; k >= 0; k-- {
		i := s.order[k]
		l := s.lives[i]
		at := l.fixed
		if at == free {
			at = s.top - h.over(l.l, l.r) - l.size
			at -= at % l.align
		}
		s.high[i] = at + l.size
		h.raise(l.l, l.r, s.top-at)
	}
	s.looks += sweep * len(s.order)
}

// insert puts life x in where it has most room to spare, if it has any.
func (s *push) insert(x int32) bool {
	l := s.lives[x]
	s.meet(x)
	slices.SortFunc(s.near, func(i, j int32) int { return cmp.Compare(s.key[i], s.key[j]) })
	s.ends = s.ends[:0]
	end := s.floor
	for _, i := range s.near {
		s.ends = append(s.ends, end)
		end = max(end, s.low[i]+s.lives[i].size)
	}
	most := int64(-1)
	begin := s.top // of those above
	for k := len(s.near); ; k-- {
		if low := up(end, l.align); begin-low-l.size > most && begin-low >= l.size {
			most = begin - low - l.size
			s.low[x], s.high[x] = low, begin
			s.key[x] = s.between(k)
		}
		if k == 0 {
			break
		}
		end = s.ends[k-1]
		under := s.near[k-1]
		begin = min(begin, s.high[under]-s.lives[under].size)
	}
	if most < 0 || s.key[x] < 0 {
		s.key[x] = -1
		return false
	}
	s.high[x] -= (s.high[x] - l.size) % l.align
	s.moved = s.moved[:0]
	if s.raise(x) && s.drop(x) {
		return true
	}
	for _, m := range slices.Backward(s.moved) {
		*m.place = m.was
	}
	for _, t := range s.queue {
		s.waits[t.begin] = false
	}
	s.key[x] = -1
	return false
}

// between is a key before that of the k-th of near and behind that of the one before it, or −1 if none is left.
func (s *push) between(k int) int64 {
	before := int64(0)
	if k > 0 {
		before = s.key[s.near[k-1]]
	}
	behind := before + 2*spacing
	if k < len(s.near) {
		behind = s.key[s.near[k]]
	}
	if behind-before < 2 {
		return -1
	}
	return before + (behind-before)/2
}

// raise pushes up what lies on x and reports false if one of those would be too high.
func (s *push) raise(x int32) bool {
	s.queue = append(s.queue[:0], turn{s.key[x], x})
	for len(s.queue) > 0 {
		i := s.queue[0].begin
		s.queue.pop()
		s.waits[i] = false
		key, end := s.key[i], s.low[i]+s.lives[i].size
		before, from, to := s.of(s.lives[i])
		s.looks += len(before) + int(to-from)
		for _, j := range before {
			if s.low[j] < end && s.key[j] > key && !s.raiseOne(i, j, end) {
				return false
			}
		}
		for j := from; j < to; j++ {
			if s.low[j] < end && s.key[j] > key && !s.raiseOne(i, j, end) {
				return false
			}
		}
	}
	return true
}

// raiseOne is raise for life j alone, which is to begin at an end or above it if it meets i.
func (s *push) raiseOne(i, j int32, end int64) bool {
	l := &s.lives[j]
	if l.r <= s.lives[i].l {
		return true
	}
	low := up(end, l.align)
	if low+l.size > s.high[j] {
		return false
	}
	s.moved = append(s.moved, move{&s.low[j], s.low[j]})
	s.low[j] = low
	s.enqueue(j, s.key[j])
	return true
}

// drop is raise for the highest places of what lies below x, which may become too low.
func (s *push) drop(x int32) bool {
	s.queue = append(s.queue[:0], turn{-s.key[x], x})
	for len(s.queue) > 0 {
		i := s.queue[0].begin
		s.queue.pop()
		s.waits[i] = false
		key, begin := s.key[i], s.high[i]-s.lives[i].size
		before, from, to := s.of(s.lives[i])
		s.looks += len(before) + int(to-from)
		for _, j := range before {
			if s.high[j] > begin && s.key[j] < key && !s.dropOne(i, j, begin) {
				return false
			}
		}
		for j := from; j < to; j++ {
			if s.high[j] > begin && s.key[j] < key && !s.dropOne(i, j, begin) {
				return false
			}
		}
	}
	return true
}

// dropOne is drop for life j alone, which is to end at a begin or below it if it meets i and is in.
func (s *push) dropOne(i, j int32, begin int64) bool {
	l := &s.lives[j]
	if l.r <= s.lives[i].l || s.key[j] < 0 {
		return true
	}
	high := begin - l.size
	if high < s.low[j] {
		return false
	}
	s.moved = append(s.moved, move{&s.high[j], s.high[j]})
	s.high[j] = begin - high%l.align
	s.enqueue(j, -s.key[j])
	return true
}

// enqueue has life i push others when it is its turn.
func (s *push) enqueue(i int32, at int64) {
	if !s.waits[i] {
		s.waits[i] = true
		s.queue.push(turn{at, i})
	}
}

// meet makes near the lives that are in and meet life x, which is not.
func (s *push) meet(x int32) {
	near, looks := s.meeting(s.lives[x], s.lives, s.key, s.near)
	s.near = near
	s.looks += 4 * looks
}

const sweep = 60 // looks that it costs to find a place of a life anew
