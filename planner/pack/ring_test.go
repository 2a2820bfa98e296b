package pack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A window that slides along loses no more than its largest life, whatever its sizes and however many begin at once.
func TestRing(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, seed))
		const n = 3000
		length := 1 + r.IntN(n/2)
		var p Problem
		largest := int64(0)
		for range n {
			size := 64 * powerLaw(r, 0.5+r.Float64(), 1<<16)
			largest = max(largest, size)
			p.Buffers = append(p.Buffers, lasting(r.IntN(n), length, size, 64))
		}
		q, goal := wholeOf(p)
		if !q.rings(goal, goal+largest) {
			t.Errorf("length %d: no ring is as low as %d bytes above %d", length, largest, goal)
			continue
		}
		s := Solution{Offsets: make([]int64, n), Bound: goal}
		s.read(p, []*part{q})
		if err := Check(p, s); err != nil || s.Height != q.top {
			t.Errorf("length %d: %d high, said to be %d: %v", length, s.Height, q.top, err)
		}
	}
}

// Where lengths differ a little, a ring still comes near; where they differ much there is none, and nothing is changed.
func TestRingNearly(t *testing.T) {
	for _, c := range []struct {
		differ int // by so many hundredths
		want   bool
	}{{1, true}, {100, false}} {
		r := rand.New(rand.NewPCG(1, 1))
		const n, length = 10_000, 500
		var p Problem
		for range n {
			p.Buffers = append(p.Buffers, lasting(r.IntN(n), length+r.IntN(1+length*c.differ/100), 1+r.Int64N(1<<20), 1))
		}
		lives, sections := livesOf(p)
		q := &part{lives: lives, sections: sections, top: math.MaxInt64}
		goal := mostLive(lives, sections)
		if got := q.rings(goal, goal+goal/content); got != c.want || got != (q.top < math.MaxInt64) {
			t.Errorf("lengths that differ by %d %%: %v, with a top of %d", c.differ, got, q.top)
		}
	}
}
