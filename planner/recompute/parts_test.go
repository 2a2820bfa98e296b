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
		s := solver(t, p)
		for range 4 {
			if err := s.Knapsacks(int32(r.IntN(len(p.Cost))), int64(r.IntN(150))); err != nil {
				t.Fatalf("program %d: %v", n, err)
			}
		}
	}
}

// TestKnapsackOfNone: no set of little is had for less than nothing where several
// operators that run once would have to run again.
func TestKnapsackOfNone(t *testing.T) {
	p := &recompute.Problem{Cost: []float64{1, 1, 1, 1, 1}, Work: make([]int64, 5), Again: []bool{false, false, true, false, false}, Border: 3, Bytes: []int64{8, 8, 4, 1, 1}, Held: make([]bool, 5)}
	for op, in := range [][]int32{nil, nil, {0, 1}, nil, {2, 3}} {
		p.Inputs.Add(in...)
		p.Outputs.Add(int32(op))
		p.Over.Add()
	}
	s := solver(t, p)
	for _, room := range []int64{0, 3, 4} {
		if err := s.Knapsacks(3, room); err != nil {
			t.Error(err)
		}
	}
}
