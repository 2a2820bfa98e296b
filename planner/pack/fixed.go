package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Orders, search, skyline and eject place the other ranges around fixed ones. A part with a fixed range has no ranges put at
// its bottom for good (placeThroughout), and is not packed from its large ranges.
//
// To a skyline, a fixed range is an obstacle in the air: no range is placed that would reach into it, no section is raised
// past its bottom, and sections that have come up to its bottom go on from its top.

const (
	candidatesNearFixed = 64 // ranges of each group that a skyline looks at below a fixed range, where many do not fit
	gapWeight           = 3  // how much more bytes lost between a range and a fixed one above it weigh than bytes beside it
)

// validFixed says what is wrong with the fixed buffers of p. Offsets up to room plus all sizes and alignments do not overflow.
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
	all := rectangles(p, p.fixedOffsets())
	if a, b, found := findOverlap(slices.DeleteFunc(all, func(r rectangle) bool { return !seen[r.buffer] })); found {
		return fmt.Errorf("%s and %s are fixed at bytes that they would share", p.name(a), p.name(b))
	}
	return nil
}

// fixedOffsets is, by buffer, where it is fixed, or notFixed; nil if none is.
func (p Problem) fixedOffsets() (offsets []int64) {
	if len(p.Fixed) == 0 {
		return nil
	}
	offsets = make([]int64, len(p.Buffers))
	for i := range offsets {
		offsets[i] = notFixed
	}
	for _, f := range p.Fixed {
		offsets[f.Buffer] = f.Offset
	}
	return offsets
}

// fixedTop is the top of the highest fixed buffer.
func fixedTop(p Problem) (top int64) {
	for _, f := range p.Fixed {
		if b := p.Buffers[f.Buffer]; takesRoom(b) {
			top = max(top, f.Offset+b.Size)
		}
	}
	return top
}

// passFixed takes the sections of the stretch [begin, end) that have come up to the bottom of a fixed range to its top. It
// reports whether there are any.
func (s *skyline) passFixed(begin, end int32) bool {
	height := s.stretchHeight[begin]
	for _, r := range s.fixedFrom(height) {
		if r.fixed > height {
			break
		}
		if l, h := max(begin, r.begin), min(end, r.end); l < h {
			s.remaining.add(l, h, -r.size)
			s.raise(begin, l, h, height+r.size)
			return true
		}
	}
	return false
}

// fixedFrom is the fixed ranges whose bottom is at height or above it, lowest first.
func (s *skyline) fixedFrom(height int64) []liveRange {
	return s.fixed[sort.Search(len(s.fixed), func(i int) bool { return s.fixed[i].fixed >= height }):]
}

// lowestFixed is the bottom of the lowest fixed range from height on in any of sections [begin, end), or limit if there is
// none below that.
func (s *skyline) lowestFixed(begin, end int32, height, limit int64) int64 {
	for _, r := range s.fixedFrom(height) {
		if r.fixed >= limit {
			break
		}
		if r.begin < end && begin < r.end {
			return r.fixed
		}
	}
	return limit
}

// dropBlocked drops those of ranges that would reach into a fixed one if placed at height.
func (s *skyline) dropBlocked(ranges []int32, height int64) []int32 {
	return slices.DeleteFunc(ranges, func(i int32) bool {
		r := s.ranges[i]
		top := alignUp(height, r.align) + r.size
		return s.lowestFixed(r.begin, r.end, height, top) < top
	})
}

// gapWaste is what would be lost between r, placed at height, and the fixed range above it, per byte of r: the whole gap if
// it is narrow, nothing if it is wide enough for most ranges.
func (s *skyline) gapWaste(r liveRange, height int64) float64 {
	top := alignUp(height, r.align) + r.size
	wide := s.maxSize/2 + 1
	gap := s.lowestFixed(r.begin, r.end, top, top+wide) - top
	return float64(float64(gapWeight*gap)*(1-float64(gap)/float64(wide))) / float64(r.size)
}

// obstaclesOf is, by range that is not fixed, the addresses that fixed ones take while it is alive, by rising begin; they may
// overlap.
func obstaclesOf(ranges []liveRange) (obstacles [][]interval) {
	var fixed []int
	for i, r := range ranges {
		if r.fixed != notFixed {
			fixed = append(fixed, i)
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	slices.SortStableFunc(fixed, func(i, j int) int { return cmp.Compare(ranges[i].fixed, ranges[j].fixed) })
	obstacles = make([][]interval, len(ranges))
	for i, a := range ranges {
		for _, j := range fixed {
			if b := ranges[j]; a.fixed == notFixed && a.begin < b.end && b.begin < a.end {
				obstacles[i] = append(obstacles[i], interval{b.fixed, b.fixed + b.size})
			}
		}
	}
	return obstacles
}

// clearOfFixed is the lowest offset from x on at which range i of a search overlaps no fixed range.
func (s *search) clearOfFixed(i int32, x int64) int64 {
	r := s.ranges[i]
	x = alignUp(x, r.align)
	if s.obstacles == nil {
		return x
	}
	for _, o := range s.obstacles[i] {
		if x+r.size > o.lo && x < o.hi {
			x = alignUp(o.hi, r.align)
		}
	}
	return x
}
