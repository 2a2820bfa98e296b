package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestTrials: a trial tells of a change what walking the whole plan tells.
func TestTrials(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 3000 {
		p := random(r, 2+r.IntN(30))
		s := solver(t, p)
		floor := recompute.FloorOf(p)
		if err := s.Trials(r, floor.Peak+int64(r.IntN(100))); err != nil {
			t.Fatalf("program %d: %v", n, err)
		}
	}
}
