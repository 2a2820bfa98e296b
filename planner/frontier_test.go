package planner_test

import (
	"errors"
	"slices"
	"testing"

	"memopt/memopt/lab/corpus"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestFrontier: the curve goes down in memory and up in cost, its plans are
// what they say, and nobody's way without a planner is better.
func TestFrontier(t *testing.T) {
	for _, c := range []struct {
		spec zoo.Spec
		dims map[string]int64
		refs int
	}{
		{zoo.Spec{Family: "gpt", Layers: 4, Width: 32, Heads: 2, Vocab: 50}, map[string]int64{"batch": 4, "seq": 24}, 4},
		{zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16}, map[string]int64{"batch": 4}, 4},
		{zoo.Spec{Family: "mlp", Layers: 6, Width: 16, Inputs: 8}, map[string]int64{"batch": 64}, 4},
	} {
		g := step(t, c.spec)
		curve, err := planner.Frontier(g, planner.Request{Dims: c.dims})
		if err != nil {
			t.Fatal(err)
		}
		if len(curve.References) != c.refs {
			t.Errorf("%s: %d references, not %d", c.spec.Family, len(curve.References), c.refs)
		}
		if curve.Points[0].Overhead != 0 || curve.Points[0].Again != 0 {
			t.Errorf("%s: the first point is %+v", c.spec.Family, curve.Points[0])
		}
		knees := 0
		for i, p := range curve.Points {
			if p.Knee {
				knees++
			}
			if p.Peak < curve.Floor.Peak || p.Arena < p.Peak || p.Total != p.Arena+curve.Fixed {
				t.Errorf("%s: point %+v, floor %d", c.spec.Family, p, curve.Floor.Peak)
			}
			if i > 0 && (p.Peak >= curve.Points[i-1].Peak || p.Overhead <= curve.Points[i-1].Overhead) {
				t.Errorf("%s: point %d is %+v, after %+v", c.spec.Family, i, p, curve.Points[i-1])
			}
		}
		if knees != 1 {
			t.Errorf("%s: %d knees", c.spec.Family, knees)
		}
		for _, r := range curve.References {
			i := slices.IndexFunc(curve.Points, func(p planner.Point) bool { return p.Peak <= r.Peak })
			if i < 0 || curve.Points[i].Overhead > r.Overhead+1e-9 {
				t.Errorf("%s: %s, %d at %.3f, is better than the curve", c.spec.Family, r.Name, r.Peak, r.Overhead)
				continue
			}
			t.Logf("%s: %s has %d at %.3f; the curve %d at %.3f", c.spec.Family, r.Name, r.Peak, r.Overhead, curve.Points[i].Peak, curve.Points[i].Overhead)
		}
	}
}

// TestMetAtTheFloor: the lowest plan of a curve, which lies at the floor, is also what a
// budget at the floor has, what a high limit of cost leads to, and what is said to be the
// lowest where a budget is below.
func TestMetAtTheFloor(t *testing.T) {
	g, err := corpus.Recorded("bert-6L-decomp")
	if err != nil {
		t.Fatal(err)
	}
	curve, err := planner.Frontier(g, planner.Request{})
	if err != nil {
		t.Fatal(err)
	}
	low := curve.Points[len(curve.Points)-1]
	if low.Arena != curve.Floor.Peak {
		t.Fatalf("the curve ends at %d, the floor is %d: the test needs another program", low.Arena, curve.Floor.Peak)
	}
	for _, r := range []planner.Request{
		{ActivationBudget: planner.Size{Bytes: low.Arena}},
		{ActivationBudget: planner.Size{Bytes: low.Arena + low.Arena/1000}},
		{MaxOverhead: low.Overhead + 0.001},
		{MaxOverhead: 10},
	} {
		p, err := planner.Make(g, r)
		if err != nil {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		if p.Arena > low.Arena && r.MaxOverhead > 0 || p.Result.Overhead > low.Overhead+1e-9 {
			t.Errorf("%+v: arena %d at %.4f; the curve has %d at %.4f", r, p.Arena, p.Result.Overhead, low.Arena, low.Overhead)
		}
	}
	_, err = planner.Make(g, planner.Request{ActivationBudget: planner.Size{Bytes: low.Arena - 1}})
	var beyond *planner.BudgetError
	if !errors.As(err, &beyond) || beyond.Best != low.Arena {
		t.Errorf("a byte less: %v; want that %d would do", err, low.Arena)
	}
}

// TestFrontierFillsJumps: where the curve would jump far, from 53.37 MiB at +21.05 % to
// 48.00 at +46.96, there is a plan in between.
func TestFrontierFillsJumps(t *testing.T) {
	g, err := corpus.Recorded("bert-6L-decomp")
	if err != nil {
		t.Fatal(err)
	}
	curve, err := planner.Frontier(g, planner.Request{})
	if err != nil {
		t.Fatal(err)
	}
	first, last := curve.Points[0], curve.Points[len(curve.Points)-1]
	for i, p := range curve.Points[1:] {
		above := curve.Points[i]
		bytes, cost := float64(above.Arena-p.Arena)/float64(first.Arena-last.Arena), (p.Overhead-above.Overhead)/last.Overhead
		if bytes*cost > 0.0225 {
			t.Errorf("from %d at %.3f to %d at %.3f there is no plan", above.Arena, above.Overhead, p.Arena, p.Overhead)
		}
	}
}

// TestLargestOfLong: of a long program, sizes are found whose floor is most of
// what the budget leaves.
func TestLargestOfLong(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 16, Width: 64, Heads: 2, Vocab: 256})
	p, err := planner.Largest(g, planner.Request{Dims: map[string]int64{"seq": 64}, Budget: planner.Size{Bytes: 16 << 20}}, "batch", 0)
	if err != nil {
		t.Fatal(err)
	}
	room, _ := p.Room()
	t.Logf("%d, floor %d of %d", p.Request.Dims["batch"], p.Floor.Peak, room)
	if p.Floor.Peak < room*3/4 {
		t.Errorf("a plan for %d at most, whose floor is %d of %d bytes", p.Request.Dims["batch"], p.Floor.Peak, room)
	}
}

