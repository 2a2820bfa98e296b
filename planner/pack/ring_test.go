package pack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// sliding is lives that begin at a random moment and last for length moments or up to so many more.
func sliding(n, length, more int, size int64, seed uint64) (p Problem) {
	r := rand.New(rand.NewPCG(seed, seed))
	for range n {
		first := r.IntN(n)
		last := first + length + r.IntN(1+more)
		p.Buffers = append(p.Buffers, Buffer{First: int32(first), Last: int32(last), Size: 64 * (1 + r.Int64N(size)), Align: 64})
	}
	return p
}

// A window that slides along loses no more than its largest life, whatever its sizes and however many begin at once. Where
// lengths differ a little a ring still comes near; where they differ much there is none.
func TestRing(t *testing.T) {
	for _, c := range []struct {
		length, more int
		size         int64
		want         bool
	}{{1, 0, 1 << 14, true}, {40, 0, 1, true}, {500, 0, 1 << 14, true}, {1400, 0, 1 << 10, true}, {500, 1, 1 << 14, true}, {500, 500, 1 << 14, false}} {
		for seed := range uint64(5) {
			q, goal := wholeOf(sliding(3000, c.length, c.more, c.size, seed))
			q.top = math.MaxInt64
			offsets, top := rings(q, target{goal: goal, near: goal})
			if got := offsets != nil; got != c.want {
				t.Errorf("%+v, seed %d: packed %v, want %v", c, seed, got, c.want)
			}
			if offsets == nil {
				continue
			}
			if q.offsets, q.top = offsets, top; top > goal+64*c.size {
				t.Errorf("%+v, seed %d: %d loses more than the largest life of the %d alive", c, seed, top, goal)
			}
			q.check()
		}
	}
}
