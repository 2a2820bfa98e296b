package pack

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// skyline packs a part from the bottom up, however many lives there are and however many of them meet. What is placed
// shows as a skyline over time: stretches of sections at one height each. Nothing is ever put below it, so the lowest
// stretch is looked at next, a valley between two walls. In it one section has the most bytes still to come; one of the
// lives that cover this section and fit between the walls is put there. If there is none, no life can use the section
// below the lower wall, and it is raised to that.
//
// Of the lives that fit, the one is taken that wastes least and leaves nothing beside it that is bound to grow too high:
// in what is left of the valley at each side of it, the section with the most to come must have a life that fits there,
// or be able to do without.
type skyline struct {
	lives    []life
	sections int32
	floor    int64
	top      int64 // what the pass wants to stay within

	route   route
	left    peaks // by section: bytes to be placed
	offsets []int64
	looks   int // at lives so far: the work done, in a measure that is the same on every machine

	// The lives in two orders. Both are grouped by center: the section in a life's span that most powers of two divide.
	// Within a group all lives meet, so that which of them lie between two walls and cover a section is a question about
	// one end only, once it is known on which side of the center the section is.
	begins   []int32 // by section: the first life that begins there or later
	groups   []int32 // by center: the first position of its group
	byBegin  []int32 // positions in a group rise with the begin
	byEnd    []int32 // and fall with the end
	atBegin  []int32 // by life: its position in byBegin
	atEnd    []int32
	firstEnd firsts // by position in byBegin: the end
	lastHead firsts // by position in byEnd: minus the begin
	anywhere firsts // by life, as lives are sorted by begin: the end

	end    []int32 // by begin of a stretch: its end
	before []int32 // by begin of a stretch: the begin of the one before it, or -1
	height []int64 // by begin of a stretch; -1 where none begins
	queue  queue   // of stretches, some of which are no more

	rest []int32 // scratch
	fits []fit   // scratch: lives that may be next
}

// route is what a pass is told.
type route struct {
	variety int     // how many lives of each group to look at for a place
	length  float64 // what it is worth that a life is long, against sections that are left beside it
	aim     int64   // the share of the goal above it that the pass tries to stay within
}

// routes are two series of passes. No two passes are alike, since which of them does best on a problem is luck.
var routes = [2][]route{
	{{64, 1, content}, {32, 3, content}, {48, 10, tight}, {16, 1, content}},
	{{24, 0.3, tight}, {64, 10, content}, {64, 0.3, content}, {128, 1, tight}},
}

const (
	content = 128     // a series ends with a packing that this share of the goal above it holds, less than a percent
	tight   = 1 << 62 // hardly any
	passing = 400     // looks, for each life, that a series is worth
	passage = 100     // looks, for each life, that any pass costs beside those that are counted
	mending = 300     // looks, for each life, that the mending of a pass is worth
)

// grow packs p with two series of passes side by side, and keeps the lowest; the first series on a tie.
func (p *part) grow(goal int64) {
	if goal > math.MaxInt64/4 {
		return // what is summed up on the way would not be numbers
	}
	second := make(chan *part)
	go func() { second <- rise(routes[1], p, goal) }()
	for _, c := range [...]*part{rise(routes[0], p, goal), <-second} {
		if c.top < p.top {
			p.offsets, p.top, p.by = c.offsets, c.top, c.by
		}
	}
}

// rise is the lowest packing of a series. What a pass leaves is mended before there is another.
func rise(series []route, p *part, goal int64) *part {
	best := &part{lives: p.lives, sections: p.sections, floor: p.floor, top: math.MaxInt64}
	enough := goal + goal/content
	s := newSkyline(p)
	for i, r := range series {
		if i > 0 && s.looks/i*(i+1) > passing*len(p.lives) {
			break
		}
		if top := s.pass(r, goal+goal/r.aim); top < best.top {
			best.top, best.by, best.offsets = top, "skyline", append(best.offsets[:0], s.offsets...)
		}
		if best.top > enough {
			best.mend(goal, enough, mending*len(p.lives))
		}
		if best.top <= enough {
			break
		}
	}
	return best
}

// gone is the end of a life that is placed.
const gone = math.MaxInt32