// TestLargestOfSmall: of a small program whose plans near the floor are hard to find,
// not one more fits that planning knows.
func TestLargestOfSmall(t *testing.T) {
	g := step(t, zoo.Spec{Family: "mlp", Layers: 9, Width: 77, Inputs: 19, Classes: 5})
	for _, kib := range []int64{1 << 10, 3 << 10} {
		r := planner.Request{ActivationBudget: planner.Size{Bytes: kib << 10}}
		p, err := planner.Largest(g, r, "batch", 0)
		if err != nil {
			t.Fatal(err)
		}
		size := p.Request.Dims["batch"]
		t.Logf("%d KiB: %d, floor %d", kib, size, p.Floor.Peak)
		for _, is := range []int64{size, size + 1, size + 2, size * 17 / 16, size * 9 / 8} {
			r.Dims = map[string]int64{"batch": is}
			if _, err := planner.Make(g, r); (err == nil) != (is == size) {
				t.Errorf("%d KiB: %d is the largest, and %d gives error %v", kib, size, is, err)
			}
		}
	}
}

// TestLargest: the size fits, one more does not by any way known, and neither
// more budget nor more allowance for cost makes it smaller.
func TestLargest(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50})
	for _, dim := range []string{"batch", "seq"} {
		dims := map[string]int64{"batch": 4, "seq": 24}
		delete(dims, dim)
		for _, overhead := range []float64{0, 0.05} {
			before := int64(0)
			for _, kib := range []int64{1200, 1300, 3000} {
				r := planner.Request{Dims: dims, Budget: planner.Size{Bytes: kib << 10}, MaxOverhead: overhead}
				p, err := planner.Largest(g, r, dim, 0)
				if err != nil {
					t.Fatalf("%d KiB: %v", kib, err)
				}
				size := p.Request.Dims[dim]
				t.Logf("%s %d KiB, at most %v: %d, total %d at %+.3f", dim, kib, overhead, size, p.Memory.Total, p.Result.Overhead)
				if p.Memory.Total > kib<<10 || overhead > 0 && p.Result.Overhead > overhead {
					t.Errorf("%d KiB: %d bytes at %v", kib, p.Memory.Total, p.Result.Overhead)
				}
				if size < before {
					t.Errorf("%d KiB: %d, but less budget had %d", kib, size, before)
				}
				before = size
			}
		}
	}
	least := map[string]int64{}
	for _, strategy := range []string{"keep-all", "recompute-cheap", "recompute-all", "auto"} {
		r := planner.Request{Dims: map[string]int64{"seq": 24}, Budget: planner.Size{Bytes: 1200 << 10}, Strategy: strategy}
		p, err := planner.Largest(g, r, "batch", 0)
		if err != nil {
			t.Fatalf("%s: %v", strategy, err)
		}
		size := p.Request.Dims["batch"]
		t.Logf("%s: %d", strategy, size)
		least[strategy] = size
		if p.Strategy != strategy && strategy != "auto" {
			t.Errorf("%s: the plan's strategy is %s", strategy, p.Strategy)
		}
		for _, is := range []int64{size, size + 1} {
			r.Dims = map[string]int64{"seq": 24, "batch": is}
			if _, err := planner.Make(g, r); (err == nil) != (is == size) {
				t.Errorf("%s: %d is the largest, and %d gives error %v", strategy, size, is, err)
			}
		}
	}
	if least["keep-all"] >= least["auto"] {
		t.Errorf("keep-all allows %d, and auto no more than %d", least["keep-all"], least["auto"])
	}
	if _, err := planner.Largest(g, planner.Request{Budget: planner.Size{Bytes: 1 << 30}}, "width", 0); err == nil {
		t.Error("a dim that is none has a largest size")
	}
}
