package planner

import (
	"slices"

	"memopt/planner/outside"
	"memopt/planner/pack"
)

// Offsets are multiples of the alignment, so lives fill whole units of it. If a capacity ends within a unit, only a
// life that ends there has a use for its last bytes.

// least is the fewest bytes of its last unit that a value fills.
func (m *model) least() int64 {
	least := int64(alignment)
	for _, bytes := range m.bytes {
		if part := bytes % alignment; part > 0 {
			least = min(least, part)
		}
	}
	return least
}

// useful is what values can take of so many bytes: a part of a unit at the end is only of use to a highest value that
// does not fill its own.
func (m *model) useful(bytes int64) int64 {
	if m.unplaced() {
		return bytes
	}
	if part := bytes % alignment; part < m.least() {
		bytes -= part
	}
	return bytes
}

// aligned is the limit of peaks in whole units for an arena of so many bytes.
func (m *model) aligned(bytes int64) int64 { return m.align(m.useful(bytes)) }

// topLives is lives that take turns in the last bytes of a capacity, so that all others fit in the whole units below at
// any time. It is nil if there are no such lives, or none are needed.
func (t *timeline) topLives(capacity int64) (topLives []int32) {
	part := capacity % alignment
	if part == 0 {
		return nil
	}
	alive := make([]int64, len(t.steps)+1)
	for _, l := range t.lives {
		alive[l.first] += outside.Align(l.bytes)
		alive[l.last] -= outside.Align(l.bytes)
	}
	sumUp(alive)
	next, end, best := 0, int32(0), int32(-1) // lives looked at; where the topLives ends; what reaches farthest behind
	for i, bytes := range alive {
		now := int32(i)
		for ; next < len(t.lives) && t.lives[next].first <= now; next++ {
			l := t.lives[next]
			if l.bytes > 0 && l.bytes <= part && l.first >= end && (best < 0 || l.last > t.lives[best].last) {
				best = int32(next)
			}
		}
		if bytes > capacity-part && now >= end {
			if best < 0 || t.lives[best].last <= now {
				return nil
			}
			topLives, end, best = append(topLives, best), t.lives[best].last, -1
		}
		if now < end {
			bytes -= alignment
		}
		if bytes > capacity-part {
			return nil
		}
	}
	return topLives
}

// placeUnder places a candidate within a capacity whose last bytes are a topLives's.
func (m *model) placeUnder(topLives []int32, c *candidate, problem pack.Problem, effort pack.Effort) (err error) {
	whole := problem.Capacity / alignment * alignment
	problem.Capacity = whole
	for _, i := range topLives {
		problem.Buffers[i].Size = 0
	}
	if c.placed, err = m.pack(problem, effort); err != nil {
		c.placed.Offsets = nil // they are not those of all lives
		return err
	}
	for _, i := range topLives {
		c.placed.Offsets[i] = whole
		c.placed.Height = max(c.placed.Height, whole+c.t.lives[i].bytes)
	}
	c.placed.Bound = max(c.placed.Bound, c.t.peak)
	return nil
}

// trimmed is a candidate whose arena ends with the least part of a unit that some topLives fills, or as it was.
func (m *model) trimmed(c *candidate) *candidate {
	if m.unplaced() {
		return c
	}
	whole := outside.Align(c.placed.Height) - alignment
	var parts []int64
	for _, l := range c.t.lives {
		if part := l.bytes % alignment; part == l.bytes && part > 0 && whole+part < c.placed.Height && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	for _, part := range parts {
		if c.t.topLives(whole+part) == nil {
			continue
		}
		if low, fits := m.place(c, whole+part, placingLooks); fits {
			return low
		}
	}
	return c
}
