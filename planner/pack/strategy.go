package pack

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// strategy places the lives of a part one after another in some order, each in a gap that suits it.
type strategy struct {
	name  string
	order func(a, b life) int
	fit   func(s *space, l life, floor int64) (offset int64)
}

// strategies are tried from the top. Those that do best on training steps come first, each next to one unlike it.
var strategies = []strategy{
	{"size, first fit", bySize, firstFit},
	{"span, best fit", bySpan, bestFit},
	{"area, first fit", byArea, firstFit},
	asTheyCome,
	{"size, best fit", bySize, bestFit},
	{"start, best fit", byTurn, bestFit},
	{"span, first fit", bySpan, firstFit},
	{"area, best fit", byArea, bestFit},
}

// asTheyCome packs lives in the order of time. Where the same lives come again and again, each finds the bytes of the one
// before it, and no skyline does as well.
var asTheyCome = strategy{"start, first fit", byTurn, firstFit}

const (
	few       = 2000    // lives are worth any effort for the last byte, and a search
	patience  = 2048    // looks at the space, for each life, after which no further strategy is tried
	simplest  = 700     // as many for each that many lives get, or half as many where there is no more time
	glance    = 256     // as many for the first strategy alone, before a skyline
	fine      = 1 << 14 // nested lives that leave no more than this share of the goal are enough
	simple    = 256     // a first strategy that leaves no more than this share of the goal is enough for many lives
	quickRows = 3       // strategies that many lives get at most
	alike     = 16      // lives of each size at least, on average, that are packed as they come
	recurring = 64      // lives of each size and length at least, on average, that come again and again
	again     = 1000    // looks, for each life, at lives as they come
	steep     = 32      // a skyline that leaves this share of the goal is worth some strategies, as are pieces that do
)

// portfolio packs p and keeps the lowest packing. Pieces of something that was cut up are joined again: many first of all, and
// few if nothing else will do.
func portfolio(p *part, goal, near int64) {
	p.unplaced()
	if p.fixed() {
		p.around(goal)
		return
	}
	if len(p.lives) <= few {
		if p.pack(goal, near); p.top > goal {
			p.keep(p.joins(goal, near))
		}
		return
	}
	joined := p.joins(goal, near)
	if joined.far(goal, steep) {
		p.pack(goal, near)
	}
	p.keep(joined)
}

// pack packs p, in which no life is fixed. Few lives get one strategy after another until the top is no higher
// than goal, and skylines if that leaves a gap; where it is wide the fewest will get a search first. Many alternate where no
// three meet, are nested, or go around in a ring, and if they do not they get the first strategy, which gives up early
// where it does not do: the lives of a training step lie within each other, and that is easy. If it gives up they get a skyline;
// where that is not near enough they are packed as they come. A few strategies have a try where sizes are too large for it, or it
// comes nowhere near.
func (p *part) pack(goal, near int64) {
	if len(p.lives) <= few {
		p.orders(strategies, p.space(patience*len(p.lives)), goal)
		switch {
		case p.top-goal <= goal/content:
			p.sharpen(goal, near)
		case len(p.lives) > fewest:
			p.grow(goal)
		}
		return
	}
	if goal <= mostClimbed && p.alternate() && !p.far(goal, content) || p.nests(near) || p.rings(goal, goal+goal/content) {
		return
	}
	p.grow(goal)
	p.simply(goal, p.top)
}

// simply keeps the lowest of what simple strategies make of many lives that come out steep otherwise, if that is lower. They are
// tried side by side, and once.
func (p *part) simply(goal, top int64) {
	if p.job.off("simple") {
		return
	}
	defer p.job.run("simple", p)()
	if p.simple || top-goal <= goal/steep {
		return
	}
	p.simple = true
	looks := simplest * len(p.lives)
	if p.clock.alone() <= 0 {
		looks /= 2
	}
	var fills []func(q *part, stopped func() bool)
	for _, t := range strategies[:quickRows] {
		fills = append(fills, func(q *part, stopped func() bool) {
			s := q.space(looks)
			s.stopped = stopped
			q.try([]strategy{t}, s, goal)
			q.clock.spend(s.looks)
		})
	}
	p.keepBest(goal, quickRows-1, fills...)
}

// settles packs many lives with the first strategy if that ends at or below top. What does not fill a quarter of it with a
// 64th of the looks, or three quarters with an eighth, does not come to an end with all of them.
func (p *part) settles(top int64, stopped func() bool) bool {
	if p.job.off("first fit") {
		return false
	}
	defer p.job.run("first fit", p)()
	s := p.space(glance * len(p.lives))
	all := p.area()
	s.stopped = func() bool {
		return stopped() || s.looks > s.most/64 && s.filled < all/4 || s.looks > s.most/8 && s.filled < all*3/4
	}
	offsets := make([]int64, len(p.lives))
	t := strategies[0]
	reached, ok := t.place(p, s, offsets, min(top, math.MaxInt64-1)+1)
	if ok {
		p.offsets, p.top, p.by = offsets, reached, "first fit"
	}
	return ok
}

// comes packs many lives as they come, if they are of few sizes, and mends that, if it is lower than what there is and not far
// above what is near enough.
func (p *part) comes(goal, enough int64, stopped func() bool) {
	if p.job.off("come") {
		return
	}
	defer p.job.run("come", p)()
	if !p.fewKinds(alike, func(l *life) kind { return kind{size: l.size} }) {
		return
	}
	s := p.space(min(again*len(p.lives), p.clock.alone()))
	defer func() { p.clock.spend(s.looks) }()
	s.stopped = stopped
	come := *p
	come.offsets, come.top = nil, min(p.top, goal+goal/hopeful) // what ends higher does not become near enough
	below := come.top
	if come.try([]strategy{asTheyCome}, s, goal); come.top < below {
		come.mend(goal, enough, mending*len(p.lives), stopped)
		p.keep(come)
	}
}

