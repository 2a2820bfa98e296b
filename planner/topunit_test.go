package planner_test

import (
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestExactBudget: whoever asks for just the arena that some setting takes, to the
// byte, gets a plan that costs no more.
func TestExactBudget(t *testing.T) {
	parts := 0
	for _, c := range []struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		{zoo.Spec{Family: "mlp", Layers: 8}, map[string]int64{"batch": 3}},
		{zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16}, map[string]int64{"batch": 3}},
		{zoo.Spec{Family: "gpt", Layers: 3, Width: 32, Heads: 2, Vocab: 50}, map[string]int64{"batch": 4, "seq": 24}},
		{zoo.Spec{Family: "llama", Layers: 2, Width: 32, Heads: 4, Vocab: 50}, map[string]int64{"batch": 2, "seq": 17}},
	} {
		g := step(t, c.spec)
		for _, r := range []planner.Request{{Level: 1}, {Level: 2}, {Level: 1, Boundary: true}, {Strategy: "recompute-cheap"}, {Strategy: "recompute-all"}} {
			r.Dims = c.dims
			was, err := planner.Make(g, r)
			if err != nil {
				t.Fatal(err)
			}
			p, err := planner.Make(g, planner.Request{Dims: c.dims, ActivationBudget: planner.Size{Bytes: was.Arena}})
			if err != nil {
				t.Errorf("%s, level %d %s takes %d bytes: %v", c.spec.Family, r.Level, r.Strategy, was.Arena, err)
				continue
			}
			if p.Arena > was.Arena || p.Result.Overhead > was.Result.Overhead {
				t.Errorf("%s, level %d %s: %d bytes at %v; a plan within that has %d at %v", c.spec.Family, r.Level, r.Strategy,
					was.Arena, was.Result.Overhead, p.Arena, p.Result.Overhead)
			}
			if was.Arena%64 > 0 {
				parts++
			}
		}
	}
	if parts == 0 {
		t.Error("no arena ends within a unit of places")
	}
}

// TestLastBytes: any strategy's steps are placed within a budget where they can be. Two values
// of 32 bytes beside one of 4 take 2 units and its bytes, if that is the one at the end.
func TestLastBytes(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[8] = input
r = ReduceSum(x) keepdims=0
a = Sin(x)
b = Cos(x)
c = Mul(a, b)
d = ReduceSum(c) keepdims=0
e = Add(d, r)
output e
`)
	if err != nil {
		t.Fatal(err)
	}
	names, _ := planner.Strategies()
	for _, name := range names {
		p, err := planner.Make(g, planner.Request{Strategy: name, ActivationBudget: planner.Size{Bytes: 2*64 + 4}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if p.Arena != 2*64+4 {
			t.Errorf("%s: an arena of %d bytes", name, p.Arena)
		}
	}
}

// TestUnitsNotBytes: a plan with no lower peak is one for less memory where it keeps fewer
// values at once, as each begins at a unit of its own.
func TestUnitsNotBytes(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[8] = input
lr f32[] = input
step i64[] = input
p f32[4] = param
half f32[] = const {0.5}
on bool[] = const {1}
s = Softmax(p)
d, mask = Dropout(x, half, on)
update:
q = memopt.SGD(p, s, lr, _, step)
a = Sin(x)
b = Cos(x)
c = Mul(a, b)
update p = q
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Bytes: 64 + 32}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Arena != 64+32 || p.Result.Peak != p.Baseline.Peak || p.Result.Again != 1 {
		t.Errorf("%d bytes for a peak of %d, at first %d; %d nodes run again", p.Arena, p.Result.Peak, p.Baseline.Peak, p.Result.Again)
	}
}
