package pack

import "fmt"

// Check says what is wrong with s as a solution of p: an offset that is missing, negative or misaligned, two buffers
// that share bytes while both are alive, a height that is not the end of the highest buffer or is above the capacity, a
// bound above the height. Fixed buffers must stand where they are fixed, and buffers that may take over another's bytes may
// share a moment with it at the same offset. It looks at rectangles of time and bytes; the packers know none.
func Check(p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
	}
	if err := Valid(p); err != nil {
		return err
	}
	height := int64(0)
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
		if takesRoom(b) {
			height = max(height, offset+b.Size)
		}
	}
	for _, f := range p.Fixed {
		if s.Offsets[f.Buffer] != f.Offset {
			return fmt.Errorf("%s is at %d, but is fixed at %d", p.name(f.Buffer), s.Offsets[f.Buffer], f.Offset)
		}
	}
	if i, j, found := findOverlap(rectangles(p, func(i int) int64 { return s.Offsets[i] })); found {
		return overlapError(p, s, i, j)
	}
	switch {
	case s.Height != height:
		return fmt.Errorf("the height is given as %d, but the highest buffer ends at %d", s.Height, height)
	case p.Capacity > 0 && height > p.Capacity:
		return fmt.Errorf("the height %d is above the capacity %d", height, p.Capacity)
	case s.Bound > height:
		return fmt.Errorf("the bound %d is above the height %d", s.Bound, height)
	}
	return nil
}

func end(p Problem, s Solution, i int) int64 { return s.Offsets[i] + p.Buffers[i].Size }

func overlapError(p Problem, s Solution, i, j int) error {
	a, b := p.Buffers[i], p.Buffers[j]
	return fmt.Errorf("%s and %s overlap: both are alive in [%d, %d), at [%d, %d) and [%d, %d)", p.name(i), p.name(j),
		p.timestamp(max(a.First, b.First)), p.timestamp(min(a.Last, b.Last)), s.Offsets[i], end(p, s, i), s.Offsets[j], end(p, s, j))
}
