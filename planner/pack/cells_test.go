package pack

import (
	"math/rand/v2"
	"testing"
)

// Cells find all lives that meet one and begin between two addresses, wherever they were moved.
func TestCells(t *testing.T) {
	const n, sections, top = 500, 300, 1 << 20
	r := rand.New(rand.NewPCG(5, 5))
	lives, at := make([]life, n), make([]int64, n)
	for i := range lives {
		begin := r.Int32N(sections)
		lives[i] = life{l: begin, r: min(begin+1+r.Int32N(60), sections)}
	}
	c := newCells(lives, sections, 8, top)
	for i := range at {
		at[i] = r.Int64N(top)
		c.add(int32(i), at[i])
	}
	others := 0
	for round := range 200 {
		for range 10 {
			i, to := r.Int32N(n), r.Int64N(top)
			c.move(i, at[i], to)
			at[i] = to
		}
		l, from := &lives[r.Int32N(n)], r.Int64N(top)
		to := from + 1 + r.Int64N(top-from)
		near := map[int32]bool{}
		for i := range c.near(l, from, to) {
			near[i] = true
		}
		for i, o := range lives {
			is := o.l < l.r && o.r > l.l && at[i] >= from && at[i] < to
			if is && !near[int32(i)] {
				t.Fatalf("round %d: %v at %d is not found near %v in [%d, %d)", round, o, at[i], l, from, to)
			}
			if !is && near[int32(i)] {
				others++
			}
		}
	}
	if others > 200*n/4 {
		t.Errorf("%d lives were found that are not near", others)
	}
}
