package recompute_test

import (
	"math/rand/v2"
	"testing"

	"memopt/planner/recompute"
)

// TestCases: what cases of what is there at any place say is never more than the
// cheapest launches cost, and often more than the place's cut does.
func TestCases(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	raised, met := 0, 0
	for n := range 1500 {
		p := halfLittle(r, n, 2+r.IntN(8))
		s, limit := limited(t, r, p)
		cases, cut, least, ok := s.Cases(int32(r.IntN(len(p.Cost))), limit)
		if !ok {
			continue
		}
		if cases > least*(1+1e-9)+1e-6 {
			t.Fatalf("program %d within %d: cases say %v, the cheapest launches cost %v", n, limit, cases, least)
		}
		if cases > cut+1e-6 {
			raised++
		}
		if cases > 0 && cases > least-1e-6 {
			met++
		}
	}
	if t.Logf("%d bounds of cuts are raised, %d meet the cost", raised, met); raised < 100 || met < 50 {
		t.Errorf("only %d bounds of cuts are raised, and %d meet the cost", raised, met)
	}
}

// TestNearFloor: close to the floor, where several places bind together, bounds
// and plans stay near each other.
func TestNearFloor(t *testing.T) {
	for _, row := range []struct {
		model   string
		percent int64
		gap     float64 // points
	}{
		{"gpt2-6L", 40, 0.01},
		{"gpt2-6L-decomp", 41, 0.15},
		{"bert-6L", 33, 0.5},
		{"bert-6L-decomp", 34, 0.5},
		{"bert-6L-decomp", 33, 0.5},
	} {
		p := readJoint(t, row.model)
		s := solver(t, p)
		base, _ := s.Solve(1<<60, recompute.Ask{})
		a, ok := s.Solve(base.Peak*row.percent/100, recompute.Ask{})
		total := costOf(p)
		gap := 100 * (a.Extra - a.Bound) / total
		if t.Logf("%s at %d %%: extra %.3f %%, %.3f points above the bound", row.model, row.percent, 100*a.Extra/total, gap); !ok || gap > row.gap {
			t.Errorf("%s at %d %%: %.3f points above the bound, over %v", row.model, row.percent, gap, row.gap)
		}
	}
}
