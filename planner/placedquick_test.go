package planner

import (
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner/outside"
	"memopt/planner/recompute"
)

// TestPlacedQuick: a plan that does not fit at once gives way to the next one, if that costs
// about as much and bounds are near.
func TestPlacedQuick(t *testing.T) {
	s := searchOf(t, zoo.Spec{Family: "gpt", Layers: 4, Width: 32, Heads: 2, Vocab: 50})
	v := s.newSolver()
	top := s.base.placed.Height
	limit := outside.Align(top * 7 / 10)
	next, ok := v.r.Solve(outside.Align(top*6/10), recompute.Ask{})
	above, is := v.r.Solve(outside.Align(top*8/10), recompute.Ask{})
	if !ok || !is || above.Peak <= limit || next.Peak > limit {
		t.Fatalf("peaks of %d and %d bytes are not on both sides of %d", above.Peak, next.Peak, limit)
	}
	for _, c := range []struct {
		name  string
		a     recompute.Answer // is tried first
		costs float64          // what the other costs beyond it, as a part of the step
		gap   float64          // and how far a is from its bound
		fits  bool
	}{
		{"it fits", next, 0, 0, true},
		{"same cost", above, 0, 0, true},
		{"about the same cost, above", above, sameCost / 2, 0, true},
		{"dearer", above, 2 * sameCost, 0, false},
		{"about the same cost, below", above, -sameCost / 2, 0, true},
		{"cheaper", above, -2 * sameCost, 0, false},
		{"far from the bound", above, 0, 2 * nearBound, false},
	} {
		c.a.Extra = 0.1 * v.m.total
		c.a.Bound = c.a.Extra - c.gap*v.m.total
		b := next
		b.Extra = c.a.Extra + c.costs*v.m.total
		v.answers[limit] = answer{b, true}
		got, fits := v.placedQuick(usual, c.a, limit, limit)
		if fits != c.fits || fits && got.placed.Height > limit {
			t.Errorf("%s: placed is %t, want %t", c.name, fits, c.fits)
		}
	}
	v.answers[limit] = answer{next, false}
	if _, fits := v.placedQuick(usual, above, limit, limit); fits {
		t.Error("nothing is solved, and it is placed")
	}
}
