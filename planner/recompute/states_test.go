package recompute_test

import (
	"testing"

	"memopt/planner/recompute"
)

// chain is a chain of equal layers, and what it costs. The gradients of weights take
// so many bytes.
func chain(weights int64) (p *recompute.Problem, total float64) {
	const layers = 16
	p = &recompute.Problem{Border: 2 * layers}
	value := func(bytes int64) int32 {
		p.Bytes, p.Held = append(p.Bytes, bytes), append(p.Held, false)
		return int32(len(p.Bytes) - 1)
	}
	op := func(again bool, cost float64, over []int32, output int32, inputs ...int32) int32 {
		p.Cost, p.Work, p.Again = append(p.Cost, cost), append(p.Work, 0), append(p.Again, again)
		p.Inputs.Add(inputs...)
		p.Outputs.Add(output)
		p.Over.Add(over...)
		total += cost
		return output
	}
	var kept []int32 // of each layer, what its gradients read
	for i := range layers {
		var in []int32
		if i > 0 {
			in = kept[i-1:]
		}
		product := op(true, 1000, nil, value(1000), in...)
		kept = append(kept, op(true, 1, []int32{product}, value(1000), product))
	}
	gradient := op(false, 10, nil, value(1000), kept[layers-1])
	for i := layers - 1; i > 0; i-- {
		gradient = op(false, 2, []int32{gradient}, value(1000), gradient, kept[i])
		before := op(false, 1000, nil, value(1000), gradient)
		op(false, 1000, nil, value(weights), gradient, kept[i-1])
		gradient = before
	}
	return p, total
}

// TestChain: a chain is planned as cheaply as can be, also where what is kept has to
// be chosen anew many times on the way back.
func TestChain(t *testing.T) {
	// By bytes of weights and limit, how often products run again at least.
	for _, c := range []struct {
		weights, limit int64
		again          int
	}{
		{100, 17000, 1}, {100, 14000, 4}, {100, 10000, 8}, {100, 8000, 10}, {100, 7000, 12}, {100, 6000, 18}, {100, 5000, 30}, {100, 4000, 105},
		{2000, 9000, 10}, {2000, 8000, 12}, {2000, 7000, 18}, {2000, 6000, 30}, {2000, 5000, 105},
	} {
		p, total := chain(c.weights)
		s := solver(t, p)
		a, ok := s.Solve(c.limit, recompute.Ask{})
		if !ok {
			t.Errorf("nothing within %d", c.limit)
			continue
		}
		peak, extra, err := recompute.Check(p, a.Launches)
		if err != nil || peak > c.limit || extra > a.Extra+1e-6 {
			t.Errorf("within %d: %v, peak %d, extra %v", c.limit, err, peak, extra)
		}
		t.Logf("%d within %d: extra %v, bound %v", c.weights, c.limit, a.Extra, a.Bound)
		if again := int(a.Extra / 1000); again != c.again || a.Extra-a.Bound > total/200 {
			t.Errorf("%d within %d: extra %v is not %d products, or far from the bound of %v", c.weights, c.limit, a.Extra, c.again, a.Bound)
		}
	}
}