func newSkyline(p *part) *skyline {
	n, sections := len(p.lives), p.sections
	s := &skyline{
		lives: p.lives, sections: sections, floor: p.floor,
		offsets: make([]int64, n),
		groups:  make([]int32, sections+1),
		byBegin: make([]int32, n), byEnd: make([]int32, n), atBegin: make([]int32, n), atEnd: make([]int32, n),
		end: make([]int32, sections), before: make([]int32, sections), height: make([]int64, sections),
	}
	centers := make([]int32, n)
	for i, l := range s.lives {
		centers[i] = center(l.l, l.r)
		s.groups[centers[i]+1]++
	}
	for t := range sections {
		s.groups[t+1] += s.groups[t]
	}
	fill := func(order, at []int32, by func(i, j int32) int) {
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortFunc(order, func(i, j int32) int {
			return cmp.Or(cmp.Compare(centers[i], centers[j]), by(i, j), cmp.Compare(i, j))
		})
		for position, i := range order {
			at[i] = int32(position)
		}
	}
	fill(s.byBegin, s.atBegin, func(i, j int32) int { return cmp.Compare(s.lives[i].l, s.lives[j].l) })
	fill(s.byEnd, s.atEnd, func(i, j int32) int { return cmp.Compare(s.lives[j].r, s.lives[i].r) })
	s.begins = beginsOf(p.lives, sections)
	return s
}

// center is the section of [l, r) that the highest power of two divides; 0 counts as divided by none.
func center(l, r int32) int32 {
	x, y := uint32(l), uint32(r-1)
	if x == y {
		return r - 1
	}
	return int32(y >> (bits.Len32(x^y) - 1) << (bits.Len32(x^y) - 1))
}

