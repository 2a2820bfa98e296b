package recompute_test

import (
	"math"
	"testing"

	"memopt/planner/recompute"
)

// TestCheckpoints: a chain is gone back through in as few steps as is known to be possible.
func TestCheckpoints(t *testing.T) {
	p, _ := chain(100)
	s := solver(t, p)
	over := func(n, k int) (ways int) {
		ways = 1
		for i := range k {
			ways = ways * (n - i) / (i + 1)
		}
		return ways
	}
	asked := 0
	for room := range 5 {
		for links := 1; ; links++ {
			cost, ok := s.Checkpoints(room, links)
			if !ok {
				break
			}
			asked++
			// With so many places to keep something at, no link is come by more often than this.
			places, times := room+1, 0
			for over(places+times, places) < links {
				times++
			}
			least := times*links - over(places+times, places+1)
			if got := cost / 1001; math.Abs(got-float64(least)) > 1e-9 {
				t.Errorf("%d links with room for %d: %v steps, not %d", links, room, got, least)
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d stretches of a chain", asked)
	}
}

// TestChainOfLayers: layers whose backward pass needs more than what goes on between them are
// gone back through that way, too, with little room beside what one of them needs.
func TestChainOfLayers(t *testing.T) {
	for _, c := range []struct {
		limit int64
		most  float64 // of the whole cost
	}{{60, 0.45}, {50, 0.75}, {45, 1.1}, {42, 3.7}} {
		p, total := layers(24)
		a, ok := solver(t, p).Solve(c.limit, recompute.Ask{})
		if !ok {
			t.Errorf("nothing within %d; the floor is %d", c.limit, recompute.FloorOf(p).Peak)
			continue
		}
		peak, extra, err := recompute.Check(p, a.Launches)
		if err != nil || peak > c.limit {
			t.Errorf("within %d: %v, peak %d", c.limit, err, peak)
		}
		t.Logf("%d: %.1f %%, at least %.1f", c.limit, 100*extra/total, 100*a.Bound/total)
		if extra > c.most*total {
			t.Errorf("within %d: %.1f %% more", c.limit, 100*extra/total)
		}
	}
}

// layers is a chain of layers that widen what goes on fourfold and narrow it again, with one
// operator between that may write over what it reads, and what all that costs.
func layers(n int) (p *recompute.Problem, total float64) {
	p = &recompute.Problem{Border: int32(4 * n)}
	op := func(again bool, cost float64, bytes int64, over bool, inputs ...int32) int32 {
		p.Bytes, p.Held = append(p.Bytes, bytes), append(p.Held, false)
		output := int32(len(p.Bytes) - 1)
		p.Cost, p.Work, p.Again = append(p.Cost, cost), append(p.Work, 0), append(p.Again, again)
		p.Inputs.Add(inputs...)
		p.Outputs.Add(output)
		if over {
			p.Over.Add(inputs[0])
		} else {
			p.Over.Add()
		}
		total += cost
		return output
	}
	type layer struct{ in, wide, curved int32 }
	var all []layer
	x := op(true, 1, 4, false)
	for i := range n {
		l := layer{in: x}
		l.wide = op(true, 100, 16, false, x)
		l.curved = op(true, 1, 16, true, l.wide)
		narrow := op(true, 100, 4, false, l.curved)
		if x = op(true, 1, 4, true, narrow, l.in); i == n-1 {
			p.Border = int32(len(p.Cost))
		}
		all = append(all, l)
	}
	g := op(false, 1, 4, false, x)
	for i := n - 1; i >= 0; i-- {
		l := all[i]
		op(false, 100, 1, false, l.curved, g)
		curved := op(false, 100, 16, false, g)
		wide := op(false, 1, 16, true, curved, l.wide)
		op(false, 100, 1, false, l.in, wide)
		g = op(false, 1, 4, true, op(false, 100, 4, false, wide), g)
	}
	return p, total
}
