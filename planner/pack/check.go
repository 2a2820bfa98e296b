package pack

import (
	"cmp"
	"fmt"
	"slices"
)

// Check says what is wrong with s as a solution of p: an offset that is missing, negative or misaligned, two buffers that
// share bytes while both are alive, a height that is not the top of the highest buffer or is above the capacity, or a bound
// above the height. Check works on rectangles of moments and bytes, which no pass does.
func Check(p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
	}
	if err := Valid(p); err != nil {
		return err
	}
	for i, b := range p.Buffers {
		offset := s.Offsets[i]
		switch {
		case offset < 0:
			return fmt.Errorf("%s: offset %d is negative", p.name(i), offset)
		case b.Align > 1 && offset%b.Align != 0:
			return fmt.Errorf("%s: offset %d is not a multiple of its alignment %d", p.name(i), offset, b.Align)
		case offset+b.Size < offset:
			return fmt.Errorf("%s: offset %d and size %d add up to no number", p.name(i), offset, b.Size)
		}
	}
	if i, j, found := findOverlap(rectangles(p, s.Offsets)); found {
		a, b := p.Buffers[i], p.Buffers[j]
		return fmt.Errorf("%s and %s overlap: both are alive in [%d, %d), at [%d, %d) and [%d, %d)", p.name(i), p.name(j),
			p.timestamp(max(a.First, b.First)), p.timestamp(min(a.Last, b.Last)),
			s.Offsets[i], s.Offsets[i]+a.Size, s.Offsets[j], s.Offsets[j]+b.Size)
	}
	switch height := heightOf(p, s.Offsets); {
	case s.Height != height:
		return fmt.Errorf("the height is given as %d, but the highest buffer ends at %d", s.Height, height)
	case p.Capacity > 0 && height > p.Capacity:
		return fmt.Errorf("the height %d is above the capacity %d", height, p.Capacity)
	case s.Bound > height:
		return fmt.Errorf("the bound %d is above the height %d", s.Bound, height)
	}
	return nil
}

// rectangle is bytes [lo, hi) that a buffer has during moments [first, last).
type rectangle struct {
	first, last int32
	lo, hi      int64
	buffer      int
}

// rectangles is what the buffers of p take up at their offsets.
func rectangles(p Problem, offsets []int64) []rectangle {
	all := make([]rectangle, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if takesRoom(b) {
			all = append(all, rectangle{b.First, b.Last, offsets[i], offsets[i] + b.Size, i})
		}
	}
	return all
}

// findOverlap finds two buffers whose rectangles overlap, in O(n log n) but for moving list entries. It sweeps through time
// with a list of what is alive by address; a rectangle that begins must fit between its neighbors in that list.
func findOverlap(all []rectangle) (a, b int, found bool) {
	slices.SortStableFunc(all, func(a, b rectangle) int { return cmp.Compare(a.first, b.first) })
	ends := slices.Clone(all)
	slices.SortStableFunc(ends, func(a, b rectangle) int { return cmp.Compare(a.last, b.last) })
	var live []rectangle // by address
	position := func(r rectangle) int {
		k, _ := slices.BinarySearchFunc(live, r.lo, func(l rectangle, lo int64) int { return cmp.Compare(l.lo, lo) })
		return k
	}
	ended := 0
	for _, r := range all {
		for ; ends[ended].last <= r.first; ended++ {
			k := position(ends[ended])
			live = slices.Delete(live, k, k+1)
		}
		k := position(r)
		if k > 0 && live[k-1].hi > r.lo {
			return min(live[k-1].buffer, r.buffer), max(live[k-1].buffer, r.buffer), true
		}
		if k < len(live) && r.hi > live[k].lo {
			return min(live[k].buffer, r.buffer), max(live[k].buffer, r.buffer), true
		}
		live = slices.Insert(live, k, r)
	}
	return 0, 0, false
}
