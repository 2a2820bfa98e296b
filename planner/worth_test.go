package planner_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"memopt/planner"
)

// TestWorth: a plan that comes to what it is worth is found as ever, and where none is
// looked for none would have come to that.
func TestWorth(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		g, dims := randomGraph(t, 10), randomDims(t)
		plain := mustMake(t, g, planner.Request{Dims: dims})
		limited := rapid.Bool().Draw(t, "limited")
		r := planner.Request{Dims: dims, MaxOverhead: rapid.Float64Range(0.01, 0.5).Draw(t, "overhead")}
		if limited {
			r = planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: rapid.Int64Range(1, max(plain.Arena, 1)).Draw(t, "limit")}}
		}
		p, err := planner.Make(g, r)
		if err != nil {
			return
		}
		cost, _ := p.Cost()
		share := rapid.SampledFrom([]float64{0.5, 0.9, 0.99, 1, 1.1}).Draw(t, "share")
		if r.Worth.Cost = share * cost; !limited {
			r.Worth = planner.Worth{Arena: max(1, int64(share*float64(p.Arena)))}
		}
		q, err := planner.Make(g, r)
		if err == nil {
			if !bytes.Equal(fileBytes(t, p), fileBytes(t, q)) {
				t.Fatalf("another plan, as it was to come to %+v\n%s", r.Worth, g)
			}
			return
		}
		refused++
		var be *planner.BudgetError
		if share >= 1 || !errors.As(err, &be) || be.Best != 0 {
			t.Fatalf("%v, though there is a plan that costs %v and takes %d bytes, for %+v\n%s", err, cost, p.Arena, r.Worth, g)
		}
	})
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
