package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestBans: what is found in narrower problems is a plan of the whole one, and some
// are cheaper than any that is found without.
func TestBans(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 38))
	plans, cheaper := 0, 0
	for range 14 {
		p := scan(r, 2+r.IntN(2), 8+r.IntN(8))
		floor := recompute.FloorOf(p)
		s, plain := solver(t, p), solver(t, p)
		plain.WithoutBans()
		for _, s := range []*recompute.Solver{s, plain} {
			s.WithoutLean() // which mostly finds such plans before
		}
		base, _ := s.Solve(1 << 40)
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(60))/100
		without, found := plain.Solve(limit)
		with, ok := s.Solve(limit)
		if ok != found {
			t.Fatalf("within %d: a plan with bans: %v, without: %v", limit, ok, found)
		}
		if !ok {
			continue
		}
		plans++
		peak, extra, err := recompute.Check(p, with.Launches)
		if err != nil || peak > limit || peak != with.Peak || extra != with.Extra {
			t.Fatalf("within %d: %v; peak %d, said to be %d; extra %v, said to be %v", limit, err, peak, with.Peak, extra, with.Extra)
		}
		if with.Extra > without.Extra {
			t.Errorf("within %d: extra %v, without bans %v", limit, with.Extra, without.Extra)
		}
		if with.Extra < without.Extra {
			cheaper++
		}
	}
	if t.Logf("%d of %d plans are cheaper", cheaper, plans); cheaper == 0 {
		t.Error("no plan is cheaper")
	}
}

// scan is a step of a net that goes over a sequence in each layer: dear operators on
// the whole of it, cheap ones on what was before and a part of it. All is read going
// back.
func scan(r *rand.Rand, layers, steps int) *recompute.Problem {
	p := &recompute.Problem{}
	op := func(again bool, cost float64, bytes int, inputs ...int32) int32 {
		return add(p, again, cost, int64(bytes), inputs...)
	}
	type layer struct {
		in, wide, gate, out int32
		parts, states       []int32
	}
	var all []layer
	size := 1024 * (1 + r.IntN(3))
	last := op(true, 100, size)
	for range layers {
		l := layer{in: last}
		l.wide = op(true, float64(2000+r.IntN(2000)), 2*size, last)
		l.gate = op(true, float64(500+r.IntN(500)), size, l.wide)
		state := op(true, 1, size/2)
		for range steps {
			part := op(true, float64(4+r.IntN(8)), size/2, l.wide)
			state = op(true, float64(4+r.IntN(8)), size/2, state, part, l.gate)
			l.parts, l.states = append(l.parts, part), append(l.states, state)
		}
		l.out = op(true, float64(2000+r.IntN(2000)), size, append([]int32{l.gate}, l.states...)...)
		last = l.out
		all = append(all, l)
	}
	p.Border = int32(len(p.Cost))
	grad := op(false, 1, size, last)
	for i := len(all) - 1; i >= 0; i-- {
		l := all[i]
		grad = op(false, 4000, size, grad, l.gate, l.out)
		for k := len(l.states) - 1; k >= 0; k-- {
			grad = op(false, 20, size, grad, l.states[k], l.parts[k])
		}
		grad = op(false, 4000, size, grad, l.wide, l.in)
	}
	return p
}
