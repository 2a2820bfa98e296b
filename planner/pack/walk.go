package pack

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"memopt/memopt/stop"
)

// walk packs lives in the order of time, below a limit, as an allocator would that knows how long each will last: beside one that
// ends at about the same time, so that what both leave is one hole, or where it leaves nothing beside it. That does best where
// about as many bytes as there is room for are alive at all times, as in a heap under a cap, and a packing from the bottom up is
// too high everywhere.
//
// What finds no room is not put on top. It was something shortly before that went wrong, and what was long before has nothing to do
// with it: so it goes back a little, the further the more often it comes to nothing, and goes on by another taste. Only if
// that does not help, or there is no time for it, the limit is raised, by as little as any of these tries came to. So each moment
// at which room is short is dealt with for itself, where a climb has to be lucky at all of them.
type walk struct {
	lives   []life
	order   []int32 // lives as they begin, large ones first
	ends    []int32 // by section: a life that ends there, or -1
	with    []int32 // by life: another one that ends where it does, or -1
	mean    float64 // sections that a life lasts
	floor   int64
	limit   int64
	at      []int64
	below   []int32         // by life and for the limit: what is next to it, of which the floor comes behind all lives, and the limit behind that
	above   []int32         // by life and for the floor
	gaps    []int32         // what has a gap above it
	gap     []int32         // by life and for the floor: where it stands in gaps, or -1
	section int32           // up to which lives have ended
	placed  int             // of the order
	every   int             // lives placed between two moments that it can go back to
	looks   int             // at gaps
	ctx     context.Context // polled at each step
}

// taste is how a walk chooses a gap: what each thing costs.
type taste struct {
	beside float64 // that a gap is left beside it
	spare  float64 // each byte of that, as a share of its own
	mate   float64 // how far off the end of what it lies next to is, as a share of how long lives last
	other  float64 // the same of what is on the other side, where no gap is left, as a share of mate
	own    float64 // how far that is a share of how long the life itself lasts
	root   bool    // of how far off ends are the root counts
}

var tastes = [...]taste{
	{0.3, 0.1, 0.4, 1.1, 0.5, false},
	{0.2, 0.02, 1.1, 0.55, 1, false},
	{0.2, 0.2, 2.8, 0.4, 0, true},
	{0.6, 0.06, 3.3, 0.5, 0, true},
	{1, 0.02, 10, 0.2, 1, true},
	{1.4, 0.8, 0.8, 1, 0.5, true},
	{0.15, 0.03, 1.8, 1, 1, false},
	{0.12, 0.15, 7, 0.7, 0, true},
	{0.15, 0.04, 3.4, 0.07, 0, true},
}

const (
	marked   = 4   // as many times as lives are alive at once, at most, a walk can go back to
	leastGap = 8   // lives between two of these moments at least
	furthest = 6   // doublings of how far it goes back
	patient  = 3   // tries of each
	walked   = 30  // tries in all
	pace     = 16  // looks that a step costs beside those at gaps
	paces    = 600 // looks, for each life, that other tries are worth
	briefly  = 90  // as many where there is room at most times, which are not worth counting
	clearly  = 4   // where room is short, walks are lower than a skyline by this share of what that leaves, or given up

	nearlyAll = 0.875 // of the bytes, on average
)

// walks packs p by walks, two side by side, one forward and one backward in time, and says whether there is nothing more to do: one
// is enough, or room is short at all times, where walks are tried for as long as there is time, unless the first are not clearly
// lower than a skyline that ends at top. Where there is room at most times climbs do better, but for what comes again and again in
// turns, as the stages of a pipeline do; so a few short walks that never have to raise the limit are tried before them.
func (p *part) walks(goal, top int64) bool {
	if p.job.off("walk") {
		return false
	}
	defer p.job.run("walk", p)()
	enough, most := goal+goal/fair, top-(top-goal)/clearly
	looks, short := paces*len(p.lives), p.short(goal, top)
	if !short {
		looks, most = briefly*len(p.lives), min(enough+1, top)
	}
	if most <= enough {
		return false
	}
	walks := [...]*walk{newWalk(p), newWalk(p.backward())}
	for seed := uint64(0); looks > 0 && p.clock.alone() > max(walks[0].looks, walks[1].looks); seed += uint64(len(walks)) {
		var fills []func(q *part, stopped func() bool)
		for k, s := range walks {
			fills = append(fills, func(q *part, stopped func() bool) {
				if s.run(enough, min(q.top, most), seed+uint64(k), looks, stopped) {
					q.offsets, q.top, q.by = slices.Clone(s.at), topOf(q.lives, s.at), "walk"
				}
				if short {
					q.clock.spend(s.looks)
				}
			})
		}
		switch p.keepBest(enough, 1, fills...); {
		case p.top <= enough:
			return true
		case !short:
			looks -= max(walks[0].looks, walks[1].looks)
		case p.top >= most:
			return false
		}
	}
	return short
}

