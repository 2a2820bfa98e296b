package pack

import (
	"cmp"
	"fmt"
	"slices"
)

// Check says what is wrong with s as a solution of p: an offset that is missing, negative or misaligned, two buffers
// that share bytes while both are alive, a height that is not the end of the highest buffer or is above the capacity, a
// bound above the height. It walks through time with the live buffers in the order of their addresses, where a buffer
// that comes in must fit between its neighbours; the packers know neither.
func Check(p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("pack: %d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
	}
	if err := valid(p); err != nil {
		return err
	}
	var begins []int // the buffers that take room, by begin
	height := int64(0)
	for i, b := range p.Buffers {
		offset := s.Offsets[i]
		switch {
		case offset < 0:
			return fmt.Errorf("pack: buffer %d: offset %d is negative", i, offset)
		case b.Align > 1 && offset%b.Align != 0:
			return fmt.Errorf("pack: buffer %d: offset %d is not a multiple of its alignment %d", i, offset, b.Align)
		case offset+b.Size < offset:
			return fmt.Errorf("pack: buffer %d: offset %d and size %d add up to no number", i, offset, b.Size)
		}
		if b.Size > 0 && b.First < b.Last {
			begins = append(begins, i)
			height = max(height, offset+b.Size)
		}
	}
	ends := slices.Clone(begins)
	slices.SortStableFunc(begins, func(i, j int) int { return cmp.Compare(p.Buffers[i].First, p.Buffers[j].First) })
	slices.SortStableFunc(ends, func(i, j int) int { return cmp.Compare(p.Buffers[i].Last, p.Buffers[j].Last) })

	var live []int // by offset
	find := func(i int) (at int, found bool) {
		return slices.BinarySearchFunc(live, s.Offsets[i], func(j int, offset int64) int { return cmp.Compare(s.Offsets[j], offset) })
	}
	ended := 0
	for _, i := range begins {
		for ; p.Buffers[ends[ended]].Last <= p.Buffers[i].First; ended++ {
			at, _ := find(ends[ended])
			live = slices.Delete(live, at, at+1)
		}
		at, _ := find(i)
		if at > 0 && end(p, s, live[at-1]) > s.Offsets[i] {
			return overlap(p, s, live[at-1], i)
		}
		if at < len(live) && end(p, s, i) > s.Offsets[live[at]] {
			return overlap(p, s, i, live[at])
		}
		live = slices.Insert(live, at, i)
	}
	switch {
	case s.Height != height:
		return fmt.Errorf("pack: the height is given as %d, but the highest buffer ends at %d", s.Height, height)
	case p.Capacity > 0 && height > p.Capacity:
		return fmt.Errorf("pack: the height %d is above the capacity %d", height, p.Capacity)
	case s.Bound > height:
		return fmt.Errorf("pack: the bound %d is above the height %d", s.Bound, height)
	}
	return nil
}

func end(p Problem, s Solution, i int) int64 { return s.Offsets[i] + p.Buffers[i].Size }

func overlap(p Problem, s Solution, i, j int) error {
	i, j = min(i, j), max(i, j)
	a, b := p.Buffers[i], p.Buffers[j]
	return fmt.Errorf("pack: buffers %d and %d overlap: both are alive in [%d, %d), at [%d, %d) and [%d, %d)", i, j,
		max(a.First, b.First), min(a.Last, b.Last), s.Offsets[i], end(p, s, i), s.Offsets[j], end(p, s, j))
}
