package pack

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"memopt/memopt/stop"
)

// skyline packs a part from the bottom up, however many lives there are and however many of them meet. What is placed
// shows as a skyline over time: stretches of sections at one height each. Nothing is ever put below it, so the lowest
// stretch is looked at next, a valley between two walls. In it one section has the most bytes still to come; one of the
// lives that cover this section and fit between the walls is put there. If there is none, no life can use the section
// below the lower wall, and it is raised to that.
//
// Of the lives that fit, the one is taken that wastes least and leaves nothing beside it that is bound to grow too high:
// in what is left of the valley at each side of it, the section with the most to come must have a life that fits there,
// or be able to do without. A byte wasted weighs the more, the less its section has to spare.
type skyline struct {
	lives    []life
	sections int32
	floor    int64
	coarsest int64  // of the alignments
	blocks   []life // the lives that are fixed, lowest first: see fixed.go
	largest  int64  // size of the others

	route   route
	top     int64 // what it wants to stay within for now
	ceiling int64 // and in the end
	placed  int
	highest int64     // end of what is placed
	left    peaks     // by section: bytes to be placed
	sure    []int64   // by section: how high it becomes at least, if no more is wasted
	weight  []float64 // by section: what a byte weighs in all sections before it
	open    []int32   // by center: how many lives of its group are to be placed
	offsets []int64
	ctx     context.Context // polled at each stretch

	*groups
	firstEnd firsts // by position in byBegin: the end
	lastHead firsts // by position in byEnd: minus the begin
	anywhere firsts // by life, as lives are sorted by begin: the end

	end    []int32 // by begin of a stretch: its end
	before []int32 // by begin of a stretch: the begin of the one before it, or -1
	height []int64 // by begin of a stretch; -1 where none begins
	turns  turns   // of stretches, some of which are no more

	rest []int32 // scratch
	fits []fit   // scratch: lives that may be next
}

// groups are the lives in two orders. Both are grouped by center: the section in a life's span that most powers of two
// divide. Within a group all lives meet, so that which of them lie between two walls and cover a section is a question
// about one end only, once it is known on which side of the center the section is.
type groups struct {
	begins  []int32 // by section: the first life that begins there or later
	first   []int32 // by center: the first position of its group
	byBegin keyedLives
	byEnd   keyedLives
	spans   []span // by life
}

// keyedLives is the lives of all groups, those of a group by a key: the begin, or minus the end.
type keyedLives struct {
	lives []int32 // by position
	keys  []int32 // by position
	at    []int32 // by life: its position
}

// newKeyed has room for n lives.
func newKeyed(n int) keyedLives {
	return keyedLives{make([]int32, n), make([]int32, n), make([]int32, n)}
}

// put gives a life its position.
func (o *keyedLives) put(at, life, key int32) { o.lives[at], o.keys[at], o.at[life] = life, key, at }

// span is what is asked most often of a life; many of them are near at hand.
type span struct {
	l, r        int32
	size, align int64
}

const (
	gone      = math.MaxInt32 // the end of a life that is placed
	shortlist = 16            // of the lives that fit, those that waste least are looked at more closely
	below     = 3             // how much more the bytes that alignment loses below a life weigh than those it may lose above it
)

// newSkyline is nothing but the floor.
func newSkyline(p *part, g *groups, r route, goal int64) *skyline {
	n, sections := len(p.lives), p.sections
	s := &skyline{
		lives: p.lives, sections: sections, floor: p.floor, groups: g, ctx: p.ctx, route: r,
		ceiling: goal + goal/room, top: goal + goal/r.aim, weight: make([]float64, sections+1),
		open: make([]int32, sections), offsets: make([]int64, n),
		end: make([]int32, sections), before: make([]int32, sections), height: make([]int64, sections),
	}
	s.firstEnd.reset(n)
	s.lastHead.reset(n)
	s.anywhere.reset(n)
	for i, l := range s.lives {
		s.coarsest = max(s.coarsest, l.align)
		if l.fixed != free {
			s.blocks = append(s.blocks, l)
			s.offsets[i], s.highest = l.fixed, max(s.highest, l.fixed+l.size)
			s.placed++
			continue
		}
		s.largest = max(s.largest, l.size)
		s.firstEnd.leaf(s.byBegin.at[i], l.r)
		s.lastHead.leaf(s.byEnd.at[i], -l.l)
		s.anywhere.leaf(int32(i), l.r)
		s.open[center(l.l, l.r)]++
	}
	slices.SortStableFunc(s.blocks, func(a, b life) int { return cmp.Compare(a.fixed, b.fixed) })
	s.firstEnd.build()
	s.lastHead.build()
	s.anywhere.build()
	s.sure = liveOf(s.lives, sections)
	s.left.build(s.sure)
	for t, live := range s.sure {
		s.sure[t] = s.floor + live
	}
	for t := range s.height {
		s.height[t] = -1
	}
	s.height[0], s.end[0], s.before[0] = s.floor, sections, -1
	s.turns.push(turn{s.floor, 0})
	return s
}

