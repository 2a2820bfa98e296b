package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A part in which a buffer is fixed is packed by strategies, a search and what mends a packing, which go around it. It is
// not built up as a skyline, and nothing goes to its bottom for good.

// free is the fixed offset of a life that has none.
const free = -1

// validFixed says what is wrong with the fixed buffers of p. With room added to all sizes and alignments, offsets are
// still numbers.
func validFixed(p Problem, room int64) error {
	if len(p.Fixed) == 0 {
		return nil
	}
	seen := make([]bool, len(p.Buffers))
	for _, f := range p.Fixed {
		if f.Buffer < 0 || f.Buffer >= len(p.Buffers) {
			return fmt.Errorf("pack: buffer %d is fixed, but there are %d", f.Buffer, len(p.Buffers))
		}
		b := p.Buffers[f.Buffer]
		switch {
		case seen[f.Buffer]:
			return fmt.Errorf("pack: buffer %d is fixed twice", f.Buffer)
		case f.Offset < 0:
			return fmt.Errorf("pack: buffer %d is fixed at %d, which is negative", f.Buffer, f.Offset)
		case f.Offset%max(b.Align, 1) != 0:
			return fmt.Errorf("pack: buffer %d is fixed at %d, which is not a multiple of its alignment %d", f.Buffer, f.Offset, b.Align)
		case f.Offset > room:
			return fmt.Errorf("pack: buffer %d is fixed at %d; with sizes and alignments that is more than %d bytes",
				f.Buffer, f.Offset, int64(math.MaxInt64))
		}
		seen[f.Buffer] = true
	}
	at := p.fixedOffsets()
	all := rectangles(p, func(i int) int64 { return at[i] })
	if a, b, ok := collision(slices.DeleteFunc(all, func(r rectangle) bool { return !seen[r.of] })); ok {
		return fmt.Errorf("pack: buffers %d and %d are fixed at bytes that they would share", a, b)
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

// fixed is whether a life of p is.
func (p *part) fixed() bool {
	return slices.ContainsFunc(p.lives, func(l life) bool { return l.fixed != free })
}

// around packs a part in which lives are fixed.
func (p *part) around(goal int64) {
	p.try(strategies, newSpace(p.sections, patience*len(p.lives)), goal)
	if enough := goal + goal/content; p.top > enough && goal < math.MaxInt64/4 {
		p.mend(goal, enough, mending*len(p.lives))
	}
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
