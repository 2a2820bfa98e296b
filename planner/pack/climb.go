package pack

import (
	"math"
	"sort"
)

const (
	crowds = 1 << 8  // meetings, for each life, that a climb can keep in memory and walk through
	climbs = 3       // passes of a climb
	crowd  = 30_000  // lives that a climb has the time for
	ascent = 1 << 14 // looks, for each life, after which no further pass is made
)

// climb is the lowest of a few packings from the bottom up, or nil where there are too many lives, or too many meet. Each pass puts the
// sections that troubled those before it first.
func climb(lives []life, sections int32, floor, goal int64) *part {
	p := &part{lives: lives, sections: sections, floor: floor, top: math.MaxInt64}
	if len(lives) > crowd || meetings(lives) > crowds*len(lives) {
		return nil
	}
	s := newSearch(p)
	order, heat := s.orders()[0], make([]int64, sections)
	top := goal + goal/content
	for pass := 0; pass < climbs && p.top > top && s.looks <= ascent*len(lives); pass++ {
		height := s.climb(top, s.rankBy(order, heat))
		if height < p.top {
			p.offsets, p.top, p.by = append(p.offsets[:0], s.low...), height, "climb"
		}
		s.takeBack(0)
		s.learn(heat, 2*len(lives))
	}
	return p
}

// meetings is the number of pairs of lives, which are sorted by begin, that meet.
func meetings(lives []life) (pairs int) {
	for i, a := range lives {
		pairs += sort.Search(len(lives)-i, func(k int) bool { return lives[i+k].l >= a.r }) - 1
	}
	return pairs
}

// climb packs the lives of a search from the bottom up, as run does, but never takes anything back: parts of more lives
// than run can handle are packed in one go. A life that place refuses is put off; it is placed regardless before
// anything comes to lie at or above where it would have ended, since nothing below can raise it after that. This costs
// height, and the sections that the refusals are blamed on come first in the next pass.
//
// It gives the end of the highest life, and leaves the packing in low.
func (s *search) climb(top int64, rank []int32) (height int64) {
	s.top = top
	clear(s.blame)
	byRank := make([]int32, len(rank))
	for i, k := range rank {
		byRank[k] = int32(i)
	}
	q := queue{}
	for k, i := range byRank {
		q.push(turn{s.low[i], int32(k)})
	}
	for len(q) > 0 {
		s.looks += turnLooks
		k, late := q[0].rank, q[0].rank < 0
		if late {
			k = ^k
		}
		i := byRank[k]
		low := s.low[i]
		end := low + s.lives[i].size
		switch {
		case late && q[0].at != end, !late && q[0].at != low: // it was raised since
			q.replace(turn{low, k})
			continue
		case s.place(i):
		case late:
			s.top = math.MaxInt64 / 2
			s.place(i)
			s.top = top
		default:
			q.replace(turn{end, ^k})
			continue
		}
		q.pop()
		height = max(height, end)
	}
	return height
}

// turnLooks is what a turn in the queue costs, in looks.
const turnLooks = 64

// turn is a life in the queue: at is where it can begin, or would end if it was put off; rank tells which it is, and is
// turned over (^rank, below all others) if it was put off. A skyline has stretches in its queue: at is their height, rank
// their begin.
type turn struct {
	at   int64
	rank int32
}

func (a turn) before(b turn) bool { return a.at < b.at || a.at == b.at && a.rank < b.rank }

// queue is a heap, with up to four below each, of whose turn is next.
type queue []turn

func (q *queue) push(t turn) {
	*q = append(*q, t)
	h, i := *q, len(*q)-1
	for ; i > 0 && t.before(h[(i-1)/4]); i = (i - 1) / 4 {
		h[i] = h[(i-1)/4]
	}
	h[i] = t
}

func (q *queue) pop() {
	last := len(*q) - 1
	t := (*q)[last]
	if *q = (*q)[:last]; last > 0 {
		q.replace(t)
	}
}

// replace puts t in the place of the first.
func (q queue) replace(t turn) {
	i := 0
	for {
		least := 4*i + 1
		if least >= len(q) {
			break
		}
		for k := least + 1; k < min(4*i+5, len(q)); k++ {
			if q[k].before(q[least]) {
				least = k
			}
		}
		if !q[least].before(t) {
			break
		}
		q[i], i = q[least], least
	}
	q[i] = t
}
