package planner_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestAdvise: whatever is advised fits, and the smallest change comes first.
func TestAdvise(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50})
	dims := map[string]int64{"batch": 16, "seq": 32}
	for _, r := range []planner.Request{
		{Dims: dims, Budget: planner.Size{Bytes: 1200 << 10}},
		{Dims: dims, ActivationBudget: planner.Size{Bytes: 300 << 10}},
		{Dims: dims, Budget: planner.Size{Percent: 20}},
		{Dims: dims, Budget: planner.Size{Bytes: 1000}},
		{Dims: dims, Budget: planner.Size{Bytes: 1200 << 10}, Strategy: "keep-all"},
		{Dims: dims, Budget: planner.Size{Bytes: 1200 << 10}, Strategy: "recompute-cheap"},
		{Dims: dims, Budget: planner.Size{Bytes: 1200 << 10}, Level: 1},
		{Dims: dims, Budget: planner.Size{Bytes: 1200 << 10}, MaxOverhead: 0.01},
		{Dims: dims, Budget: planner.Size{Bytes: 1000}, ActivationBudget: planner.Size{Percent: 20}},
		{Dims: dims, Budget: planner.Size{Bytes: 1000}, Strategy: "recompute-cheap"},
		{Dims: dims, Budget: planner.Size{Bytes: 1000}, MaxOverhead: 0.01},
		{Dims: dims, MaxOverhead: 0.01, Level: 1}, // nothing helps
	} {
		_, err := planner.Make(g, r)
		var budget *planner.BudgetError
		if !errors.As(err, &budget) {
			t.Fatalf("%+v: error %v", r, err)
		}
		all, _ := planner.Advise(g, r, budget)
		t.Logf("%+v %+v", r.Budget, all)
		if none := r.Level == 1 && r.MaxOverhead > 0; none != (len(all) == 0) {
			t.Errorf("%+v: the advice is %+v", r, all)
		}
		for i, c := range all {
			if i > 0 && c.Share < all[i-1].Share {
				t.Errorf("%+v stands behind %+v", c, all[i-1])
			}
			if _, err := planner.Make(g, follow(t, r, c)); err != nil {
				t.Errorf("%+v does not fit: %v", c, err)
			}
		}
	}
}

// follow is a request that takes an advice.
func follow(t interface{ Fatalf(string, ...any) }, r planner.Request, c planner.Change) planner.Request {
	for _, s := range c.Set {
		text, unit := s.Value, 1.0
		name, size, dim := strings.Cut(text, "=")
		if dim {
			text = size
		} else if number, mega := strings.CutSuffix(text, "MiB"); mega {
			text, unit = number, 1<<20
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		switch s.Name {
		case "budget":
			r.Budget = planner.Size{Bytes: int64(n * unit)}
		case "activation_budget":
			r.ActivationBudget = planner.Size{Bytes: int64(n * unit)}
		case "dims":
			r.Dims = maps.Clone(r.Dims)
			r.Dims[name] = int64(n)
		default:
			t.Fatalf("advice %+v", c)
		}
	}
	return r
}

// TestAdviceIsAPlan: if the decisions for another size fit in the request as it is,
// they are told as its plan, and nothing is advised.
func TestAdviceIsAPlan(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50})
	r := planner.Request{Dims: map[string]int64{"batch": 8, "seq": 32}, ActivationBudget: planner.Size{Bytes: 600 << 10}}
	missed := &planner.BudgetError{Want: 600 << 10, Best: 700 << 10} // as if the search for one had failed
	all, p := planner.Advise(g, r, missed)
	if p == nil || len(all) > 0 {
		t.Fatalf("no plan, but %+v", all)
	}
	if p.Arena > 600<<10 || p.Request.Dims["batch"] != 8 || p.Request.Dims["seq"] != 32 {
		t.Errorf("an arena of %d bytes for %v", p.Arena, p.Request.Dims)
	}
	if err := planner.Check(p); err != nil {
		t.Error(err)
	}
	r.ActivationBudget.Bytes = 200 << 10
	if all, p := planner.Advise(g, r, &planner.BudgetError{Want: 200 << 10, Best: 500 << 10}); p != nil || len(all) == 0 {
		t.Errorf("%v is advised, and there is a plan: %v", all, p != nil)
	}
}

// TestAdviceIsClose: what is advised fits, and mostly no smaller change does: neither
// an arena lower by 3 % nor a dim larger by one.
func TestAdviceIsClose(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	advised, loose := map[string]int{}, map[string]int{}
	for _, s := range []struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		{zoo.Spec{Family: "mlp", Layers: 5, Width: 40}, map[string]int64{"batch": 50}},
		{zoo.Spec{Family: "resnet", Layers: 1, Channels: 1, Image: 28, Classes: 7, Width: 12}, map[string]int64{"batch": 17}},
		{zoo.Spec{Family: "bert", Layers: 1, Width: 32, Heads: 2, Vocab: 100}, map[string]int64{"batch": 9, "seq": 24}},
		{zoo.Spec{Family: "gpt", Layers: 2, Width: 60, Heads: 5, Vocab: 77}, map[string]int64{"batch": 12, "seq": 33}},
	} {
		g := step(t, s.spec)
		most, err := planner.Make(g, planner.Request{Dims: s.dims})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			q := planner.Request{Dims: s.dims, ActivationBudget: planner.Size{Bytes: int64(float64(most.Floor.Peak) * (0.4 + 0.6*r.Float64()))}}
			_, err := planner.Make(g, q)
			var budget *planner.BudgetError
			if !errors.As(err, &budget) {
				t.Fatalf("%s within %d bytes: %v", s.spec.Family, q.ActivationBudget.Bytes, err)
			}
			all, _ := planner.Advise(g, q, budget)
			for _, c := range all {
				with := follow(t, q, c)
				if _, err := planner.Make(g, with); err != nil {
					t.Errorf("%s within %d bytes: %+v does not fit: %v", s.spec.Family, q.ActivationBudget.Bytes, c, err)
				}
				less := with
				less.Dims = maps.Clone(with.Dims)
				kind := "bytes"
				if c.Set[0].Name == "dims" {
					kind = "dims"
					name, _, _ := strings.Cut(c.Set[0].Value, "=")
					less.Dims[name]++
				} else {
					less.ActivationBudget.Bytes = budget.Best - budget.Best*3/100
				}
				advised[kind]++
				if _, err := planner.Make(g, less); err == nil {
					loose[kind]++
					t.Logf("%s %v within %d bytes, floor %d: %+v is more than it takes", s.spec.Family, s.dims, q.ActivationBudget.Bytes, most.Floor.Peak, c)
				}
			}
		}
	}
	for kind, n := range advised {
		if loose[kind] > n/4 {
			t.Errorf("of %d changes of %s that are advised %d are more than it takes", n, kind, loose[kind])
		}
	}
}
