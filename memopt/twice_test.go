package memopt

import (
	"math"
	"testing"

	"memopt/memopt/zoo"
)

// TestExtraOfChunks: what the scores cost a second time is extra cost beside the
// step as it is: in plans, their formulas, the frontier, and limits.
func TestExtraOfChunks(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 32, Heads: 2, Vocab: 4000})
	open := func(fields map[string]string) *Model {
		c := settingsFor(t, fields)
		c.Dims = map[string]int64{"batch": 8, "seq": 64}
		m, err := Open(model, c)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	whole, err := open(map[string]string{"chunk_loss": "off"}).Plan()
	if err != nil {
		t.Fatal(err)
	}
	_, plain := whole.Cost()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}

	p, err := open(map[string]string{"activation_budget": "60%"}).Plan()
	if err != nil {
		t.Fatal(err)
	}
	form, err := open(map[string]string{"chunk_loss": "on"}).Plan()
	if err != nil {
		t.Fatal(err)
	}
	cost, base := p.Cost()
	_, own := form.Cost()
	near("the step that costs are told beside", base, plain)
	near("the plan's overhead", p.Result.Overhead, cost/plain-1)
	near("the form's", p.FormOverhead(), own/plain-1)
	near("the gap", p.Bound.Gap, p.Result.Overhead-p.Bound.Overhead)
	if p.FormOverhead() < 0.1 || p.Bound.Overhead < p.FormOverhead() || p.Baseline != whole.Baseline {
		t.Errorf("the form costs %v, the bound is %v, everything kept is %+v", p.FormOverhead(), p.Bound.Overhead, p.Baseline)
	}
	f, err := p.Formulas()
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int64{8, 9, 16, 40} {
		dims := map[string]int64{"batch": batch, "seq": 64}
		q, err := p.Resize(dims)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := f.OverheadAt(dims)
		if !ok {
			t.Fatalf("no formula at %v", dims)
		}
		near("the formula", got, q.Result.Overhead)
	}

	curve, err := open(map[string]string{}).Frontier()
	if err != nil {
		t.Fatal(err)
	}
	forms, knees := 0, 0
	for i, x := range curve.Points {
		if x.Form != "" {
			forms++
			if x.Overhead < p.FormOverhead() {
				t.Errorf("%+v costs less than its form", x)
			}
		}
		if x.Knee {
			knees++
		}
		if i > 0 && (x.Overhead <= curve.Points[i-1].Overhead || x.Peak >= curve.Points[i-1].Peak) {
			t.Errorf("%+v comes after %+v", x, curve.Points[i-1])
		}
	}
	if low := curve.Points[len(curve.Points)-1]; forms == 0 || forms == len(curve.Points) || knees != 1 || low.Arena > p.Arena || curve.Floor != p.Floor {
		t.Errorf("%d of %d points are in chunks, %d knees; the lowest is %+v", forms, len(curve.Points), knees, low)
	}

	for most, fits := range map[string]bool{"20%": false, "30%": true} {
		q, err := open(map[string]string{"activation_budget": "60%", "max_overhead": most}).Plan()
		if (err == nil) != fits {
			t.Errorf("within %s: %v", most, err)
		}
		if err == nil && q.Result.Overhead > 0.3 {
			t.Errorf("within %s: %v", most, q.Result.Overhead)
		}
		m := open(map[string]string{"budget": "20MiB", "max_overhead": most})
		largest, err := m.Largest("batch")
		if err != nil {
			t.Fatal(err)
		}
		if (m.plain != nil) != fits || largest.Result.Overhead > 0.3 {
			t.Errorf("the largest batch within %s is in chunks: %v, %v extra", most, m.plain != nil, largest.Result.Overhead)
		}
	}
}
