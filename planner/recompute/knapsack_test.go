package recompute_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

var pairPrograms = flag.Int("pairs", 500, "programs that bounds by two places are held against the cheapest launches of")

// TestPairs: what two places say is no more than what the cheapest launches cost,
// and often more than either says.
func TestPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	raised, packed, met := 0, 0, 0
	for n := range *pairPrograms {
		p := halfLittle(r, n, 2+r.IntN(9))
		s, limit := limited(t, r, p)
		for range 4 {
			first := int32(r.IntN(len(p.Cost) - 1))
			second := first + 1 + int32(r.IntN(len(p.Cost)-1-int(first)))
			byPrice, byMix, cut, least, ok := s.Pairs(first, second, limit)
			if !ok {
				continue
			}
			if max(byPrice, byMix) > least*(1+1e-9)+1e-6 {
				t.Fatalf("program %d within %d at %d and %d: prices say %v, a knapsack %v, the cheapest launches cost %v", n, limit, first, second, byPrice, byMix, least)
			}
			if byPrice > cut+1e-6 {
				raised++
			}
			if byMix > byPrice+1e-6 {
				packed++
			}
			if byMix > 0 && byMix > least-1e-6 {
				met++
			}
		}
	}
	t.Logf("%d bounds of cuts are raised by prices, %d of those by knapsacks, %d meet the cost", raised, packed, met)
	if raised < *pairPrograms/50 || packed < *pairPrograms/20 || met < *pairPrograms/20 {
		t.Error("too few")
	}
}

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
