package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestKnapsack: what is cheapest to have at a place is what trying all sets finds.
func TestKnapsack(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 1500 {
		p := random(r, 2+r.IntN(12))
		s, err := recompute.New(p)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := s.Knapsacks(int32(r.IntN(len(p.Cost))), int64(r.IntN(150))); err != nil {
				t.Fatalf("program %d: %v", n, err)
			}
		}
	}
}
