package planner_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"memopt/memopt/lab/corpus"
	"memopt/planner"
	"memopt/planner/planfile"
	"memopt/planner/profile"
)

// linked is a profile whose copies to the host reach so many bytes a nanosecond.
func linked(t testing.TB, name string, rate float64) *profile.Profile {
	p, err := profile.For(name)
	if err != nil {
		t.Fatal(err)
	}
	p.Copies = map[string]profile.Copies{profile.Host: {Delay: 10000, Out: rate, In: rate}}
	return p
}

// TestElsewhere: with a second place a plan costs no more than without at any budget, and less budget never costs less.
// What is planned passes Check, also when it was read from its file.
func TestElsewhere(t *testing.T) {
	for name, rates := range map[string][]float64{"gpt2-6L": {8, 50}, "unet-128": {50}} {
		g, err := corpus.Recorded(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, rate := range rates {
			cheaper, last := 0, -1.0
			for _, percent := range []float64{80, 60, 50, 40} {
				r := planner.Request{Profile: linked(t, "h200", rate), ActivationBudget: planner.Size{Percent: percent}}
				begin := time.Now()
				alone, err := planner.Make(g, r)
				var short *planner.BudgetError
				if err != nil && !errors.As(err, &short) {
					t.Fatal(err)
				}
				took := time.Since(begin)
				r.Elsewhere = &planner.Elsewhere{Place: profile.Host}
				begin = time.Now()
				p, err := planner.Make(g, r)
				if errors.As(err, &short) {
					t.Logf("%s %v %v%%: %v", name, rate, percent, err)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				without := -1.0
				if alone != nil {
					without = alone.Result.Overhead
				}
				t.Logf("%s, %v bytes/ns, %v %%: %.4f with, %.4f without, bound %.4f; %+v; %v, %v", name, rate, percent, p.Result.Overhead, without, p.Bound.Overhead, *p.Moved, time.Since(begin), took)
				if alone != nil && p.Result.Overhead > without+1e-12 {
					t.Errorf("%v %%: costs %v with a second place, %v without", percent, p.Result.Overhead, without)
				}
				if alone == nil || p.Result.Overhead < without-1e-6 {
					cheaper++
				}
				if p.Result.Overhead < last-1e-12 {
					t.Errorf("%v %% costs less than more memory does: %v, %v", percent, p.Result.Overhead, last)
				}
				last = p.Result.Overhead
				if p.Floor.Peak > p.Result.Peak || p.Bound.Gap < -1e-9 {
					t.Errorf("floor %d, peak %d, gap %v", p.Floor.Peak, p.Result.Peak, p.Bound.Gap)
				}
				rebound(t, p)
			}
			if cheaper < 2 {
				t.Errorf("%s at %v bytes/ns: cheaper at %d budgets only", name, rate, cheaper)
			}
		}
	}
}

// rebound reads a plan's file and binds it.
func rebound(t testing.TB, p *planner.Plan) {
	path := filepath.Join(t.(interface{ TempDir() string }).TempDir(), "plan.json")
	if err := planfile.Of(p, "").Save(path); err != nil {
		t.Fatal(err)
	}
	f, err := planfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	q, err := f.Bind(p.Graph)
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Moves) != len(p.Moves) || *q.Moved != *p.Moved {
		t.Fatalf("%+v was read as %+v", p.Moved, q.Moved)
	}
}

// TestElsewhereAnyGraph: plans that move values are sound on random steps, within both budgets.
func TestElsewhereAnyGraph(t *testing.T) {
	moved := 0
	rapid.Check(t, func(r *rapid.T) {
		g := randomGraph(r, 14)
		prices := linked(t, "xeon-core", rapid.SampledFrom([]float64{0.01, 1, 100}).Draw(r, "rate"))
		request := planner.Request{Dims: map[string]int64{"batch": int64(rapid.IntRange(1, 40).Draw(r, "batch"))}, Profile: prices,
			ActivationBudget: planner.Size{Percent: float64(rapid.IntRange(20, 100).Draw(r, "percent"))},
			Elsewhere:        &planner.Elsewhere{Place: profile.Host, Bytes: int64(rapid.SampledFrom([]int{0, 64, 500, 5000}).Draw(r, "far"))}}
		p, err := planner.Make(g, request)
		var short *planner.BudgetError
		if errors.As(err, &short) {
			return
		}
		if err != nil {
			r.Fatal(err)
		}
		if err := planner.Check(p); err != nil {
			r.Fatal(err)
		}
		if room, _ := p.Room(); p.Arena > room || p.Moved.Budget > 0 && p.Moved.Peak > p.Moved.Budget {
			r.Fatalf("arena %d of %d, elsewhere %d of %d", p.Arena, room, p.Moved.Peak, p.Moved.Budget)
		}
		if p.Floor.Peak > p.Result.Peak || p.Bound.Gap < -1e-9 {
			r.Fatalf("floor %d, peak %d, gap %v", p.Floor.Peak, p.Result.Peak, p.Bound.Gap)
		}
		if len(p.Moves) > 0 {
			moved++
			s, err := p.Schedule()
			if err != nil {
				r.Fatal(err)
			}
			if len(s.Moves) != len(p.Moves) || s.Moves[0].To.Value == nil {
				r.Fatalf("%+v", s.Moves)
			}
		}
	})
	if moved == 0 && !testing.Short() {
		t.Error("no plan moved anything")
	}
	t.Logf("%d plans moved values", moved)
}

// TestElsewhereLess: less budget never costs less on random steps, on the grid of limits and between.
func TestElsewhereLess(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		g := randomGraph(r, 14)
		prices := linked(t, "xeon-core", rapid.SampledFrom([]float64{0.01, 0.1, 1}).Draw(r, "rate"))
		dims := map[string]int64{"batch": int64(rapid.IntRange(1, 40).Draw(r, "batch"))}
		last, at := -1.0, 100.0
		for at > 15 {
			at -= rapid.SampledFrom([]float64{0.7, 3, 5, 11}).Draw(r, "step")
			p, err := planner.Make(g, planner.Request{Dims: dims, Profile: prices, ActivationBudget: planner.Size{Percent: at}, Elsewhere: &planner.Elsewhere{Place: profile.Host}})
			var short *planner.BudgetError
			switch {
			case errors.As(err, &short):
				continue
			case err != nil:
				r.Fatal(err)
			case p.Result.Overhead < last-1e-12:
				r.Fatalf("%v %% costs %v, and more memory %v", at, p.Result.Overhead, last)
			}
			last = p.Result.Overhead
		}
	})
}
