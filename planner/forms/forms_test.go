package forms

import (
	"slices"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// stepsOf is a model's training step, and a count of the forms derived.
func stepsOf(t *testing.T, spec zoo.Spec) (s *Steps, derived *int) {
	t.Helper()
	g, err := zoo.New(spec, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	g.Clean(graph.CleanOptions{Fuse: kernels.Fusions, Unfold: true})
	derived = new(int)
	return Derive(t.Context(), func(pieces []graph.Pieces, _ string) (f Forward, err error) {
		f.Graph = g.Clone()
		f.Graph.Clean(graph.CleanOptions{Unfold: true, Fuse: func(op *graph.Op) bool { return slices.Contains(pieces, op.Pieces) }})
		for _, p := range pieces {
			if has(f.Graph, p) {
				f.Pieces = append(f.Pieces, p)
			}
		}
		return f, nil
	}, func(forward *graph.Graph) (*graph.Graph, error) {
		*derived++
		return autograd.TrainStep(forward, autograd.Options{Optimizer: "adam"})
	}), derived
}

func askOf(dims map[string]int64, percent float64) Ask {
	return Ask{Request: planner.Request{Dims: dims, ActivationBudget: planner.Size{Percent: percent}},
		Settings: map[string]string{"chunk_loss": auto, "flash_attention": auto, "shrink": auto, "lossy": off},
		Say:      func(setting, value string) string { return setting + "=" + value }}
}

// TestTrifling: a form that saves few bytes relative to the arena is not planned; one that saves as
// many of a small arena is.
func TestTrifling(t *testing.T) {
	s, _ := stepsOf(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 100})
	for batch, want := range map[int64]bool{1: false, 64: true} {
		ask := askOf(map[string]int64{"batch": batch, "seq": 64}, 60).with("chunk_loss", off).with("flash_attention", off)
		f, err := s.Own(ask)
		if err != nil {
			t.Fatal(err)
		}
		trial, err := newTrial(f)
		if err != nil {
			t.Fatal(err)
		}
		if trial.trifling(f.extracted(f.on)) != want {
			t.Errorf("batch %d: trifling is %v", batch, !want)
		}
	}
}

// TestDerivedOnce: a form is derived once, when a question needs it, and again after Forget; a step
// without anything to compute in pieces has one form.
func TestDerivedOnce(t *testing.T) {
	dims := map[string]int64{"batch": 4, "seq": 32}
	s, derived := stepsOf(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 16, Heads: 2, Vocab: 300})
	ask := func(percent float64) string {
		t.Helper()
		p, err := s.Plan(askOf(dims, percent))
		if err != nil {
			t.Fatal(err)
		}
		return p.Graph.Fingerprint()
	}
	for _, c := range []struct {
		percent float64
		derived int
	}{{0, 1}, {60, 4}, {50, 4}, {0, 4}} {
		if ask(c.percent); *derived != c.derived {
			t.Errorf("at %v %%: %d forms were derived, not %d", c.percent, *derived, c.derived)
		}
	}
	before := ask(50)
	s.Forget(askOf(dims, 0).Settings)
	if got := ask(50); got != before || *derived != 7 {
		t.Errorf("after Forget: %d were derived, not 7, or the plan is of another graph", *derived)
	}

	s, derived = stepsOf(t, zoo.Spec{Family: "mlp", Layers: 2, Width: 16})
	tiled, err := s.Own(askOf(map[string]int64{"batch": 4}, 50).with("flash_attention", "on"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := s.Own(askOf(map[string]int64{"batch": 4}, 50))
	if err != nil {
		t.Fatal(err)
	}
	if tiled.whole != plain.whole || *derived != 1 {
		t.Errorf("a model without attention has a form of its own with it in tiles; %d were derived", *derived)
	}
}
