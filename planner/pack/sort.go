package pack

import "slices"

// sorter sorts lives by a number for each. As many lives are sorted by what takes many bytes, it goes byte by byte, from the
// last that any two differ in on, and compares none.
type sorter struct{ lives, sorted []keyed }

// keyed is a life and what it is sorted by.
type keyed struct {
	key  uint64
	life int32
}

// sort puts lives of small keys before those of large ones, and leaves those of one key as they come. Bits of numbers that are
// not negative, whole or not, are as large as those are.
func (s *sorter) sort(lives []int32, key func(i int32) uint64) {
	s.lives, s.sorted = slices.Grow(s.lives[:0], len(lives)), slices.Grow(s.sorted[:0], len(lives))[:len(lives)]
	differ := uint64(0)
	for _, i := range lives {
		s.lives = append(s.lives, keyed{key(i), i})
		differ |= s.lives[0].key ^ s.lives[len(s.lives)-1].key
	}
	for shift := 0; shift < 64; shift += 8 {
		if uint8(differ>>shift) == 0 {
			continue
		}
		var next [256]int32 // by byte: where the next life of it goes
		for _, l := range s.lives {
			next[uint8(l.key>>shift)]++
		}
		sum := int32(0)
		for b, n := range next {
			next[b] = sum
			sum += n
		}
		for _, l := range s.lives {
			at := &next[uint8(l.key>>shift)]
			s.sorted[*at] = l
			*at++
		}
		s.lives, s.sorted = s.sorted, s.lives
	}
	for k, l := range s.lives {
		lives[k] = l.life
	}
}

// sortBy is sort for who sorts once.
func sortBy(lives []int32, key func(i int32) uint64) { new(sorter).sort(lives, key) }
