package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestEvictors: what evictors keep is what they would work out.
func TestEvictors(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 300 {
		p := random(r, 2+r.IntN(30))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		if err := s.Evictors(floor.Peak + int64(r.IntN(100))); err != nil {
			t.Fatalf("program %d: %v", n, err)
		}
	}
}