// backward is p with time the other way round, which has the same packings.
func (p *part) backward() *part {
	q := &part{lives: slices.Clone(p.lives), sections: p.sections, floor: p.floor, ctx: p.ctx, job: p.job}
	for i, l := range p.lives {
		q.lives[i].l, q.lives[i].r = p.sections-l.r, p.sections-l.l
	}
	return q
}

// short is whether nearly all that there is room for is alive at all times, and a skyline that ends at top is steep for it.
func (p *part) short(goal, top int64) bool {
	return top-goal > goal/steep && p.area() >= nearlyAll*float64(goal-p.floor)*float64(p.sections)
}

func newWalk(p *part) *walk {
	n := len(p.lives)
	s := &walk{
		lives: p.lives, floor: p.floor, ctx: p.ctx, order: make([]int32, n), ends: make([]int32, p.sections+1), with: make([]int32, n),
		at: make([]int64, n), below: make([]int32, n+2), above: make([]int32, n+2), gap: make([]int32, n+2),
	}
	for t := range s.ends {
		s.ends[t] = -1
	}
	for i, l := range p.lives {
		s.order[i], s.with[i], s.ends[l.r] = int32(i), s.ends[l.r], int32(i)
		s.mean += float64(l.r - l.l)
	}
	s.mean /= float64(n)
	together := slices.Max(sumOf(p.lives, p.sections, func(*life) int64 { return 1 }))
	s.every = max(int(together)/marked, leastGap)
	for i := range s.gap {
		s.gap[i] = -1
	}
	slices.SortFunc(s.order, func(i, j int32) int {
		a, b := &s.lives[i], &s.lives[j]
		return cmp.Or(cmp.Compare(a.l, b.l), cmp.Compare(b.size, a.size), cmp.Compare(i, j))
	})
	return s
}

func (s *walk) floorID() int32 { return int32(len(s.lives)) }
func (s *walk) limitID() int32 { return int32(len(s.lives)) + 1 }

// top is where a life ends, or the floor.
func (s *walk) top(i int32) int64 {
	if i == s.floorID() {
		return s.floor
	}
	return s.at[i] + s.lives[i].size
}

// bottom is where a life begins, or the limit.
func (s *walk) bottom(i int32) int64 {
	if i == s.limitID() {
		return s.limit
	}
	return s.at[i]
}

// see has gaps be true of what is above i.
func (s *walk) see(i int32) {
	is := s.bottom(s.above[i]) > s.top(i)
	switch k := s.gap[i]; {
	case is && k < 0:
		s.gap[i] = int32(len(s.gaps))
		s.gaps = append(s.gaps, i)
	case !is && k >= 0:
		s.forget(i)
	}
}

func (s *walk) forget(i int32) {
	k := s.gap[i]
	if k < 0 {
		return
	}
	last := s.gaps[len(s.gaps)-1]
	s.gaps[k], s.gap[last] = last, k
	s.gaps, s.gap[i] = s.gaps[:len(s.gaps)-1], -1
}

// join puts a above b.
func (s *walk) join(b, a int32) { s.above[b], s.below[a] = a, b }

// mark is a moment of a walk.
type mark struct {
	placed  int
	section int32
	alive   []int32 // from the floor up
	at      []int64
}

func (s *walk) mark() mark {
	m := mark{placed: s.placed, section: s.section}
	for i := s.above[s.floorID()]; i != s.limitID(); i = s.above[i] {
		m.alive, m.at = append(m.alive, i), append(m.at, s.at[i])
	}
	return m
}

// back goes back to a moment.
func (s *walk) back(m mark) {
	for _, i := range s.gaps {
		s.gap[i] = -1
	}
	s.gaps = s.gaps[:0]
	s.placed, s.section = m.placed, m.section
	last := s.floorID()
	for k, i := range m.alive {
		s.at[i] = m.at[k]
		s.join(last, i)
		s.see(last)
		last = i
	}
	s.join(last, s.limitID())
	s.see(last)
}

// raise has the limit be where it is needed.
func (s *walk) raise(limit int64) {
	s.limit = limit
	s.see(s.below[s.limitID()])
}