// kind is a size, or a size and a length.
type kind struct {
	size   int64
	length int32
}

// fewKinds is whether there are so many lives of each kind at least, on average.
func (p *part) fewKinds(each int, of func(l *life) kind) bool {
	kinds := map[kind]bool{}
	for i := range p.lives {
		if kinds[of(&p.lives[i])] = true; len(kinds) > len(p.lives)/each {
			return false
		}
	}
	return true
}

// recurs is whether the same lives come again and again.
func (p *part) recurs() bool {
	return p.fewKinds(recurring, func(l *life) kind { return kind{l.size, l.r - l.l} })
}

// far is whether p is not packed yet, or by more than a share of the goal above it.
func (p *part) far(goal, share int64) bool { return p.top == math.MaxInt64 || p.top-goal > goal/share }

// unplaced makes p one that nothing has packed.
func (p *part) unplaced() { p.offsets, p.top = make([]int64, len(p.lives)), math.MaxInt64 }

// try packs p with each strategy of rows, until its top is no higher than near.
func (p *part) try(rows []strategy, s *space, near int64) {
	offsets := make([]int64, len(p.lives))
	for _, t := range rows {
		if p.top <= near || s.looks > s.most {
			return
		}
		if top, ok := t.place(p, s, offsets, p.top); ok {
			p.offsets, offsets = offsets, p.offsets
			p.top, p.by = top, "orders"
		}
	}
}

// place packs p into the empty space s and fills offsets. It gives up when a life comes to end at or above limit, or
// many lives that have a packing have used up the looks.
func (t strategy) place(p *part, s *space, offsets []int64, limit int64) (top int64, ok bool) {
	order := make([]int32, len(p.lives))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := p.lives[i], p.lives[j]
		return cmp.Or(cmp.Compare(min(b.fixed, 0), min(a.fixed, 0)), t.order(a, b), cmp.Compare(i, j))
	})
	s.empty()
	for _, i := range order {
		l := p.lives[i]
		offset := l.fixed
		if offset == free {
			s.look(l)
			offset = t.fit(s, l, p.floor)
		}
		end := offset + l.size
		if end >= limit || len(order) > few && limit < math.MaxInt64 && s.looks > s.most || s.stopped() {
			return 0, false
		}
		s.take(l, offset)
		offsets[i], top = offset, max(top, end)
	}
	return top, true
}

// bySize puts large lives before small ones, long before short where they are as large.
func bySize(a, b life) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.span, a.span))
}

// byArea puts lives that are large for long before others.
func byArea(a, b life) int {
	aHigh, aLow := bits.Mul64(uint64(a.size), uint64(a.span))
	bHigh, bLow := bits.Mul64(uint64(b.size), uint64(b.span))
	return cmp.Or(cmp.Compare(bHigh, aHigh), cmp.Compare(bLow, aLow))
}

// bySpan puts long lives before short ones, large before small where they are as long.
func bySpan(a, b life) int {
	return cmp.Or(cmp.Compare(b.span, a.span), cmp.Compare(b.size, a.size))
}

// byStart puts early lives before late ones, as an allocator that runs along would meet them; large before small where
// they are as early.
func byStart(a, b life) int {
	return cmp.Or(cmp.Compare(a.l, b.l), cmp.Compare(b.size, a.size))
}

// byTurn is byStart, and puts long lives before short ones where they are as early and as large.
func byTurn(a, b life) int {
	return cmp.Or(byStart(a, b), cmp.Compare(b.span, a.span))
}

// byEnd puts late lives before early ones; large before small where they are as late.
func byEnd(a, b life) int {
	return cmp.Or(cmp.Compare(b.r, a.r), cmp.Compare(b.size, a.size))
}

// firstFit is the lowest gap that holds l.
func firstFit(s *space, l life, floor int64) int64 {
	offset, _ := s.free(floor, l.size, l.align)
	return offset
}

// bestFit is the gap that l fills best, the lowest of equals; above everything only if there is no gap.
func bestFit(s *space, l life, floor int64) int64 {
	best, least := int64(-1), int64(none)
	for from := floor; ; {
		offset, end := s.free(from, l.size, l.align)
		if end == none && best >= 0 {
			return best
		}
		if spare := end - offset - l.size; best < 0 || spare < least {
			best, least = offset, spare
		}
		if end == none || least == 0 {
			return best
		}
		from = end
	}
}

// joins is joined, if it is to run.
func (p *part) joins(goal, near int64) part {
	if p.job.off("join") {
		return part{top: math.MaxInt64}
	}
	q := part{top: p.top}
	defer p.job.run("join", &q)()
	q = p.joined(goal, near)
	return q
}

// orders is try, if it is to run.
func (p *part) orders(rows []strategy, s *space, near int64) {
	if p.job.off("orders") {
		return
	}
	defer p.job.run("orders", p)()
	p.try(rows, s, near)
}

// stack packs p, which nothing has packed, with all lives on top of each other, but for those that are fixed, which are below.
func (p *part) stack() {
	p.offsets, p.by, p.top = make([]int64, len(p.lives)), "stack", p.floor
	for i, l := range p.lives {
		if l.fixed != free {
			p.offsets[i], p.top = l.fixed, max(p.top, l.fixed+l.size)
		}
	}
	for i, l := range p.lives {
		if l.fixed == free {
			p.offsets[i] = up(p.top, l.align)
			p.top = p.offsets[i] + l.size
		}
	}
}