// newGroups sorts by counting: the lives come by begin, and late is them by end.
func newGroups(p *part) *groups {
	n := len(p.lives)
	g := &groups{
		begins: beginsOf(p.lives, p.sections), first: make([]int32, p.sections+1),
		byBegin: newKeyed(n), byEnd: newKeyed(n), spans: make([]span, n),
	}
	centers := make([]int32, n)
	ends := make([]int32, p.sections+1) // by end: how many lives end later, and so where those that end here come
	for i, l := range p.lives {
		centers[i] = center(l.l, l.r)
		g.spans[i] = span{l.l, l.r, l.size, l.align}
		g.first[centers[i]+1]++
		ends[l.r-1]++
	}
	for t := range p.sections {
		g.first[t+1] += g.first[t]
	}
	for t := p.sections - 1; t >= 0; t-- {
		ends[t] += ends[t+1]
	}
	late := make([]int32, n) // lives, those that end late first
	for i, l := range p.lives {
		late[ends[l.r]] = int32(i)
		ends[l.r]++
	}
	next, nextEnd := slices.Clone(g.first), slices.Clone(g.first)
	for i := range p.lives {
		byBegin, byEnd := int32(i), late[i]
		at, atEnd := &next[centers[byBegin]], &nextEnd[centers[byEnd]]
		g.byBegin.put(*at, byBegin, p.lives[byBegin].l)
		g.byEnd.put(*atEnd, byEnd, -p.lives[byEnd].r)
		*at++
		*atEnd++
	}
	return g
}

// center is the section of [l, r) that the highest power of two divides; 0 counts as divided by none.
func center(l, r int32) int32 {
	x, y := uint32(l), uint32(r-1)
	if x == y {
		return r - 1
	}
	return int32(y >> (bits.Len32(x^y) - 1) << (bits.Len32(x^y) - 1))
}

// advance places lives until the lowest stretch is at level.
func (s *skyline) advance(level int64) {
	for s.placed < len(s.lives) && s.turns.more() && s.turns.first().at < level {
		stop.Poll(s.ctx)
		next := s.turns.take()
		a := next.begin
		if s.height[a] != next.at {
			continue
		}
		b := s.end[a]
		wall := s.wall(a, b)
		roofed := false // by a block that a life may reach
		if len(s.blocks) > 0 {
			if s.pass(a, b) {
				continue
			}
			reach := min(next.at, none-s.largest-s.coarsest) + s.largest + s.coarsest
			roof := s.roof(a, b, next.at, max(wall, reach))
			wall, roofed = min(wall, roof), roof < reach
		}
		if !s.holds(a, b) {
			s.give(a, a, b, wall)
			continue
		}
		left, among := s.left.most(a, b)
		t := s.left.find(among)
		i := s.choose(a, b, t, left, roofed)
		if i < 0 {
			s.give(a, t, t+1, wall)
			continue
		}
		if s.even(next.at, wall, left) {
			s.give(a, a, b, wall)
			continue
		}
		l := s.spans[i]
		at := up(next.at, l.align)
		s.lose(l.l, l.r, next.at, at)
		s.offsets[i] = at
		s.highest = max(s.highest, at+l.size)
		s.left.add(l.l, l.r, -l.size)
		s.firstEnd.set(s.byBegin.at[i], gone)
		s.lastHead.set(s.byEnd.at[i], gone)
		s.anywhere.set(i, gone)
		s.open[center(l.l, l.r)]--
		s.raise(a, l.l, l.r, at+l.size)
		s.placed++
	}
}

// even is whether a valley is better filled up to its lower wall than used, as the two are nearly even: lives can then
// lie across both. It is if that wastes no more than the route's ease of what the fullest section of the valley, with so
// much left, could waste on a life as large as those that may be next, were it to waste the same on every byte to come.
func (s *skyline) even(height, wall, left int64) bool {
	if s.route.ease == 0 || wall == none {
		return false
	}
	sum := int64(0)
	for _, f := range s.fits {
		sum += s.spans[f.life].size
	}
	size := s.route.ease * float64(sum) / float64(len(s.fits))
	above := float64(s.ceiling - height)
	return float64(wall-height)*above < size*(above-float64(left))
}

// walls is how high the walls of the valley [a, b) are.
func (s *skyline) walls(a, b int32) (before, behind int64) {
	before, behind = none, none
	if s.before[a] >= 0 {
		before = s.height[s.before[a]]
	}
	if b < s.sections {
		behind = s.height[b]
	}
	return before, behind
}

