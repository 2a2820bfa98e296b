package pack

import (
	"cmp"
	"slices"

	"memopt/memopt/stop"
)

// shove puts in lives for which pushing others is not enough. Each goes where those that are in its way, however far they are
// pushed, are easiest to place. It drives these out, what they held off an edge comes nearer to that, and they are put in next.
// What is hard to place weighs more, as it does to a mend, which looks at less for each life: to that all others stay where they
// are, and some seem to be in the way that could move aside.
type shove struct {
	*push
	hardness
	out      []int32  // lives to be put in, the next one last
	coarsest int64    // of the alignments
	froms    []window // scratch
	tos      []window
	spots    []int64
	below    []int32
}

// window is where another life must not begin for the sake of one: the addresses between two.
type window struct {
	from, to int64
	life     int32
}

const (
	shoved  = 40     // lives, more than which are not worth it
	shoving = 10_000 // looks, for each life, that it is worth
)

// shoveIn puts in lives that do not end at or below top at their offsets, and says whether all are in and how many looks that took.
// If they are not, offsets stay what they were.
func (p *part) shoveIn(who meetings, at []int64, top, goal int64, stopped func() bool) (in bool, took int) {
	left := p.above(at, top)
	s := &shove{push: p.newPush(who, at, top, left), hardness: p.hardness(goal), out: left}
	s.most = min(shoving*len(p.lives), p.clock.deep())
	for _, l := range p.lives {
		s.coarsest = max(s.coarsest, l.align)
	}
	slices.SortFunc(s.out, s.easier)
	for most := 2*len(s.out) + astray; len(s.out) > 0; {
		if s.looks > s.most || len(s.out) > most || stopped() {
			return false, s.looks
		}
		stop.Poll(p.ctx)
		last := len(s.out) - 1
		x := s.out[last]
		s.out = s.out[:last]
		if s.insert(x) {
			continue
		}
		driven, ok := s.inTheWay(x)
		if !ok {
			return false, s.looks
		}
		s.drove(x)
		for _, y := range driven {
			s.remove(y)
		}
		slices.SortFunc(driven, s.easier)
		s.out = append(s.out, driven...)
		if !s.insert(x) { // alignments want more than was seen
			s.out = append(s.out, x)
		}
	}
	copy(at, s.under.at)
	return true, s.looks
}

// inTheWay is whom life x drives out where they weigh least, in the lowest of such places. There may be none, for what is fixed.
func (s *shove) inTheWay(x int32) (lives []int32, ok bool) {
	l := s.lives[x]
	s.meet(x)
	s.looks += 16 * len(s.near)
	s.froms, s.spots = s.froms[:0], append(s.spots[:0], up(s.floor, l.align))
	for _, j := range s.near {
		size := s.lives[j].size
		w := window{s.top - s.over.at[j] - size - l.size, s.under.at[j] + size, j}
		if w.from >= w.to {
			continue // it moves aside wherever x goes
		}
		s.froms = append(s.froms, w)
		s.spots = append(s.spots, up(w.to, l.align))
		if low := w.from - max(w.from, 0)%l.align; low >= s.floor {
			s.spots = append(s.spots, low)
		}
	}
	s.tos = append(s.tos[:0], s.froms...)
	slices.SortFunc(s.froms, func(a, b window) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.life, b.life)) })
	slices.SortFunc(s.tos, func(a, b window) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.life, b.life)) })
	slices.Sort(s.spots)

	best, least := int64(-1), 0.0
	met, stuck, above, below := 0, 0, 0.0, 0.0 // of those that begin to be in the way, and of those that are no more
	from, to := 0, 0
	for _, at := range s.spots {
		if at+l.size > s.top || best >= 0 && least == 0 {
			break
		}
		for ; from < len(s.froms) && s.froms[from].from < at; from++ {
			j := s.froms[from].life
			above += s.weight[j]
			met++
			if s.lives[j].fixed != free {
				stuck++
			}
		}
		for ; to < len(s.tos) && s.tos[to].to <= at; to++ {
			j := s.tos[to].life
			below += s.weight[j]
			met--
			if s.lives[j].fixed != free {
				stuck--
			}
		}
		if stuck > 0 {
			continue
		}
		weight := above - below
		if met == 0 {
			weight = 0
		}
		if best < 0 || weight < least {
			best, least = at, weight
		}
	}
	if best < 0 {
		return nil, false
	}
	for _, w := range s.froms {
		if w.from < best && best < w.to {
			lives = append(lives, w.life)
		}
	}
	return lives, true
}

// remove takes out life y, and brings what it held off an edge nearer to that.
func (s *shove) remove(y int32) {
	for _, e := range [...]*rim{&s.under, &s.over} {
		was := e.was[y]
		e.where.remove(y, was)
		e.at[y], e.was[y] = none, -1
		s.queue = s.queue[:0]
		s.held(e, y, was+s.lives[y].size)
		for len(s.queue) > 0 {
			j := s.queue[0].begin
			s.queue.pop()
			s.waits[j] = false
			s.settleOne(e, j)
		}
	}
}

// held has those wait for their turn that an end of life i may have held off an edge.
func (s *shove) held(e *rim, i int32, end int64) {
	if end >= s.top {
		return
	}
	l := &s.lives[i]
	for j := range e.where.near(l, end, min(end+s.coarsest, s.top)) {
		s.looks++
		o := &s.lives[j]
		if !s.waits[j] && e.was[j] >= end && o.l < l.r && l.l < o.r && o.fixed == free {
			s.waits[j] = true
			s.queue.push(turn{e.was[j], j})
		}
	}
}

// settleOne brings life j as near to an edge as those nearer to it let it, and has those wait that it held off that.
func (s *shove) settleOne(e *rim, j int32) {
	l, was := s.lives[j], e.was[j]
	var looks int
	s.below, looks = s.meeting(l, s.lives, e.was, s.below)
	s.looks += 2 * looks
	end := int64(0)
	if e.sign > 0 {
		end = s.floor
	}
	for _, i := range s.below {
		if e.was[i] < was {
			end = max(end, e.at[i]+s.lives[i].size)
		}
	}
	at := s.from(e, l, end)
	if at >= was {
		return
	}
	e.where.move(j, was, at)
	e.at[j], e.was[j] = at, at
	s.held(e, j, was+l.size)
}
