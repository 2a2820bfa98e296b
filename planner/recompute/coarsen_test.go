package recompute_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestCoarsen: what is found in coarse programs is a plan of the whole one, and cheaper on
// the whole than what is found without.
func TestCoarsen(t *testing.T) {
	for _, c := range []struct {
		name string
		net  func(r *rand.Rand) *recompute.Problem
	}{
		{"residual", func(r *rand.Rand) *recompute.Problem { return normed(r, 8+r.IntN(12)) }},
		{"recurrent", func(r *rand.Rand) *recompute.Problem { return recurrent(1+r.IntN(2), 8+r.IntN(16)) }},
	} {
		t.Run(c.name, func(t *testing.T) { leanly(t, c.net) })
	}
}

func leanly(t *testing.T, net func(r *rand.Rand) *recompute.Problem) {
	r := rand.New(rand.NewPCG(8, 99))
	plans, cheaper, dearer := 0, 0, 0
	with, without := 0.0, 0.0
	for range 10 {
		p := net(r)
		floor := recompute.FloorOf(p)
		s, plain := solver(t, p), solver(t, p)
		plain.WithoutCoarse()
		base, _ := s.Solve(1<<40, recompute.Ask{})
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(10+r.IntN(50))/100
		b, found := plain.Solve(limit, recompute.Ask{})
		a, ok := s.Solve(limit, recompute.Ask{})
		if found && !ok {
			t.Fatalf("within %d there is a plan, but not with a coarse program", limit)
		}
		if !ok || !found {
			continue
		}
		plans++
		peak, extra, err := recompute.Check(p, a.Launches)
		if err != nil || peak > limit || peak != a.Peak || math.Abs(extra-a.Extra) > 1e-9*extra || a.Bound > extra*(1+1e-9) {
			t.Fatalf("within %d: %v; peak %d, said to be %d; extra %v, said to be %v, bound %v", limit, err, peak, a.Peak, extra, a.Extra, a.Bound)
		}
		with, without = with+a.Extra, without+b.Extra
		if a.Extra < b.Extra*(1-1e-9) {
			cheaper++
		}
		if a.Extra > b.Extra*(1+1e-9) {
			dearer++
		}
	}
	t.Logf("%d of %d plans are cheaper, %d dearer; together %.0f instead of %.0f", cheaper, plans, dearer, with, without)
	if with >= without {
		t.Errorf("plans cost %v together, without coarse programs %v", with, without)
	}
}

// normed is a step of a residual net, whose norms and activations are several cheap
// operators each.
func normed(r *rand.Rand, blocks int) *recompute.Problem {
	p := &recompute.Problem{}
	size, cost := int64(4096*8), 4000.0
	fused := func(v int32, bytes int64) int32 { // norm, scale and activation
		mean := add(p, true, 20, 4, v)
		scaled := add(p, true, 20, bytes, v, mean)
		return add(p, true, 20, bytes, scaled)
	}
	type block struct{ in, first, norm, second, out int32 }
	var all []block
	in := add(p, true, cost/8, size)
	for range blocks {
		b := block{in: in}
		dear := cost * float64(4+r.IntN(3)) / 4
		b.first = add(p, true, dear, size, in)
		b.norm = fused(b.first, size)
		b.second = add(p, true, dear, size, b.norm)
		b.out = add(p, true, 20, size, fused(b.second, size), in)
		if in = b.out; r.IntN(4) == 0 {
			size /= 2
			in = add(p, true, cost/8, size, in)
		}
		all = append(all, b)
	}
	p.Border = int32(len(p.Cost))
	grad := add(p, false, 1, p.Bytes[in], in)
	for i := len(all) - 1; i >= 0; i-- {
		b := all[i]
		bytes := p.Bytes[b.in]
		grad = add(p, false, 20, bytes, grad, b.out)
		down := add(p, false, 20, bytes, grad, b.second)
		add(p, false, cost, 256, down, b.norm)
		down = add(p, false, cost, bytes, down)
		down = add(p, false, 20, bytes, down, b.norm)
		down = add(p, false, 20, bytes, down, b.first)
		add(p, false, cost, 256, down, b.in)
		grad = add(p, false, 20, bytes, add(p, false, cost, bytes, down), grad)
	}
	return p
}

// recurrent is a step of a net of layers of cells, which read their own state and
// what the layer before makes of the same step.
func recurrent(layers, steps int) *recompute.Problem {
	p := &recompute.Problem{}
	type cell struct{ gates, in, forget, out, memory, bent, state int32 }
	states, memories := make([]int32, layers), make([]int32, layers)
	for l := range layers {
		states[l], memories[l] = add(p, true, 1, 4), add(p, true, 1, 4)
	}
	var all []cell
	for range steps {
		below := add(p, true, 1, 4)
		for l := range layers {
			var c cell
			c.gates = add(p, true, 20, 16, add(p, true, 200, 16, below), add(p, true, 200, 16, states[l]))
			c.in, c.forget, c.out = add(p, true, 2, 4, c.gates), add(p, true, 2, 4, c.gates), add(p, true, 2, 4, c.gates)
			c.memory = add(p, true, 4, 4, memories[l], c.in, c.forget)
			c.bent = add(p, true, 2, 4, c.memory)
			c.state = add(p, true, 2, 4, c.out, c.bent)
			below, states[l], memories[l] = c.state, c.state, c.memory
			all = append(all, c)
		}
	}
	p.Border = int32(len(p.Cost))
	grad := add(p, false, 1, 4, states[layers-1])
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		before := c.memory
		if i >= layers {
			before = all[i-layers].memory
		}
		grad = add(p, false, 4, 16, grad, c.out, c.bent, c.in, c.forget, before)
		grad = add(p, false, 400, 4, grad, c.state)
	}
	return p
}