// wall is the height of the lower one.
func (s *skyline) wall(a, b int32) int64 {
	before, behind := s.walls(a, b)
	return min(before, behind)
}

// give brings sections [l, r) of the stretch that begins with a to a height, with nothing below it.
func (s *skyline) give(a, l, r int32, height int64) {
	s.lose(l, r, s.height[a], height)
	s.raise(a, l, r, height)
}

// lose notes that nothing comes to lie between two heights in sections [l, r), those of them in which something is to come.
func (s *skyline) lose(l, r int32, from, to int64) {
	if from == to {
		return
	}
	sure := s.sure[l:r]
	for t, height := range sure {
		if height > from {
			sure[t] = height + to - from
		}
	}
}

// raise brings sections [l, r) of the stretch that begins with a to a height.
func (s *skyline) raise(a, l, r int32, height int64) {
	b, old, before := s.end[a], s.height[a], s.before[a]
	begin, end := l, r
	if l > a {
		s.end[a] = l
		s.turns.push(turn{old, a})
		before = a
	} else if before >= 0 && s.height[before] == height {
		begin = before
		before = s.before[begin]
		s.height[a] = -1
	}
	if r < b {
		s.height[r], s.end[r] = old, b
		s.turns.push(turn{old, r})
		if b < s.sections {
			s.before[b] = r
		}
	} else if b < s.sections && s.height[b] == height {
		end = s.end[b]
		s.height[b] = -1
	}
	if begin == l { // else it has its turn already
		s.turns.push(turn{height, begin})
	}
	s.height[begin], s.end[begin], s.before[begin] = height, end, before
	if end < s.sections {
		s.before[end] = begin
	}
}

// holds is whether a life to be placed lies within [a, b).
func (s *skyline) holds(a, b int32) bool {
	return s.anywhere.first(s.begins[a], s.begins[b], b) >= 0
}

// covering adds to fits lives to be placed that lie within [a, b) and cover section t, up to so many of each group. Their
// centers, in binary, are t, or t without some of its lowest ones, or the next above t with some of its lowest noughts made ones.
func (s *skyline) covering(a, b, t int32, most int, fits []int32) []int32 {
	for m := t & (t - 1); m > 0 && m >= a; m &= m - 1 {
		if s.open[m] > 0 { // the ends in (t, b], with a begin that is not before a
			fits = s.ofGroup(m, &s.byEnd, -b, -t-1, &s.lastHead, -a, most, fits)
		}
	}
	for m, filled := t, t; m < b; m, filled = filled+1, filled|(filled+1) {
		if s.open[m] > 0 { // the begins in [a, t], with an end that is not behind b
			fits = s.ofGroup(m, &s.byBegin, a, t, &s.firstEnd, b, most, fits)
		}
	}
	return fits
}

// ofGroup adds to fits lives of a group whose keys in an order are in [low, high] and whose other ends are at most at limit.
func (s *skyline) ofGroup(m int32, in *keyedLives, low, high int32, others *firsts, limit int32, most int, fits []int32) []int32 {
	to := s.first[m+1]
	for from := after(in.keys, s.first[m], to, low-1); from >= 0 && from < to; {
		end := min(from|(fan-1)+1, to)
		fits = slices.Grow(fits, fan)
		room := (*[fan]int32)(fits[len(fits):][:fan])
		n, more := fitting(room, in.lives[from:end], in.keys[from:end], others.least[from:end], high, limit)
		if n >= most || !more {
			return fits[:len(fits)+min(n, most)]
		}
		fits = fits[:len(fits)+n]
		most -= n
		from = others.first(end, to, limit)
	}
	return fits
}

// fitting puts into room those of up to fan lives with keys up to high whose other ends are at most at limit: how many they are,
// and whether keys went no higher. Which they are is anyone's guess, and a branch would be guessed wrong.
func fitting(room *[fan]int32, lives, keys, ends []int32, high, limit int32) (n int, more bool) {
	lives, ends = lives[:len(keys)], ends[:len(keys)]
	for i, key := range keys {
		if key > high {
			return n, false
		}
		room[n&(fan-1)] = lives[i]
		fits := 0
		if ends[i] <= limit {
			fits = 1
		}
		n += fits
	}
	return n, true
}

// after is the first position in [from, to) of rising keys with one above x, or to.
func after(keys []int32, from, to, x int32) int32 {
	if from == to || keys[from] > x {
		return from
	}
	if keys[to-1] <= x {
		return to
	}
	for n := to - from; n > 1; { // what is sought is in (from, from+n]
		half := n / 2
		if keys[from+half] <= x {
			from += half
		}
		n -= half
	}
	return from + 1
}

// fit is a life that may be placed next, and what it wastes.
type fit struct {
	life  int32
	waste float64
}

