package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// A part with fixed buffers is packed by orders, search, skyline and eject, which place the other lives around them. No life is
// put at its bottom for good (settle), and it is not packed from its large lives.
//
// To the skyline a fixed life is a block in the air: no life is placed that would reach into it, no section is raised past its
// bottom, and sections that have come up to its bottom go on from its top.

const (
	notFixed            = -1 // the fixed offset of a life that has none
	candidatesNearFixed = 64 // how many lives of each group a skyline looks at close to a block, where many do not fit
	gapWeight           = 3  // how much more the bytes between a life and a block weigh than those beside it
)

// validFixed says what is wrong with the fixed buffers of p. With room added to all sizes and alignments, offsets are
// still numbers.
func validFixed(p Problem, room int64) error {
	if len(p.Fixed) == 0 {
		return nil
	}
	seen := make([]bool, len(p.Buffers))
	for _, f := range p.Fixed {
		if f.Buffer < 0 || f.Buffer >= len(p.Buffers) {
			return fmt.Errorf("buffer %d is fixed, but there are %d", f.Buffer, len(p.Buffers))
		}
		b := p.Buffers[f.Buffer]
		switch {
		case seen[f.Buffer]:
			return fmt.Errorf("%s is fixed twice", p.name(f.Buffer))
		case f.Offset < 0:
			return fmt.Errorf("%s is fixed at %d, which is negative", p.name(f.Buffer), f.Offset)
		case f.Offset%max(b.Align, 1) != 0:
			return fmt.Errorf("%s is fixed at %d, which is not a multiple of its alignment %d", p.name(f.Buffer), f.Offset, b.Align)
		case f.Offset > room:
			return fmt.Errorf("%s is fixed at %d; with sizes and alignments that is more than %d bytes",
				p.name(f.Buffer), f.Offset, int64(math.MaxInt64))
		}
		seen[f.Buffer] = true
	}
	at := p.fixedOffsets()
	all := rectangles(p, func(i int) int64 { return at[i] })
	if a, b, ok := findOverlap(slices.DeleteFunc(all, func(r rectangle) bool { return !seen[r.buffer] })); ok {
		return fmt.Errorf("%s and %s are fixed at bytes that they would share", p.name(a), p.name(b))
	}
	return nil
}

// fixedOffsets is, by buffer, where it is fixed, or free; nil if none is.
func (p Problem) fixedOffsets() (at []int64) {
	if len(p.Fixed) == 0 {
		return nil
	}
	at = make([]int64, len(p.Buffers))
	for i := range at {
		at[i] = notFixed
	}
	for _, f := range p.Fixed {
		at[f.Buffer] = f.Offset
	}
	return at
}

// pass takes sections of the stretch [a, b) of a skyline that have come to the bottom of a block to its top, if there
// are any.
func (s *skyline) passFixed(a, b int32) bool {
	height := s.stretchHeight[a]
	for _, l := range s.fixedFrom(height) {
		if l.fixed > height {
			break
		}
		if begin, end := max(a, l.begin), min(b, l.end); begin < end {
			s.remaining.add(begin, end, -l.size)
			s.raise(a, begin, end, height+l.size)
			return true
		}
	}
	return false
}

// above is the blocks that begin at a height or above it.
func (s *skyline) fixedFrom(height int64) []liveRange {
	return s.fixed[sort.Search(len(s.fixed), func(i int) bool { return s.fixed[i].fixed >= height }):]
}

// roof is the bottom of the lowest block from height on in any of sections [l, r), or end if that is not above it.
func (s *skyline) lowestFixed(l, r int32, height, end int64) int64 {
	for _, b := range s.fixedFrom(height) {
		if b.fixed >= end {
			break
		}
		if b.begin < r && l < b.end {
			return b.fixed
		}
	}
	return end
}

// under keeps those of lives that meet no block on height.
func (s *skyline) dropBlocked(lives []int32, height int64) []int32 {
	return slices.DeleteFunc(lives, func(i int32) bool {
		l := s.ranges[i]
		end := alignUp(height, l.align) + l.size
		return s.lowestFixed(l.begin, l.end, height, end) < end
	})
}

// gap is what would stay empty between l, put on a height, and the blocks above it, for each byte that l has: all if that is
// hardly any, and nothing if it is so much that many lives fit in.
func (s *skyline) gapWaste(l liveRange, height int64) float64 {
	end := alignUp(height, l.align) + l.size
	much := s.maxSize/2 + 1
	left := s.lowestFixed(l.begin, l.end, end, end+much) - end
	return float64(float64(gapWeight*left)*(1-float64(left)/float64(much))) / float64(l.size)
}

// walls is, by life that is not fixed, what is taken by fixed ones at any of its times; runs that may overlap, by begin.
func obstaclesOf(lives []liveRange) (taken [][]interval) {
	var fixed []int
	for i, l := range lives {
		if l.fixed != notFixed {
			fixed = append(fixed, i)
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	slices.SortStableFunc(fixed, func(i, j int) int { return cmp.Compare(lives[i].fixed, lives[j].fixed) })
	taken = make([][]interval, len(lives))
	for i, a := range lives {
		for _, j := range fixed {
			if b := lives[j]; a.fixed == notFixed && a.begin < b.end && b.begin < a.end {
				taken[i] = append(taken[i], interval{b.fixed, b.fixed + b.size})
			}
		}
	}
	return taken
}

// clear is the lowest offset from x on that keeps life i of a search clear of fixed ones.
func (s *search) clearOfFixed(i int32, x int64) int64 {
	l := s.ranges[i]
	x = alignUp(x, l.align)
	if s.obstacles == nil {
		return x
	}
	for _, w := range s.obstacles[i] {
		if x+l.size > w.lo && x < w.hi {
			x = alignUp(w.hi, l.align)
		}
	}
	return x
}
