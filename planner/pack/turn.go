package pack

import (
	"math"
	"slices"
)

const (
	little  = 250 // a turn that lowers by less than this share of the goal is the last
	turning = 400 // looks, for each life, that the first may cost
)

// turnOver turns the packing of p over and over for as long as that lowers it, until its top is no higher than enough or it
// is stopped. What is fixed cannot be turned.
func (p *part) turnOver(goal, enough int64, stopped func() bool) {
	if p.job.off("turn") {
		return
	}
	defer p.job.run("turn", p)()
	if p.fixed() {
		return
	}
	s := p.space(math.MaxInt)
	s.looks = turning * len(p.lives)
	at, next := slices.Clone(p.offsets), make([]int64, len(p.lives))
	for gain := goal; p.top > enough && gain >= max(goal/little, 1); {
		if stopped() {
			return
		}
		if p.clock.alone() < placing*len(p.lives)+s.looks { // as much as it was the last time
			return
		}
		s.looks = 0
		top := p.turn(s, at, next)
		p.clock.spend(s.looks + placing*len(p.lives))
		if gain = p.top - top; gain > 0 {
			p.offsets, p.top = append(p.offsets[:0], next...), top
		}
		at, next = next, at
	}
}

// turn turns the packing of p at offsets upside down and lets all lives sink, those that were highest first, each into the
// lowest gap that holds it: next is where they come to lie. Each may lie where the turn alone takes it, as those before
// it that it meets were above it and have only sunk deeper; so the packing becomes no higher, but for what alignments may
// want. It becomes lower where the holes below lives, such as a skyline leaves, lie above them now and others sink into
// them. This is the justification of V. Valls, F. Ballestín and S. Quintanilla, "Justification and RCPSP: a technique that
// pays", 2005.
func (p *part) turn(s *space, offsets, next []int64) (top int64) {
	order := make([]int32, len(p.lives))
	for i := range order {
		order[i] = int32(i)
	}
	sortBy(order, func(i int32) uint64 { return ^uint64(offsets[i] + p.lives[i].size) })
	s.empty()
	for _, i := range order {
		l := p.lives[i]
		s.look(l)
		next[i] = firstFit(s, l, p.floor)
		s.take(l, next[i])
		top = max(top, next[i]+l.size)
	}
	return top
}
