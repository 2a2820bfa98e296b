package pack

import (
	"cmp"
	"math"
	"slices"
)

// Many lives of which a few hundred are large are hard to pack from the bottom up: a skyline leaves holes that are too small for
// the next large one. The search packs the large ones alone closer than that, if it comes to an end, and most of the others then
// find room between them. Those that find none are what it should have known of: they join the large ones for another search,
// until all are in.

// split is a part of lives that are packed first, and the others, in the order in which they are filled in.
type split struct {
	first    *part
	in, rest []int32
}

// share says which lives wait until the others are packed: short ones of few bytes, as long as those of one section together
// have no more bytes than a share of the goal and a share of what the section has to spare.
type share struct{ goal, spare float64 }

// shares are tried one after another. More waiting lives make the search quicker, and find room less often.
var shares = [...]share{{0.03, 0.3}, {0.01, 0.15}, {0.05, 0.4}}

// tops are, without a capacity, the shares of the goal above it that are tried, each if the one before was reached.
var tops = [...]int64{50, 100, 250, 1000}

const (
	searched  = 512      // large lives at most: a search of more does not come to an end
	seekLooks = 3 << 20  // of one search
	lifeLooks = 12 << 10 // of all searches, for each life, without a capacity
	mostLooks = 24 << 20 // of all searches at most, without a capacity
	fillLooks = 500      // that filling in is counted as, for each life, and an ejection
	evictions = 50       // lives without room, and one of so many of all lives, more than which are not worth an ejection
)

// largeFirst is p packed from its large lives: with a capacity within that, or not at all; without, as low as it comes.
func largeFirst(p *part, t target) (offsets []int64, top int64) {
	f := &filler{part: p, goal: t.goal, capped: t.capped, left: min(t.looks/2, mostLooks)}
	if !t.soon {
		f.left = min(f.left, lifeLooks*len(p.lives))
	}
	limit := t.limit(p)
	top = p.top
	for _, share := range tops {
		aim := max(t.goal+t.goal/share, limit)
		if t.capped {
			aim = limit
		} else if len(p.lives) > few {
			aim = t.goal + t.goal/101
		}
		for _, w := range shares {
			if top <= aim {
				break
			}
			if t.soon {
				f.left = t.looks / (len(shares) - 1)
			}
			if found, end := f.within(w, aim, top); found != nil {
				offsets, top = found, end
			}
		}
		if top > aim || aim == limit || len(p.lives) > few {
			break
		}
	}
	return offsets, top
}

// filler packs a part from its large lives.
type filler struct {
	*part
	goal   int64
	capped bool
	left   int // looks
}

// within is p packed at or below aim, or else as low as it comes below a top.
func (f *filler) within(w share, aim, below int64) (offsets []int64, top int64) {
	keep := func(at []int64) (done bool) {
		if end := topOf(f.lives, at); end < below {
			offsets, below = at, end
		}
		return below <= aim
	}
	x := f.split(w)
	for fewest := evictions + 1; f.left > 0 && len(x.in) > 0; {
		low := f.pack(x.first, aim, below)
		f.left -= fillLooks * len(f.lives)
		if low == nil {
			break
		}
		at, out := f.fill(x, f.longest(x.rest), low, aim)
		if len(out) > 0 {
			if others, left := f.fill(x, x.rest, low, aim); len(left) < len(out) {
				at, out = others, left
			}
		}
		if keep(at) {
			break
		}
		if len(out) < fewest { // ejecting for more than before is not worth it either
			fewest = len(out)
			f.left -= fillLooks * len(f.lives)
			if e := newEjector(f.part, at, f.goal); e.lower(aim, ejectLooks*len(f.lives)) {
				keep(e.at)
				break
			}
		}
		x = f.joined(x, out)
	}
	return offsets, below
}

// pack is where the lives stand that are packed first: by a search at aim, or if there are too many for that, or it does not find
// one, by a skyline below a top, which with a capacity is that.
func (f *filler) pack(first *part, aim, below int64) (offsets []int64) {
	if len(first.lives) <= searched {
		s := newSearch(first)
		found := s.seek(aim, seekLooks, false) == found
		if f.left -= s.looks; found {
			return s.low
		}
	}
	if first.top = below; f.capped {
		first.top = min(below, aim+1)
	}
	offsets, _ = skylines(first, target{goal: f.goal, near: aim, capped: true})
	return offsets
}

// fill is where all lives stand if those packed first stand at low, and each of the rest in the lowest gap that holds it. Those that
// would end above top are out, and come last.
func (f *filler) fill(x split, rest []int32, low []int64, top int64) (offsets []int64, out []int32) {
	offsets = make([]int64, len(f.lives))
	for k, i := range x.in {
		offsets[i] = low[k]
	}
	rising := slices.Clone(x.in) // what is taken above all others takes least time to note
	slices.SortStableFunc(rising, func(i, j int32) int { return cmp.Compare(offsets[i], offsets[j]) })
	s := blankSpace(f.part, math.MaxInt)
	for _, i := range x.rest {
		s.expect(f.lives[i])
	}
	for _, i := range rising {
		s.take(f.lives[i], offsets[i])
	}
	for _, i := range rest {
		l := f.lives[i]
		s.look(l)
		if offsets[i] = firstFit(s, l, f.floor); offsets[i]+l.size > top {
			out = append(out, i)
		} else {
			s.take(l, offsets[i])
		}
	}
	for _, i := range out {
		l := f.lives[i]
		s.look(l)
		offsets[i] = firstFit(s, l, f.floor)
		s.take(l, offsets[i])
	}
	return offsets, out
}

// split is p in the lives that do not wait and those that do, the largest first.
func (f *filler) split(w share) split {
	over := liveOf(f.lives, f.sections) // by section: by how many bytes too much waits
	for t, live := range over {
		over[t] = -int64(float64(w.goal*float64(f.goal)) + float64(w.spare*float64(f.goal-f.floor-live)))
	}
	var most peaks
	most.build(over)
	order := make([]int32, len(f.lives)) // what finds room in most places first: short lives, and above all of few bytes
	for i := range order {
		order[i] = int32(i)
	}
	weight := func(i int32) float64 {
		l := &f.lives[i]
		return float64(float64(l.r-l.l)*float64(l.size)) * float64(l.size)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(weight(i), weight(j)) })
	var in, rest []int32
	for _, i := range order {
		l := f.lives[i]
		if x, _ := most.most(l.l, l.r); x+l.size <= 0 {
			most.add(l.l, l.r, l.size)
			rest = append(rest, i)
		} else {
			in = append(in, i)
		}
	}
	slices.Sort(in)
	slices.Reverse(rest)
	return f.with(in, rest)
}

// joined is x with some of the rest among those that are packed first.
func (f *filler) joined(x split, some []int32) split {
	in := append(slices.Clone(x.in), some...)
	slices.Sort(in)
	return f.with(in, slices.DeleteFunc(slices.Clone(x.rest), func(i int32) bool { return slices.Contains(some, i) }))
}

func (f *filler) with(in, rest []int32) split {
	q := &part{lives: make([]life, 0, len(in)), floor: f.floor, ctx: f.ctx}
	for _, i := range in {
		q.lives = append(q.lives, f.lives[i])
	}
	q.sections = toSections(q.lives)
	return split{q, in, rest}
}

// longest is lives, the longest first.
func (f *filler) longest(lives []int32) (order []int32) {
	order = slices.Clone(lives)
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(f.lives[j].r-f.lives[j].l, f.lives[i].r-f.lives[i].l) })
	return order
}
