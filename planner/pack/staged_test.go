package pack

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What is advanced outside of sections that press leaves these as they are, and goes as high as it can without; what is packed
// after that is a packing.
func TestOutside(t *testing.T) {
	for _, f := range all() {
		p, goal := wholeOf(f.make(1500, 6))
		c := newClimb(p, goal, content)
		s := c.base.twin()
		s.route = plain
		in := make([]int32, p.sections+1) // before each section, of those in the middle fifth
		for i := range p.sections {
			in[i+1] = in[i]
			if i >= p.sections*2/5 && i < p.sections*3/5 {
				in[i+1]++
			}
		}
		for at := 1; at <= 20; at++ {
			s.weigh()
			before := s.heights()
			c.ready(s, 20)
			level := c.level(at, 20)
			s.outside(level, in)
			after := s.heights()
			for a := int32(0); a < s.sections; a = s.end[a] {
				b := s.end[a]
				for i := a; i < b && in[b] > in[a]; i++ {
					if in[i+1] > in[i] && after[i] != before[i] {
						t.Fatalf("%s: stage %d: section %d, which presses, went from %d to %d", f.name, at, i, before[i], after[i])
					}
				}
				if len(s.blocks) == 0 && in[a] == in[b] && after[a] < level && s.wall(a, b) >= after[a] && s.placed < len(p.lives) {
					t.Fatalf("%s: stage %d: sections %d to %d are %d high, below %d", f.name, at, a, b, after[a], level)
				}
			}
			s.advance(level)
		}
		if s.placed < len(p.lives) {
			t.Errorf("%s: only %d of %d lives are placed", f.name, s.placed, len(p.lives))
		}
		apartAt(t, p, s.offsets, s.highest)
	}
}

// heights is how high each section is.
func (s *skyline) heights() (heights []int64) {
	for a := int32(0); a < s.sections; a = s.end[a] {
		for range s.end[a] - a {
			heights = append(heights, s.height[a])
		}
	}
	return heights
}

// How much harder heights press as they rise is the difference of how hard they do, and nothing else rises.
func TestRise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, goal := range []int64{1, 100, 1 << 20, 1<<40 + 12345} {
		s := newScale(goal)
		press := func(heights []int64) (sum float64) {
			for _, h := range heights {
				if k := max(0, s.line-h) >> s.units; k < int64(len(s.hard)) && h > s.low {
					sum += s.hard[k]
				}
			}
			return sum
		}
		for range 1000 {
			heights := make([]int64, 1+r.IntN(20))
			for i := range heights {
				heights[i] = goal - goal/4 + r.Int64N(goal/3+1)
			}
			from, by := goal-goal/4+r.Int64N(goal/3+1), 1+r.Int64N(goal/20+1)
			want := slices.Clone(heights)
			for i, h := range want {
				if h > from {
					want[i] = h + by
				}
			}
			hard := press(want) - press(heights)
			got := s.rise(heights, from, by)
			if !slices.Equal(heights, want) {
				t.Fatalf("goal %d: %v, not %v", goal, heights, want)
			}
			least := s.hard[len(s.hard)-1] * float64(len(heights)) // what is seen of one that did not press before
			if got < 0 || got > hard+1e-6*(1+hard) || got < hard-least-1e-6*(1+hard) {
				t.Fatalf("goal %d: %g harder, not %g", goal, got, hard)
			}
		}
	}
}
