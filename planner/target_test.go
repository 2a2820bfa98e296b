package planner_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestTarget: a plan that meets its target is found as ever, and where none is looked for none
// would have met it.
func TestTarget(t *testing.T) {
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
		if r.Target.Cost = share * cost; !limited {
			r.Target = planner.Target{Arena: max(1, int64(share*float64(p.Arena)))}
		}
		q, err := planner.Make(g, r)
		if err == nil {
			if !bytes.Equal(fileBytes(t, p), fileBytes(t, q)) {
				t.Fatalf("another plan, with the target %+v\n%s", r.Target, g)
			}
			return
		}
		refused++
		var be *planner.BudgetError
		if share >= 1 || !errors.As(err, &be) || be.Best != 0 {
			t.Fatalf("%v, though there is a plan that costs %v and takes %d bytes, for %+v\n%s", err, cost, p.Arena, r.Target, g)
		}
	})
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestTargetNearFloor: so it is where plans are of a ladder, and dear.
func TestTargetNearFloor(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 6, Width: 32, Heads: 2, Vocab: 50})
	for _, percent := range []float64{21, 23.3, 25.7, 30.4} {
		r := planner.Request{Dims: map[string]int64{"batch": 4, "seq": 24}, ActivationBudget: planner.Size{Percent: percent}}
		p, err := planner.Make(g, r)
		if err != nil {
			t.Fatal(err)
		}
		cost, _ := p.Cost()
		for _, share := range []float64{0.9, 0.999, 1, 1.1} {
			r.Target.Cost = share * cost
			q, err := planner.Make(g, r)
			var be *planner.BudgetError
			switch {
			case share < 1 && (!errors.As(err, &be) || be.Best != 0):
				t.Errorf("%v %%: %v, though no plan costs %v of what one was found to", percent, err, share)
			case share >= 1 && err != nil:
				t.Errorf("%v %%: %v, though one costs %v of its target", percent, err, 1/share)
			case share >= 1 && !slices.Equal(q.Steps, p.Steps):
				t.Errorf("%v %%: another plan, as it was to come to %v of the first", percent, share)
			}
		}
	}
}

// TestQuickReject: a form that is no lower is refused by one quick solve, and one that is, is
// planned as ever.
func TestQuickReject(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 6, Width: 32, Heads: 2, Vocab: 50})
	r := planner.Request{Dims: map[string]int64{"batch": 4, "seq": 24}, MaxOverhead: 0.2}
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Target = planner.Target{Arena: p.Arena, QuickReject: true}
	var be *planner.BudgetError
	if _, err := planner.Make(g, r); !errors.As(err, &be) || be.Best != 0 {
		t.Errorf("%v, though the form is the same", err)
	}
	r.Target.Arena += p.Arena / 50
	if q, err := planner.Make(g, r); err != nil || !slices.Equal(q.Steps, p.Steps) {
		t.Errorf("%v, or another plan, though it is lower", err)
	}
}