// step places the next life, if there is room. All products are rounded, so that no machine joins them with sums to its own numbers.
func (s *walk) step(t taste) bool {
	i := s.order[s.placed]
	l := &s.lives[i]
	for ; s.section < l.l; s.section++ {
		for gone := s.ends[s.section+1]; gone >= 0; gone = s.with[gone] {
			s.forget(gone)
			below := s.below[gone]
			s.join(below, s.above[gone])
			s.see(below)
		}
	}
	best, least, to := int32(-1), math.Inf(1), int64(0)
	per := 1 / (float64(s.mean*(1-t.own)) + float64(t.own*float64(l.r-l.l)))
	s.looks += pace + len(s.gaps)
	for _, k := range s.gaps {
		from, end := s.top(k), s.bottom(s.above[k])
		at := up(from, l.align)
		spare := end - from - l.size
		if at+l.size > end {
			continue
		}
		below, above := s.off(k, l.r, per, t), s.off(s.above[k], l.r, per, t)
		cost := 0.0
		if spare == 0 {
			cost = float64(t.mate * (min(below, above) + float64(t.other*max(below, above))))
		} else {
			if above < below {
				at = end - l.size - (end-l.size)%l.align
			}
			cost = t.beside + float64(t.spare*float64(spare)/float64(l.size)) + float64(t.mate*min(below, above))
		}
		if cost < least || cost == least && at < to {
			best, least, to = k, cost, at
		}
	}
	if best < 0 {
		return false
	}
	s.at[i] = to
	above := s.above[best]
	s.join(best, i)
	s.join(i, above)
	s.see(best)
	s.see(i)
	s.placed++
	return true
}

// off is how far the end of life i is off another one; the floor and the limit are not.
func (s *walk) off(i, end int32, per float64, t taste) float64 {
	if int(i) >= len(s.lives) {
		return 0
	}
	x := float64(math.Abs(float64(end-s.lives[i].r)) * per)
	if t.root {
		return math.Sqrt(x)
	}
	return x
}

// need is the limit below which the next life has room.
func (s *walk) need() int64 {
	l := &s.lives[s.order[s.placed]]
	return up(s.top(s.below[s.limitID()]), l.align) + l.size
}

// fail is the try that came nearest to go past a life.
type fail struct {
	mark
	need  int64
	since []int64 // where those lives stood that may have been tried otherwise by now
}

// run walks through all lives from a limit on, by some taste first, which it tries others beside for as long as it has looks. It gives
// up where it is not below most, or takes twice as many.
func (s *walk) run(limit, most int64, seed uint64, looks int, stopped func() bool) bool {
	if s.limit, s.looks = limit, 0; limit >= most {
		return false
	}
	s.back(mark{section: -1})
	marks := []mark{s.mark()}
	dice := rand.New(rand.NewPCG(seed, 0))
	t := tastes[seed%uint64(len(tastes))]
	at, tries := -1, 0 // the life that it does not get past, and how often it was tried
	first := 0         // the life that it goes back to at most
	var best fail
	for s.placed < len(s.order) {
		if s.placed >= marks[len(marks)-1].placed+s.every {
			if marks = append(marks, s.mark()); stopped() || s.looks > 2*looks {
				return false
			}
		}
		stop.Poll(s.ctx)
		if s.step(t) {
			continue
		}
		if s.placed > at {
			at, tries, best = s.placed, 0, fail{need: math.MaxInt64}
			first = marks[before(marks, at-s.every<<furthest)].placed
		}
		if need := s.need(); s.placed == at && need < best.need {
			best = fail{mark: s.mark(), need: need}
			for _, i := range s.order[first:at] {
				best.since = append(best.since, s.at[i])
			}
		}
		if tries == walked || s.looks > looks {
			if best.need >= most {
				return false
			}
			for k, i := range s.order[first:at] {
				s.at[i] = best.since[k]
			}
			s.back(best.mark)
			s.raise(best.need)
			marks = append(marks[:before(marks, first)+1], best.mark)
			at, tries = -1, 0
			continue
		}
		marks = marks[:before(marks, at-s.every<<min(tries/patient, furthest))+1]
		tries++
		s.back(marks[len(marks)-1])
		t = tastes[dice.IntN(len(tastes))]
		for _, x := range []*float64{&t.beside, &t.spare, &t.mate, &t.other} {
			*x *= moreOrLess[dice.IntN(len(moreOrLess))]
		}
	}
	return true
}

// before is the last of marks that is not behind a life, or the first.
func before(marks []mark, placed int) int {
	for k := len(marks) - 1; k > 0; k-- {
		if marks[k].placed <= placed {
			return k
		}
	}
	return 0
}
