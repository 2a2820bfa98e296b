package recompute_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"memopt/planner/recompute"
)

// TestSolveBelow: who has no use for dear plans is told only where there is none, and
// asked again without that, the solver finds what it would have.
func TestSolveBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	plans, gaveUp := 0, 0
	for range 30 {
		p := scan(r, 2+r.IntN(2), 8+r.IntN(8))
		floor := recompute.FloorOf(p)
		s, other := solver(t, p), solver(t, p)
		base, _ := s.Solve(1 << 40)
		limit := floor.Peak + (base.Peak-floor.Peak)*int64(r.IntN(60))/100
		want, ok := s.Solve(limit)
		if !ok {
			continue
		}
		plans++
		below := want.Extra * (0.2 + 1.2*r.Float64())
		got, ok := other.SolveBelow(limit, below)
		if !ok {
			if gaveUp++; got.Floor < below || got.Floor > want.Extra {
				t.Errorf("within %d: none below %v, at least %v; there is one for %v", limit, below, got.Floor, want.Extra)
			}
			if got, ok = other.Solve(limit); !ok {
				t.Errorf("within %d: no plan once it gave up", limit)
			}
		}
		if got.Extra != want.Extra || got.Floor != want.Floor || !slices.Equal(got.Launches, want.Launches) {
			t.Errorf("within %d: extra %v, not %v", limit, got.Extra, want.Extra)
		}
	}
	if t.Logf("gave up for %d of %d plans", gaveUp, plans); gaveUp == 0 {
		t.Error("it never gave up")
	}
}
