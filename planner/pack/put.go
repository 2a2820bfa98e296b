package pack

import (
	"math"
	"slices"
)

// side is a space for a stretch of the time of a part, and the lives that are to be put in there.
type side struct {
	*space
	rest []int32
}

// put is where all lives of p stand if those that are in stand at offsets, and each of the rest in the lowest gap that holds
// it up to top, or on top if there is none. The time is cut in two: of the rest those come first that are alive on both sides,
// which are few, and then each side has its own, beside the other.
func (p *part) put(h halves, offsets []int64, top int64) (at []int64) {
	at = make([]int64, len(p.lives))
	for k, i := range h.in {
		at[i] = offsets[k]
	}
	rising := slices.Clone(h.in) // as what is taken above all others takes least time to note
	sortBy(rising, func(i int32) uint64 { return uint64(at[i]) })
	middle := p.middle(h.rest)
	sides := [...]*side{
		{space: newSpace(0, middle, math.MaxInt)},
		{space: newSpace(middle, p.sections, math.MaxInt)},
	}
	for _, s := range sides {
		s.ctx = p.ctx
	}
	each := func(do func(s *side)) {
		firstOf(func(func() bool) bool { do(sides[0]); return false }, func(func() bool) bool { do(sides[1]); return false })
	}
	each(func(s *side) {
		for _, i := range h.rest {
			s.expect(p.lives[i])
		}
		for _, i := range rising {
			s.take(p.lives[i], at[i])
		}
	})
	for _, i := range h.rest {
		switch l := p.lives[i]; {
		case l.r <= middle:
			sides[0].rest = append(sides[0].rest, i)
		case l.l >= middle:
			sides[1].rest = append(sides[1].rest, i)
		default:
			sides[0].look(l)
			sides[1].look(l)
			sides[0].meets = append(sides[0].meets, sides[1].meets...)
			if at[i] = firstFit(sides[0].space, l, p.floor); at[i]+l.size <= top {
				sides[0].take(l, at[i])
				sides[1].take(l, at[i])
			} else {
				at[i] = top
			}
		}
	}
	each(func(s *side) {
		for _, i := range s.rest {
			l := p.lives[i]
			s.look(l)
			if at[i] = firstFit(s.space, l, p.floor); at[i]+l.size <= top {
				s.take(l, at[i])
			} else {
				at[i] = top
			}
		}
	})
	p.clock.share(sides[0].looks + sides[1].looks + placing*len(p.lives))
	return at
}

// middle is a section, not the first, at which few lives of rest are alive and about as many end before as begin after.
func (p *part) middle(rest []int32) int32 {
	begin, end := make([]int, p.sections+1), make([]int, p.sections+1)
	for _, i := range rest {
		begin[p.lives[i].l]++
		end[p.lives[i].r]++
	}
	best, least := p.sections/2, math.MaxInt
	before, behind := 0, len(rest)-begin[0]
	for t := int32(1); t < p.sections; t++ {
		before += end[t]
		if cost := 2*(len(rest)-before-behind) + max(before, behind); cost < least {
			best, least = t, cost
		}
		behind -= begin[t]
	}
	return best
}
