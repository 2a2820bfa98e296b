package planner

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner/limits"
)

// TestAskedBefore: what a solver was asked before does not change what it answers.
func TestAskedBefore(t *testing.T) {
	for _, spec := range []zoo.Spec{{Family: "gpt", Layers: 6, Width: 32, Heads: 2, Vocab: 50}, {Family: "resnet", Layers: 1, Width: 6, Image: 20}} {
		s := searchOf(t, spec)
		fresh := func() *limits.Limits[*candidate] {
			s.solver = nil
			s.solves()
			return s.limits
		}
		asked, top := fresh(), s.base.placed.Height
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(12) {
			limit := top * int64(900-50*i+3*(i%3)) / 1000
			cost := func(l *limits.Limits[*candidate]) float64 {
				c := l.Within(limit)
				if c == nil {
					return -1
				}
				return c.cost
			}
			if a, b := cost(asked), cost(fresh()); a != b {
				t.Errorf("%s: %d of %d bytes: %v behind other questions, %v by itself", spec.Family, limit, top, a, b)
			}
		}
	}
}

// TestNearTheFloor: where a byte less may take another plan, less memory never costs less, what a
// plan needs is a limit that has one, and the lowest plan that a refusal names is what its arena has.
func TestNearTheFloor(t *testing.T) {
	for _, spec := range []zoo.Spec{
		{Family: "llama", Layers: 2, Width: 32, Heads: 4, Vocab: 40}, {Family: "gpt", Layers: 4, Width: 32, Heads: 2, Vocab: 50, Dropout: 0.1},
		{Family: "mlp", Layers: 12, Inputs: 30, Width: 40}, {Family: "resnet", Layers: 1, Width: 6, Image: 20},
	} {
		s := searchOf(t, spec)
		floor := s.plan.Floor.Peak
		answers := map[int64]*candidate{}
		ask := func(limit int64) *candidate {
			c, err := withinLimits(s, limit, true)
			var refused *BudgetError
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			if answers[limit] = c; c != nil && c.placed.Height > limit {
				t.Fatalf("%s: %d bytes within %d", spec.Family, c.placed.Height, limit)
			}
			return c
		}
		_, err := withinLimits(s, floor-1, true)
		var refused *BudgetError
		if !errors.As(err, &refused) {
			t.Fatalf("%s: %d bytes are refused by %v", spec.Family, floor-1, err)
		}
		if c := ask(refused.Best); c == nil || c.placed.Height != refused.Best {
			t.Errorf("%s: %d bytes are named, for which there is %v", spec.Family, refused.Best, c)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 12 {
			x := rng.Float64()
			if c := ask(floor + int64(float64(floor)*0.3*x*x)); c != nil {
				ask(c.placed.Height)
				ask(c.placed.Height - 1)
			}
		}
		least := math.Inf(1)
		for _, limit := range slices.Sorted(maps.Keys(answers)) {
			switch c := answers[limit]; {
			case c == nil && !math.IsInf(least, 1):
				t.Errorf("%s: no plan within %d, but one within less", spec.Family, limit)
			case c != nil && c.cost > least:
				t.Errorf("%s: %v within %d, %v within less", spec.Family, c.cost, limit, least)
			case c != nil:
				least = c.cost
			}
		}
	}
}

// searchOf is the search for a plan of a small model's step.
func searchOf(t *testing.T, spec zoo.Spec) *Search {
	t.Helper()
	g, err := zoo.Step(spec, kernels.Library, autograd.Options{Optimizer: "adamw"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Look(g, Request{Dims: map[string]int64{"batch": 4, "seq": 24}})
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
