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
	free    = -1 // the fixed offset of a life that has none
	beneath = 64 // how many lives of each group a skyline looks at close to a block, where many do not fit
	shut    = 3  // how much more the bytes between a life and a block weigh than those beside it
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
	if a, b, ok := collision(slices.DeleteFunc(all, func(r rectangle) bool { return !seen[r.of] })); ok {
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
		at[i] = free
	}
	for _, f := range p.Fixed {
		at[f.Buffer] = f.Offset
	}
	return at
}

// pass takes sections of the stretch [a, b) of a skyline that have come to the bottom of a block to its top, if there
// are any.
func (s *skyline) pass(a, b int32) bool {
	height := s.height[a]
	for _, l := range s.above(height) {
		if l.fixed > height {
			break
		}
		if begin, end := max(a, l.l), min(b, l.r); begin < end {
			s.left.add(begin, end, -l.size)
			s.raise(a, begin, end, height+l.size)
			return true
		}
	}
	return false
}

// above is the blocks that begin at a height or above it.
func (s *skyline) above(height int64) []life {
	return s.blocks[sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].fixed >= height }):]
}

// roof is the bottom of the lowest block from height on in any of sections [l, r), or end if that is not above it.
func (s *skyline) roof(l, r int32, height, end int64) int64 {
	for _, b := range s.above(height) {
		if b.fixed >= end {
			break
		}
		if b.l < r && l < b.r {
			return b.fixed
		}
	}
	return end
}

// under keeps those of lives that meet no block on height.
func (s *skyline) under(lives []int32, height int64) []int32 {
	return slices.DeleteFunc(lives, func(i int32) bool {
		l := s.lives[i]
		end := up(height, l.align) + l.size
		return s.roof(l.l, l.r, height, end) < end
	})
}

// gap is what would stay empty between l, put on a height, and the blocks above it, for each byte that l has: all if that is
// hardly any, and nothing if it is so much that many lives fit in.
func (s *skyline) gap(l life, height int64) float64 {
	end := up(height, l.align) + l.size
	much := s.largest/2 + 1
	left := s.roof(l.l, l.r, end, end+much) - end
	return float64(float64(shut*left)*(1-float64(left)/float64(much))) / float64(l.size)
}

// walls is, by life that is not fixed, what is taken by fixed ones at any of its times; runs that may overlap, by begin.
func walls(lives []life) (taken [][]run) {
	var fixed []int
	for i, l := range lives {
		if l.fixed != free {
			fixed = append(fixed, i)
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	slices.SortStableFunc(fixed, func(i, j int) int { return cmp.Compare(lives[i].fixed, lives[j].fixed) })
	taken = make([][]run, len(lives))
	for i, a := range lives {
		for _, j := range fixed {
			if b := lives[j]; a.fixed == free && a.l < b.r && b.l < a.r {
				taken[i] = append(taken[i], run{b.fixed, b.fixed + b.size})
			}
		}
	}
	return taken
}

// clear is the lowest offset from x on that keeps life i of a search clear of fixed ones.
func (s *search) clear(i int32, x int64) int64 {
	l := s.lives[i]
	x = up(x, l.align)
	if s.walls == nil {
		return x
	}
	for _, w := range s.walls[i] {
		if x+l.size > w.lo && x < w.hi {
			x = up(w.hi, l.align)
		}
	}
	return x
}
