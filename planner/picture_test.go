package planner_test

import (
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
)

// TestPicture: lives add up to what is alive at each launch, they fill the arena
// to its height, and the peaks are those of the plan.
func TestPicture(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 64] = input
w f32[64, 64] = param
v f32[64, 1] = param
h = MatMul(x, w)
s f32[64] = param
n = LayerNormalization(h, s, _)
a = Tanh(n)
b = Gelu(a)
c = MatMul(b, v)
l = ReduceMean(c, _) keepdims=0
output l
`)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "adamw", ClipNorm: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 32}, Strategy: "recompute-all"})
	if err != nil {
		t.Fatal(err)
	}
	pic := p.Picture()
	if len(pic.Launches) != len(p.Steps) || len(pic.Lives) != len(p.Offsets) {
		t.Fatalf("%d launches of %d, %d lives of %d", len(pic.Launches), len(p.Steps), len(pic.Lives), len(p.Offsets))
	}
	live, top := make([]int64, len(pic.Launches)), int64(0)
	classes := map[planner.Class]int{}
	for _, l := range pic.Lives {
		for i := l.First; i < l.Last; i++ {
			live[i] += l.Bytes
		}
		top = max(top, l.Offset+l.Bytes)
		classes[l.Class]++
		if l.Over < 0 {
			t.Errorf("%q is written %d times", l.Value, l.Over+1)
		}
		if again := pic.Launches[l.First].Again; again != (l.Class == planner.Remade) && l.Class != planner.WorkSpace {
			t.Errorf("%q is %s, and made again: %v", l.Value, l.Class, again)
		}
	}
	if top != p.Arena {
		t.Errorf("lives reach up to %d of %d bytes", top, p.Arena)
	}
	var peak, before int64
	for i, l := range pic.Launches {
		if l.Live != live[i] {
			t.Errorf("launch %d, %s: %d bytes alive, lives add up to %d", i, l.Node, l.Live, live[i])
		}
		peak, before = max(peak, l.Live), max(before, l.Before)
	}
	if peak != p.Result.Peak || before != p.Baseline.Peak || pic.Launches[pic.Peak].Live != peak || pic.Launches[pic.Peak].Node != p.Result.PeakNode {
		t.Errorf("peaks %d and %d, want %d and %d at launch %d", peak, before, p.Result.Peak, p.Baseline.Peak, pic.Peak)
	}
	for c := planner.Kept; c <= planner.WorkSpace; c++ {
		if classes[c] == 0 {
			t.Errorf("nothing is %s", c)
		}
	}
}