// choose is the life to put into the valley [a, b) at section t, which has the most left to come, or -1 if none fits. A block may be
// in its way where the valley is roofed.
func (s *skyline) choose(a, b, t int32, left int64, roofed bool) int32 {
	h := s.height[a]
	if roofed {
		s.rest = s.covering(a, b, t, beneath, s.rest[:0])
		s.rest = s.under(s.rest, h)
	} else {
		s.rest = s.covering(a, b, t, s.route.variety, s.rest[:0])
	}
	if len(s.rest) == 0 {
		return -1
	}
	before, behind := s.walls(a, b)
	s.waste(a, b, min(before, none/2)-h, min(behind, none/2)-h)
	if roofed {
		for k := range s.fits {
			f := &s.fits[k]
			f.waste += s.gap(s.lives[f.life], h)
		}
	}
	best, least := int32(-1), int64(math.MaxInt64)
	for k := range min(len(s.fits), shortlist) {
		f := &s.fits[k]
		for j := k + 1; j < len(s.fits); j++ {
			if s.better(&s.fits[j], f) {
				s.fits[j], *f = *f, s.fits[j]
			}
		}
		l := s.spans[f.life]
		end := up(h, l.align) + l.size
		if end+left <= s.top {
			return f.life
		}
		over := max(0, s.over(a, l.l, min(before, end)), s.over(l.r, b, min(behind, end)))
		if over < least {
			best, least = f.life, over
		}
		if least == 0 {
			break
		}
	}
	return best
}

// better is whether x is to be placed rather than y.
func (s *skyline) better(x, y *fit) bool {
	return x.waste < y.waste || x.waste == y.waste && s.longer(x.life, y.life)
}

// longer is whether life i is to be placed rather than j, which wastes the same.
func (s *skyline) longer(i, j int32) bool {
	return cmp.Or(bySpan(s.lives[i], s.lives[j]), cmp.Compare(i, j)) < 0
}

// weigh brings weight up to date.
func (s *skyline) weigh() {
	sums, focus, ceiling, sum := s.weight[1:], s.route.focus, float64(s.ceiling), 0.0
	for t, height := range s.sure {
		one := 1.0
		if focus > 0 {
			one = focus / (focus + float64(max(0, s.ceiling-height))/ceiling)
		}
		sum += one
		sums[t] = sum
	}
}

// waste makes fits of the rest. A life wastes so many bytes, for each that it has itself, as it would leave beside it up to its
// end or the walls, which are so much higher than the valley [a, b), if nothing came to lie there; less what its length is
// worth. All products are rounded, so that no machine joins them with sums to its own numbers.
func (s *skyline) waste(a, b int32, lower, upper int64) {
	s.fits = slices.Grow(s.fits[:0], len(s.rest))[:len(s.rest)]
	w, spans, fits, worth, height := s.weight, s.spans, s.fits, s.route.length, s.height[a]
	before, behind := w[a], w[b]
	width := behind - before
	for k, i := range s.rest {
		l := spans[i]
		begin, end := w[l.l], w[l.r]
		beside := float64((begin-before)*float64(min(lower, l.size))) + float64((behind-end)*float64(min(upper, l.size)))
		length := end - begin
		waste := beside/(length*float64(l.size)) - float64(worth*length)/width
		if s.coarsest > 1 {
			waste += s.padding(l, height)
		}
		fits[k] = fit{i, waste}
	}
}

// padding is what alignment wastes, for each byte that a life has, if it is put on a height: below it, which is lost for sure,
// and above it, if the coarsest alignment comes next.
func (s *skyline) padding(l span, height int64) float64 {
	at := up(height, l.align)
	end := at + l.size
	return (float64(below*float64(at-height)) + float64(up(end, s.coarsest)-end)) / float64(l.size)
}

// over is how far the section of [a, b) with the most to come would grow too high if what lies there had to wait for
// height, or 0 if some life fits there.
func (s *skyline) over(a, b int32, height int64) int64 {
	if a == b {
		return 0
	}
	left, among := s.left.most(a, b)
	if left == 0 || height+left <= s.top {
		return 0
	}
	if loss := s.loss(a, b, s.left.find(among), left, height); loss > 0 || b-a == 1 {
		return loss
	}
	for _, u := range [...]int32{a, b - 1} {
		if left, _ := s.left.most(u, u+1); left > 0 {
			if loss := s.loss(a, b, u, left, height); loss > 0 {
				return loss
			}
		}
	}
	return 0
}

// loss is over for one section of [a, b), t, with so much to come.
func (s *skyline) loss(a, b, t int32, left, height int64) int64 {
	if height+left <= s.top {
		return 0
	}
	if s.rest = s.covering(a, b, t, 1, s.rest[:0]); len(s.rest) > 0 {
		return 0
	}
	return height + left - s.top
}
