package planner_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/formulas"
)

// step is a small model's training step.
func step(t testing.TB, s zoo.Spec) *graph.Graph {
	t.Helper()
	g, err := zoo.Step(s, kernels.Library, autograd.Options{Optimizer: "adamw"})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestFormulas: at any sizes at which the formulas hold they are what a
// simulation of the same decisions finds, and they hold over the whole of the
// ranges that they state.
func TestFormulas(t *testing.T) {
	for _, c := range []struct {
		spec   zoo.Spec
		dims   map[string]int64
		ranges int
	}{
		{zoo.Spec{Family: "gpt", Layers: 3, Width: 32, Heads: 2, Vocab: 50}, map[string]int64{"batch": 4, "seq": 24}, 2},
		{zoo.Spec{Family: "bert", Layers: 2, Width: 32, Heads: 2, Vocab: 50}, map[string]int64{"batch": 3, "seq": 20}, 2},
		{zoo.Spec{Family: "llama", Layers: 2, Width: 32, Heads: 4, Vocab: 50}, map[string]int64{"batch": 2, "seq": 16}, 2},
		{zoo.Spec{Family: "resnet", Layers: 1, Width: 8, Image: 16}, map[string]int64{"batch": 4}, 1},
		{zoo.Spec{Family: "mlp", Layers: 3, Width: 16, Inputs: 8}, map[string]int64{"batch": 16}, 1},
		// From 512 rows on, sums of columns take work space, a step more for every 512.
		{zoo.Spec{Family: "mlp", Layers: 9, Width: 77, Inputs: 19, Classes: 5}, map[string]int64{"batch": 37}, 1},
		{zoo.Spec{Family: "mlp", Layers: 9, Width: 77, Inputs: 19, Classes: 5}, map[string]int64{"batch": 2700}, 1},
		{zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50}, map[string]int64{"batch": 20, "seq": 31}, 2},
	} {
		t.Run(c.spec.Family, func(t *testing.T) {
			g := step(t, c.spec)
			for _, percent := range []float64{0, 92} {
				p, err := planner.Make(g, planner.Request{Dims: c.dims, ActivationBudget: planner.Size{Percent: percent}})
				if err != nil {
					t.Fatal(err)
				}
				f, err := p.Formulas()
				if err != nil {
					t.Fatal(err)
				}
				if len(f.Ranges) != c.ranges {
					t.Errorf("%d ranges, not %d: %+v", len(f.Ranges), c.ranges, f.Ranges)
				}
				if at, ok := peakAt(p, f, c.dims); !ok || at != p.Result.Peak {
					t.Fatalf("the formula says %d, %v; the plan's peak is %d", at, ok, p.Result.Peak)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				for range 25 {
					dims := map[string]int64{}
					for _, name := range g.Names() {
						dims[name] = 1 + rng.Int64N(70)
					}
					agree(t, p, f, dims)
				}
				for _, r := range f.Ranges {
					within(t, p, f, r, rng)
				}
			}
		})
	}
}

// TestFormulasOfNothing: where values have no elements nothing is written over them, so the
// formulas say nothing of sizes at which they have some.
func TestFormulasOfNothing(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 4] = input
one i64[1] = const {1}
end i64[1] = const {100}
rows i64[1] = const {0}
a = Slice(x, one, end, rows)
b = Tanh(a)
output b
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int64{1, 2} {
		p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": batch}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := p.Formulas()
		if err != nil {
			t.Fatal(err)
		}
		for _, there := range []int64{1, 2, 3, 50} {
			agree(t, p, f, map[string]int64{"batch": there})
		}
		if len(f.Ranges) != 1 || f.Ranges[0].To < 2 != (batch == 1) {
			t.Errorf("planned at %d, the formulas hold for %+v", batch, f.Ranges)
		}
	}
}

