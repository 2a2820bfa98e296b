package pack

// Quick places the buffers of p as Solve does, but with the first few strategies alone: no climb, no search. It is for
// loops that ask often and need to know roughly how high an arena comes; p.Capacity is not looked at. A problem that is
// not well formed panics, since a loop has looked at it before.
func Quick(p Problem) Solution {
	if err := valid(p); err != nil {
		panic(err)
	}
	lives, sections := livesOf(p)
	goal := mostLive(lives, sections)
	s := Solution{Offsets: make([]int64, len(p.Buffers)), Bound: bound(p, goal), Strategy: "stack"}
	parts := divide(lives, sections, s.Offsets)
	for _, q := range parts {
		q.unplaced()
		q.try(strategies[:min(quickRows, len(strategies))], newSpace(q.sections), goal+goal/hardly)
	}
	s.read(p, parts)
	return s
}

const (
	quickRows = 3
	hardly    = 1 << 8 // a share of the goal that is not worth another strategy to Quick
)

// Again places the buffers of p, a problem like one that was solved before: from says which buffer of that each is, or
// −1 for none. Those that still have a place at their old offset keep it, the longest first, and the others get the
// lowest that is left. It costs one strategy, however good the solution before was; where much has changed it is no
// better than one.
func Again(p Problem, before Solution, from []int) Solution {
	if err := valid(p); err != nil {
		panic(err)
	}
	lives, sections := livesOf(p)
	s := Solution{Offsets: make([]int64, len(p.Buffers)), Bound: bound(p, mostLive(lives, sections)), Strategy: "again"}
	room := newSpace(sections)
	var homeless []life
	byPlace := func(l life) int64 {
		if i := from[l.id]; i >= 0 {
			return before.Offsets[i]
		}
		return -1
	}
	for _, l := range sortedBy(lives, bySpan) {
		at := byPlace(l)
		if at < 0 || at%l.align != 0 {
			homeless = append(homeless, l)
			continue
		}
		room.look(l.l, l.r)
		if offset, _ := room.free(at, l.size, l.align); offset != at {
			homeless = append(homeless, l)
			continue
		}
		room.take(l.l, l.r, at, at+l.size)
		s.Offsets[l.id] = at
	}
	for _, l := range sortedBy(homeless, bySize) {
		room.look(l.l, l.r)
		at := firstFit(room, l, 0)
		room.take(l.l, l.r, at, at+l.size)
		s.Offsets[l.id] = at
	}
	s.read(p, nil)
	s.Strategy = "again"
	return s
}
