package pack

import (
	"math"
	"slices"
)

// Many lives of which a few hundred are large are hard to climb: a skyline leaves holes that are too small for the next large
// one. A search packs the large ones alone closer than that, if it comes to an end, and most of the others then find room.
// Those that find none are what it should have known of: they join the large ones for another search, until all are in.

// sieves say which lives of a part wait at first. More do than beside a climb, as a search is quicker the fewer lives it has.
var sieves = [...]wait{{0.03, 0.3}, {0.05, 0.3}, {0.05, 0.5}}

// These are shares of the goal above it that sifting tries to stay within.
var (
	ascent  = [...]int64{100, 50, 25} // one after another until it does
	descent = [...]int64{250, 1000}   // and, if it did at once, for as long as it does
)

const (
	sifted    = 512      // lives are searched at most
	seeks     = 3 << 20  // looks that one search is worth
	sifts     = 12 << 10 // and, for each life, that all are with what comes after them
	mostSifts = 24 << 20 // but no more than this
	putting   = 500      // looks, for each life, that putting in the others costs, and making room for them again
	spills    = 50       // lives without room, more than which are not worth it
)

// sift is a part that is packed from its large lives.
type sift struct {
	*part
	goal  int64
	begun []halves
	best  part // the lowest packing so far
	ended bool // whether any search was
	looks int
	most  int // looks there are
}

// sift is p packed from its large lives, if it comes below a top. It also says whether that is near enough.
func (p *part) sift(goal, below int64) (packed part, ok bool) {
	if p.job.off("sift") {
		return part{top: math.MaxInt64}, false
	}
	defer p.job.run("sift", p)()
	s := &sift{part: p, goal: goal, best: part{top: below}, most: min(sifts*len(p.lives), mostSifts)}
	if s.begin(); len(s.begun) == 0 {
		return part{top: math.MaxInt64}, false
	}
	if s.within(ascent[0]) {
		for _, share := range descent {
			if !s.within(share) {
				break
			}
		}
	} else {
		for _, share := range ascent[1:] {
			if !s.ended || s.within(share) { // what no search can do at first is not much easier higher up
				break
			}
		}
	}
	if s.best.offsets == nil {
		return part{top: math.MaxInt64}, false
	}
	return s.best, !s.best.far(goal, content)
}

// begin finds what is searched at first: by sieve, but for those that leave too many lives. The last leaves the fewest.
func (s *sift) begin() {
	for _, w := range slices.Backward(sieves[:]) {
		h := s.large(w, s.goal)
		s.clock.spend(ordering * len(s.lives))
		if len(h.in) > sifted {
			return
		}
		if len(h.in) > 0 {
			s.begun = slices.Insert(s.begun, 0, h)
		}
	}
}

// within is whether p is packed within a share of the goal above it.
func (s *sift) within(share int64) bool {
	top := s.goal + s.goal/share
	for _, h := range s.begun {
		if s.best.top <= top {
			return true
		}
		s.join(h, top)
	}
	return s.best.top <= top
}

// join packs h below top, and again with those joined to what is searched that found no room, for as long as searches come to
// an end.
func (s *sift) join(h halves, top int64) {
	for least := spills + 1; s.looks < s.most && s.clock.alone() > 0 && len(h.in) > 0 && len(h.in) <= sifted; {
		search := newSearch(h.part)
		result := search.dive(top, seeks)
		s.looks += search.looks + putting*len(s.lives)
		s.clock.spend(search.looks / deeply)
		if result != found {
			return
		}
		s.ended = true
		at := s.put(h, search.low, top)
		var out []int32
		for _, i := range h.rest {
			if at[i]+s.lives[i].size > top {
				out = append(out, i)
			}
		}
		if len(out) < least { // making room for more than before is not worth it either
			least = len(out)
			s.looks += putting * len(s.lives)
			s.room(at, top)
		}
		if s.best.top <= top {
			return
		}
		h = s.joinedBy(h, out)
	}
}

// room makes room below top for the lives that stand above it, puts those on top for which there is none, and keeps what
// comes of that if it is the lowest.
func (s *sift) room(at []int64, top int64) {
	at, left := s.makeRoom(at, top, s.goal, makings, pushing, never)
	if len(left) > 0 && top+s.lives[left[0]].size >= s.best.top {
		return
	}
	s.onTop(at, left)
	g := *s.part
	g.offsets, g.top, g.by = at, topOf(s.lives, at), "sift"
	s.best.keep(g)
}
