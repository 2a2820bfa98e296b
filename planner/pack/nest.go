package pack

import (
	"math"

	"memopt/memopt/stop"
)

// nested packs many lives that lie within each other, as those of a training step do: what is made early is read late.
func nested(p *part, t target) (offsets []int64, top int64) {
	limit := t.near
	if !t.capped {
		limit = t.goal + t.goal/exact
	}
	offsets = make([]int64, len(p.lives))
	for _, order := range [...]func() []int32{p.startFirst, p.longestFirst} {
		if top, ok := p.nest(order(), offsets, min(limit, math.MaxInt64-1)+1); ok {
			return offsets, top
		}
	}
	return nil, 0
}

// exact is the share of the goal above it that nested lives may leave without a capacity. Others come closer than what leaves more.
const exact = 1 << 14

// nest places the lives that are not short in some order, each on the highest of those before it at any of its times;
// where they are nested that leaves no gap. Short ones, which follow each other as links of a chain do, get the lowest
// gap above the others, in the order in which they begin. It gives up when a life comes to end at or above limit, or
// where too many short ones meet.
func (p *part) nest(order []int32, offsets []int64, limit int64) (top int64, ok bool) {
	s := newHeights(p.sections)
	for _, i := range order {
		stop.Poll(p.ctx)
		l := p.lives[i]
		at := up(max(p.floor, s.over(l.l, l.r)), l.align)
		if at+l.size >= limit {
			return 0, false
		}
		s.raise(l.l, l.r, at+l.size)
		offsets[i], top = at, max(top, at+l.size)
	}
	base := s.sections(p.sections)
	var open []int32 // short lives that have not ended, lowest first
	looks := 0
	for i, l := range p.lives {
		if l.r-l.l > brief {
			continue
		}
		stop.Poll(p.ctx)
		if looks += len(open); looks > throng*len(p.lives) {
			return 0, false
		}
		at := p.floor
		for _, b := range base[l.l:l.r] {
			at = max(at, b)
		}
		at = up(at, l.align)
		n, put := 0, -1
		for _, j := range open {
			o := p.lives[j]
			if o.r <= l.l {
				continue
			}
			if put < 0 && offsets[j] >= at+l.size {
				put = n
			}
			if put < 0 {
				at = max(at, up(offsets[j]+o.size, l.align))
			}
			open[n] = j
			n++
		}
		if at+l.size >= limit {
			return 0, false
		}
		offsets[i], top = at, max(top, at+l.size)
		if put < 0 {
			put = n
		}
		open = append(open[:n], 0)
		copy(open[put+1:], open[put:n])
		open[put] = int32(i)
	}
	return top, true
}

const (
	brief  = 32  // sections that a short life has at most
	throng = 250 // others that are open when a short life begins, on average, among which it takes too long to find its gap
)

// startFirst is the lives that are not short, early ones first, and of those that begin together the longest.
func (p *part) startFirst() []int32 {
	order := make([]int32, 0, len(p.lives))
	for from, to := 0, 0; from < len(p.lives); from = to {
		for to = from + 1; to < len(p.lives) && p.lives[to].l == p.lives[from].l; to++ {
		}
		for i := to - 1; i >= from; i-- { // they are sorted by their ends
			if l := p.lives[i]; l.r-l.l > brief {
				order = append(order, int32(i))
			}
		}
	}
	return order
}

// longestFirst is the lives that are not short, those of most sections first.
func (p *part) longestFirst() []int32 {
	place := make([]int32, p.sections+2) // by sections that a life lacks of all
	n := int32(0)
	for _, l := range p.lives {
		if l.r-l.l > brief {
			place[p.sections-(l.r-l.l)+1]++
			n++
		}
	}
	for i := 1; i < len(place); i++ {
		place[i] += place[i-1]
	}
	order := make([]int32, n)
	for i, l := range p.lives {
		if l.r-l.l > brief {
			k := p.sections - (l.r - l.l)
			order[place[k]] = int32(i)
			place[k]++
		}
	}
	return order
}
