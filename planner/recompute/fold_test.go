package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// layered is a program of equal layers that all read one mask. The backward
// part, from the last layer to the first, reads some values of each, and not the
// mask.
func layered(layers int) *recompute.Problem {
	p := &recompute.Problem{}
	op := func(again bool, cost float64, bytes int64, inputs ...int32) int32 {
		p.Cost, p.Work, p.Again = append(p.Cost, cost), append(p.Work, 0), append(p.Again, again)
		p.Bytes, p.Held = append(p.Bytes, bytes), append(p.Held, false)
		v := int32(len(p.Bytes) - 1)
		p.Inputs.Add(inputs...)
		p.Outputs.Add(v)
		p.Over.Add()
		return v
	}
	mask := op(true, 40, 512, op(true, 1, 4))
	x := op(true, 5, 64)
	var reads [][]int32
	for range layers {
		a := op(true, 20, 64, x)
		b := op(true, 3, 128, a, mask)
		c := op(true, 9, 128, b)
		d := op(true, 1, 64, c)
		reads = append(reads, []int32{x, a, c})
		x = op(true, 1, 64, x, d)
	}
	p.Border = int32(len(p.Cost))
	g := op(false, 1, 64, x)
	for i := range reads {
		g = op(false, 40, 64, append(reads[layers-1-i], g)...)
	}
	return p
}

// TestFolds: the cut of a folded network is that of the whole one.
func TestFolds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 600 {
		s := solver(t, random(r, 2+r.IntN(60)))
		if _, _, err := s.Folds(float64(r.IntN(20)) / 10); err != nil {
			t.Fatalf("program %d: %v", n, err)
		}
	}
	for _, layers := range []int{1, 6, 20, 70} {
		s := solver(t, layered(layers))
		for _, byteCost := range []float64{0, 0.05, 0.1, 0.2, 0.5, 5} {
			values, folded, err := s.Folds(byteCost)
			if err != nil {
				t.Fatalf("%d layers at %v: %v", layers, byteCost, err)
			}
			if most := 16 + 5*layers/32; layers >= 20 && folded > most {
				t.Fatalf("%d values of %d layers are folded to %d, not %d", values, layers, folded, most)
			}
		}
	}
}