// pass packs all lives, and gives the end of the highest.
func (s *skyline) pass(r route, top int64) (highest int64) {
	s.route, s.top = r, top
	change := make([]int64, s.sections+1)
	s.firstEnd.reset(len(s.lives))
	s.lastHead.reset(len(s.lives))
	s.anywhere.reset(len(s.lives))
	for i, l := range s.lives {
		change[l.l] += l.size
		change[l.r] -= l.size
		s.firstEnd.leaf(s.atBegin[i], l.r)
		s.lastHead.leaf(s.atEnd[i], -l.l)
		s.anywhere.leaf(int32(i), l.r)
	}
	s.firstEnd.build()
	s.lastHead.build()
	s.anywhere.build()
	for t := int32(1); t < s.sections; t++ {
		change[t] += change[t-1]
	}
	s.left.build(change[:s.sections])

	for t := range s.height {
		s.height[t] = -1
	}
	s.height[0], s.end[0], s.before[0] = s.floor, s.sections, -1
	s.queue = append(s.queue[:0], turn{s.floor, 0})
	s.looks += passage * len(s.lives)
	for placed := 0; placed < len(s.lives); {
		next := s.queue[0]
		a := next.begin
		if s.height[a] != next.at {
			s.queue.pop()
			continue
		}
		b := s.end[a]
		if !s.holds(a, b) {
			s.queue.pop()
			s.raise(a, a, b, s.wall(a, b))
			continue
		}
		_, t := s.left.most(a, b)
		i := s.choose(a, b, t)
		if i < 0 {
			s.queue.pop()
			s.raise(a, t, t+1, s.wall(a, b))
			continue
		}
		l := s.lives[i]
		at := up(next.at, l.align)
		s.offsets[i] = at
		highest = max(highest, at+l.size)
		s.left.add(l.l, l.r, -l.size)
		s.firstEnd.set(s.atBegin[i], gone)
		s.lastHead.set(s.atEnd[i], gone)
		s.anywhere.set(i, gone)
		s.queue.pop()
		s.raise(a, l.l, l.r, at+l.size)
		placed++
	}
	return highest
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

// raise brings sections [l, r) of the stretch that begins with a to a height.
func (s *skyline) raise(a, l, r int32, height int64) {
	b, old, before := s.end[a], s.height[a], s.before[a]
	begin, end := l, r
	if l > a {
		s.end[a] = l
		s.queue.push(turn{old, a})
		before = a
	} else if before >= 0 && s.height[before] == height {
		begin = before
		before = s.before[begin]
		s.height[a] = -1
	}
	if r < b {
		s.height[r], s.end[r] = old, b
		s.queue.push(turn{old, r})
		if b < s.sections {
			s.before[b] = r
		}
	} else if b < s.sections && s.height[b] == height {
		end = s.end[b]
		s.height[b] = -1
	}
	s.queue.push(turn{height, begin})
	s.height[begin], s.end[begin], s.before[begin] = height, end, before
	if end < s.sections {
		s.before[end] = begin
	}
}

// holds is whether a life to be placed lies within [a, b).
func (s *skyline) holds(a, b int32) bool {
	return s.anywhere.first(s.begins[a], s.begins[b], b) >= 0
}

// covering adds to fits lives to be placed that lie within [a, b) and cover section t, up to so many of each group.
func (s *skyline) covering(a, b, t int32, most int, fits []int32) []int32 {
	for bit := 0; 1<<bit < s.sections; bit++ {
		m := t>>(bit+1)<<(bit+1) + 1<<bit
		if m >= a && m < b {
			fits = s.ofGroup(m, a, b, t, most, fits)
		}
	}
	if t == 0 {
		fits = s.ofGroup(0, a, b, t, most, fits)
	}
	return fits
}

// ofGroup is covering for one group.
func (s *skyline) ofGroup(m, a, b, t int32, most int, fits []int32) []int32 {
	from, to := s.groups[m], s.groups[m+1]
	if from == to {
		return fits
	}
	if t <= m {
		from += int32(sort.Search(int(to-from), func(k int) bool { return s.lives[s.byBegin[int(from)+k]].l >= a }))
		to = from + int32(sort.Search(int(to-from), func(k int) bool { return s.lives[s.byBegin[int(from)+k]].l > t }))
		for range most {
			k := s.firstEnd.first(from, to, b)
			if k < 0 {
				break
			}
			fits = append(fits, s.byBegin[k])
			from = k + 1
		}
		return fits
	}
	from += int32(sort.Search(int(to-from), func(k int) bool { return s.lives[s.byEnd[int(from)+k]].r <= b }))
	to = from + int32(sort.Search(int(to-from), func(k int) bool { return s.lives[s.byEnd[int(from)+k]].r <= t }))
	for range most {
		k := s.lastHead.first(from, to, -a)
		if k < 0 {
			break
		}
		fits = append(fits, s.byEnd[k])
		from = k + 1
	}
	return fits
}

// fit is a life that may be placed next, and what it wastes.
type fit struct {
	life  int32
	waste float64
}

// choose is the life to put into the valley [a, b) at section t, or -1 if none fits.
func (s *skyline) choose(a, b, t int32) int32 {
	s.rest = s.covering(a, b, t, s.route.variety, s.rest[:0])
	if len(s.rest) == 0 {
		return -1
	}
	s.looks += 16 + 2*len(s.rest)
	h := s.height[a]
	before, behind := s.walls(a, b)
	s.fits = s.fits[:0]
	for _, i := range s.rest {
		s.fits = append(s.fits, fit{i, s.waste(i, a, b, min(before, none/2)-h, min(behind, none/2)-h)})
	}
	slices.SortFunc(s.fits, func(x, y fit) int {
		return cmp.Or(cmp.Compare(x.waste, y.waste), bySpan(s.lives[x.life], s.lives[y.life]), cmp.Compare(x.life, y.life))
	})
	best, least := int32(-1), int64(math.MaxInt64)
	for _, f := range s.fits {
		l := s.lives[f.life]
		end := up(h, l.align) + l.size
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

// waste is how many bytes, for each that it has itself, life i would leave beside it up to its end or the walls, which
// are so much higher than the valley [a, b), if nothing came to lie there; less what its length is worth. All products
// are rounded, so that no machine joins them with sums to its own numbers.
func (s *skyline) waste(i, a, b int32, lower, upper int64) float64 {
	l := s.lives[i]
	beside := float64(float64(l.l-a)*float64(min(lower, l.size))) + float64(float64(b-l.r)*float64(min(upper, l.size)))
	length := float64(l.r - l.l)
	return beside/(length*float64(l.size)) - float64(s.route.length*length)/float64(b-a)
}

// over is how far the section of [a, b) with the most to come would grow too high if what lies there had to wait for
// height, or 0 if some life fits there.
func (s *skyline) over(a, b int32, height int64) int64 {
	if a == b {
		return 0
	}
	left, t := s.left.most(a, b)
	if left == 0 {
		return 0
	}
	if loss := s.loss(a, b, t, left, height); loss > 0 || b-a == 1 {
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
