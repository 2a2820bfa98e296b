package pack

import (
	"cmp"
	"slices"
)

// push makes room for lives below a top by pushing others up. In the order in which lives lie on each other each has a lowest
// place, with all below it as low as they can be, and a highest, with all on it as high as they can be. A life goes between two
// of those it meets if it has room between where the lower ones end at their lowest and where the upper ones begin at their
// highest: then what is left free here and there in between is brought together. This is how an operation is put into a
// schedule of a job shop by heads and tails: F. Werner and A. Winkler, "Insertion techniques for the heuristic solution of the
// job shop problem", 1995.
type push struct {
	*part
	top       int64
	order     []int32 // of the lives that are in, each before those that lie on it
	low, high []int64 // by life
	near      []int32 // scratch: where in the order those are that meet one
	ends      []int64 // scratch: where those before each of them end
}

const (
	rounds = 24  // in each of which all places are found anew
	queued = 128 // lives, more than which are not worth them
)

// pushIn puts in lives that do not end at or below top at their offsets, the largest first, and says which are left.
func (p *part) pushIn(at []int64, top int64, stopped func() bool) (left []int32) {
	s := &push{part: p, top: top, low: slices.Clone(at), high: make([]int64, len(at))}
	for i, l := range p.lives {
		if at[i]+l.size > top {
			left = append(left, int32(i))
		} else {
			s.order = append(s.order, int32(i))
		}
	}
	slices.SortStableFunc(left, func(i, j int32) int { return bySize(p.lives[i], p.lives[j]) })
	alone := false
	for round := 0; round < rounds && len(left) > 0 && len(left) <= queued && !stopped(); round++ {
		s.sort()
		s.lift()
		order, rest := s.order, slices.Clone(left)
		if rest = s.insert(rest, alone); len(rest) == len(left) {
			break
		}
		if highest := s.sink(); highest > top { // two of them need the same room
			s.order, alone = order, true
			s.sink()
			continue
		}
		left, alone = rest, false
	}
	for _, i := range s.order {
		at[i] = s.low[i]
	}
	return left
}

// sort brings the order up to date with where lives are.
func (s *push) sort() {
	slices.SortFunc(s.order, func(i, j int32) int { return cmp.Or(cmp.Compare(s.low[i], s.low[j]), cmp.Compare(i, j)) })
}

// sink finds the lowest place of each life, and where the highest ends: nowhere if one comes to lie where another is fixed.
func (s *push) sink() (highest int64) {
	h := newHeights(s.sections)
	for _, i := range s.order {
		l := s.lives[i]
		at := up(max(s.floor, h.over(l.l, l.r)), l.align)
		if l.fixed != free {
			if at > l.fixed {
				return none
			}
			at = l.fixed
		}
		s.low[i] = at
		h.raise(l.l, l.r, at+l.size)
		highest = max(highest, at+l.size)
	}
	return highest
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
		s.high[i] = at
		h.raise(l.l, l.r, s.top-at)
	}
}

// insert puts those of lives into the order that find room and meet none that was put in before, only one if it is to be alone,
// and gives back the others.
func (s *push) insert(lives []int32, alone bool) (left []int32) {
	type place struct {
		before int // which of the order it comes
		life   int32
	}
	var places []place
	for _, x := range lives {
		l := s.lives[x]
		meets := slices.ContainsFunc(places, func(p place) bool { return s.lives[p.life].l < l.r && l.l < s.lives[p.life].r })
		before := -1
		if !meets && (!alone || len(places) == 0) {
			before = s.room(l)
		}
		if before < 0 {
			left = append(left, x)
		} else {
			places = append(places, place{before, x})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(a.life, b.life)) })
	order := make([]int32, 0, len(s.order)+len(places))
	from := 0
	for _, p := range places {
		order = append(append(order, s.order[from:p.before]...), p.life)
		from = p.before
	}
	s.order = append(order, s.order[from:]...)
	return left
}

// room is before which of the order l has most room to spare, or −1 if it has none.
func (s *push) room(l life) (before int) {
	s.near, s.ends = s.near[:0], s.ends[:0]
	end := s.floor
	for k, i := range s.order {
		if o := &s.lives[i]; o.l < l.r && l.l < o.r {
			s.near, s.ends = append(s.near, int32(k)), append(s.ends, end)
			end = max(end, s.low[i]+o.size)
		}
	}
	before = -1
	most := int64(-1)
	begin, next := s.top, len(s.order) // of those above, and the first of them
	for k := len(s.near); ; k-- {
		if spare := begin - up(end, l.align) - l.size; spare > most {
			most, before = spare, next
		}
		if k == 0 {
			return before
		}
		next, end = int(s.near[k-1]), s.ends[k-1]
		begin = min(begin, s.high[s.order[next]])
	}
}