// TestFormulasOfKernels: what kernels need is known for the plan's own dims alone, also
// where that is nothing: a sum of few rows takes no work space, one of many does.
func TestFormulasOfKernels(t *testing.T) {
	g, err := graph.Parse(kernels.Library, "x f32[batch, 4] = input\ns = ReduceSum(x)\noutput s\n")
	if err != nil {
		t.Fatal(err)
	}
	here, there := map[string]int64{"batch": 2}, map[string]int64{"batch": 1 << 20}
	p, err := planner.Make(g, planner.Request{Dims: here, Lowered: true})
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Formulas()
	if err != nil {
		t.Fatal(err)
	}
	if peak, ok := peakAt(p, f, here); !ok || peak != p.Result.Peak {
		t.Errorf("the formula says %d, %v; the plan's peak is %d", peak, ok, p.Result.Peak)
	}
	q, err := p.Resize(there)
	if err != nil {
		t.Fatal(err)
	}
	if peak, ok := peakAt(p, f, there); ok && peak != q.Result.Peak {
		t.Errorf("the formula says %d, simulated it is %d", peak, q.Result.Peak)
	}
}

// peakAt is the largest of the formulas of a plan under other dims; ok is false where they do not hold.
func peakAt(p *planner.Plan, f *formulas.Formulas, dims map[string]int64) (peak int64, ok bool) {
	b, err := graph.Bind(dims)
	if err != nil || p.Graph.CheckBinding(b) != nil {
		return 0, false
	}
	peak, _, ok = f.At(b)
	return peak, ok
}

// agree compares the formulas with a simulation, where they hold.
func agree(t *testing.T, p *planner.Plan, f *formulas.Formulas, dims map[string]int64) {
	t.Helper()
	peak, ok := peakAt(p, f, dims)
	q, err := p.Resize(dims)
	if err != nil {
		if ok {
			t.Errorf("%v: the formula holds, but %v", dims, err)
		}
		return
	}
	if ok && peak != q.Result.Peak {
		t.Errorf("%v: the formula says %d, the simulation %d", dims, peak, q.Result.Peak)
	}
	b, err := graph.Bind(dims)
	if err != nil {
		t.Fatal(err)
	}
	for _, flops := range []struct {
		text string
		is   int64
	}{{f.Flops, q.Baseline.Flops}, {f.ExtraFlops, q.Result.ExtraFlops}} {
		formula, err := graph.ParseDim(flops.text)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := b.Eval(formula); err != nil || n != flops.is {
			t.Errorf("%v: %s is %d operations, %v; the simulation's are %d", dims, flops.text, n, err, flops.is)
		}
	}
}

// within draws sizes from a range: from each piece its ends and one between.
func within(t *testing.T, p *planner.Plan, f *formulas.Formulas, r formulas.Range, rng *rand.Rand) {
	t.Helper()
	if r.From > r.At || r.To < r.At || len(r.Pieces) == 0 || r.Pieces[0].From != r.From || r.Pieces[len(r.Pieces)-1].To != r.To {
		t.Fatalf("range %+v", r)
	}
	for _, piece := range r.Pieces {
		formula, err := graph.ParseDim(piece.Formula)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{piece.From, piece.From + rng.Int64N(piece.To-piece.From+1), piece.To} {
			dims := maps.Clone(p.Request.Dims)
			dims[r.Dim] = size
			peak, ok := peakAt(p, f, dims)
			if !ok {
				t.Errorf("%v is in the range from %d to %d, but the formulas do not hold", dims, r.From, r.To)
			}
			b, err := graph.Bind(dims)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := b.Eval(formula); err != nil || n != peak {
				t.Errorf("%v: the piece from %d to %d says %d, %v; the peak is %d", dims, piece.From, piece.To, n, err, peak)
			}
			if size <= 3000 {
				agree(t, p, f, dims)
			}
		}
	}
	for _, size := range []int64{r.From - 1, r.To + 1} {
		dims := maps.Clone(p.Request.Dims)
		dims[r.Dim] = size
		if _, ok := peakAt(p, f, dims); ok && size > 0 && size < 1<<20 {
			t.Errorf("%v is outside the range, but the formulas hold", dims)
		}
	}
}
