package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestStretches: what is told of places without looking at what they read is what
// looking at it tells.
func TestStretches(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	stretched, looked := 0, 0
	for n := range 1000 {
		p := random(r, 2+r.IntN(60))
		floor := recompute.FloorOf(p)
		in, at, err := solver(t, p).Stretches(r, floor.Peak+int64(r.IntN(100)))
		if err != nil {
			t.Fatalf("program %d: %v", n, err)
		}
		stretched, looked = stretched+in, looked+at
	}
	if t.Logf("%d places in stretches, %d looked at", stretched, looked); stretched < 1_000_000 || looked < 40_000 {
		t.Errorf("only %d places were in stretches, and %d looked at", stretched, looked)
	}
}
