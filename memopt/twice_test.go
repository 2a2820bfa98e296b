package memopt

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
	"memopt/planner/planfile"
)

// TestExtraOfTwice: what scores cost a second time is extra cost beside the
// step as it is: in plans, their formulas, the frontier, and limits.
func TestExtraOfTwice(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 32, Heads: 2, Vocab: 4000})
	open := func(fields map[string]string) *step.Model {
		fields["cost"] = "flops" // so that no form is combined with extracts
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
	cost, base := p.Cost()
	alone := map[string]float64{}
	for form, settings := range map[string]map[string]string{
		"":                                  {"chunk_loss": "off"},
		"loss in chunks":                    {"chunk_loss": "on"},
		"attention in rows":                 {"flash_attention": "rows"},
		"loss in chunks, attention in rows": {"chunk_loss": "on", "flash_attention": "rows"},
	} {
		own, err := open(settings).Plan()
		if err != nil {
			t.Fatal(err)
		}
		_, all := own.Cost()
		alone[form] = all/plain - 1
	}
	near("the step that costs are told beside", base, plain)
	near("the plan's overhead", p.Result.Overhead, cost/plain-1)
	near("the form's", p.FormOverhead(), alone["loss in chunks, attention in rows"])
	near("the gap", p.Bound.Gap, p.Result.Overhead-p.Bound.Overhead)
	if p.FormOverhead() < 0.1 || p.Bound.Overhead < p.FormOverhead() || p.Baseline != whole.Baseline {
		t.Errorf("the form costs %v, the bound is %v, everything kept is %+v", p.FormOverhead(), p.Bound.Overhead, p.Baseline)
	}

	curve, err := open(map[string]string{}).Frontier()
	if err != nil {
		t.Fatal(err)
	}
	forms, knees := map[string]int{}, 0
	for i, x := range curve.Points {
		if forms[x.Form]++; x.Overhead < alone[x.Form]-1e-12 {
			t.Errorf("%s at %d bytes costs %v, less than its form", x.Form, x.Peak, x.Overhead)
		}
		if x.Knee {
			knees++
		}
		if i > 0 && (x.Overhead <= curve.Points[i-1].Overhead || x.Peak >= curve.Points[i-1].Peak) {
			t.Errorf("%d bytes at %v come after %d at %v", x.Peak, x.Overhead, curve.Points[i-1].Peak, curve.Points[i-1].Overhead)
		}
	}
	for form := range alone {
		if forms[form] == 0 {
			t.Errorf("no point of form %q among %v", form, forms)
		}
	}
	if low := curve.Points[len(curve.Points)-1]; knees != 1 || low.Arena > p.Arena || curve.Floor != p.Floor {
		t.Errorf("%d knees; the lowest is %d bytes of %d; floors are %+v and %+v", knees, low.Arena, p.Arena, curve.Floor, p.Floor)
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
		if chunks := len(largest.Form.Taken) > 0; chunks != fits || largest.Result.Overhead > 0.3 {
			t.Errorf("the largest batch within %s is in chunks: %v, %v extra", most, chunks, largest.Result.Overhead)
		}
	}
}

// TestMostPromising: the plan is the cheapest of all forms, though those that promise less are
// not looked for to the end.
func TestMostPromising(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 5, Width: 16, Heads: 4, Vocab: 100})
	plan := func(fields map[string]string) (*planner.Plan, float64) {
		fields["cost"] = "flops" // by which forms differ less in such small programs
		c := settingsFor(t, fields)
		c.Dims = map[string]int64{"batch": 4, "seq": 128}
		m, err := Open(model, c)
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Plan()
		if err != nil {
			return nil, math.Inf(1)
		}
		cost, _ := p.Cost()
		return p, cost
	}
	spared := 0
	for _, share := range []string{"12%", "12.4%", "30%"} {
		p, cost := plan(map[string]string{"activation_budget": share, "chunk_loss": "off"})
		if p == nil {
			t.Fatalf("no plan within %s", share)
		}
		room, _ := p.Room()
		least := math.Inf(1)
		for _, attention := range []string{"off", "rows"} {
			_, other := plan(map[string]string{"activation_budget": fmt.Sprint(room), "chunk_loss": "off", "flash_attention": attention})
			least = min(least, other)
		}
		if math.Abs(cost-least) > 1e-9*least {
			t.Errorf("%s: the plan costs %v, that of the best form %v", share, cost, least)
		}
		for _, w := range p.Warnings {
			if strings.Contains(w, "with --flash-attention off a plan takes at least ") {
				spared++
			}
		}
	}
	if spared == 0 {
		t.Error("plans of all forms were looked for, so this asks nothing")
	}
}

// TestFormsOfOneReading: a form that is made of the forward graph of another, which
// was read once, is that of a file opened anew.
func TestFormsOfOneReading(t *testing.T) {
	for _, spec := range []zoo.Spec{{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 400}, {Family: "bert", Layers: 1, Width: 32, Heads: 2, Vocab: 400}} {
		model, _ := madeGPT(t, spec)
		first, err := Open(model, settingsFor(t, map[string]string{}))
		if err != nil {
			t.Fatal(err)
		}
		own := first.Graph.Fingerprint()
		seen := map[string]bool{own: true}
		for _, fields := range []map[string]string{{"chunk_loss": "on"}, {"flash_attention": "on"}, {"flash_attention": "rows"}, {"flash_attention": "rows", "chunk_loss": "on"}, {}} {
			for _, of := range []func(*step.Model) (*step.Model, error){
				func(m *step.Model) (*step.Model, error) { return m, nil },
				training.GradientModel,
			} {
				anew, err := Open(model, settingsFor(t, fields))
				if err != nil {
					t.Fatal(err)
				}
				want, err := of(anew)
				if err != nil {
					t.Fatal(err)
				}
				from, err := of(first)
				if err != nil {
					t.Fatal(err)
				}
				got, err := from.With(want.Config)
				if err != nil {
					t.Fatal(err)
				}
				if got.Graph.Fingerprint() != want.Graph.Fingerprint() || got.Passes.String() != want.Passes.String() {
					t.Errorf("%s, %v: %v\nnot\n%v", spec.Family, fields, got.Passes, want.Passes)
				}
				seen[want.Graph.Fingerprint()] = true
			}
		}
		if first.Graph.Fingerprint() != own || len(seen) < 6 {
			t.Errorf("%s: %d forms, and the first is another now", spec.Family, len(seen))
		}
	}
}

// TestPlanChangesNothing: a model that was asked for plans, curves and sizes gives the plans
// of one that was opened anew.
func TestPlanChangesNothing(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 16, Heads: 2, Vocab: 500})
	open := func(fields map[string]string) *step.Model {
		fields["cost"] = "flops" // by which forms differ less in such small programs
		c := settingsFor(t, fields)
		c.Dims = map[string]int64{"batch": 4, "seq": 64}
		m, err := Open(model, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	text := func(m *step.Model) string {
		p, err := m.Plan()
		if err != nil {
			return err.Error()
		}
		f := planfile.Of(p, m.Path)
		f.PlanMS = 0
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + strings.Join(p.Warnings, "\n")
	}
	taken := map[string]bool{}
	for _, fields := range []map[string]string{
		{"activation_budget": "60%"}, {"max_overhead": "5%"}, {"activation_budget": "50%", "lossy": "bf16"}, {"lossy": "bf16"}, {"shrink": "on"},
	} {
		fresh, used := open(fields), open(fields)
		graph, config := used.Graph, used.Config.NonDefaults()
		want := text(fresh)
		for _, again := range []string{"at once", "a second time"} {
			if got := text(used); got != want {
				t.Errorf("%v: planned %s, the plan is another: %s", fields, again, apartFrom(got, want))
			}
		}
		if fields["max_overhead"] != "" { // one is enough for what takes long
			other, err := used.With(open(map[string]string{"activation_budget": "45%"}).Config)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(other); got != text(open(map[string]string{"activation_budget": "45%"})) {
				t.Errorf("after %v, the plan of another budget is another than a new model's", fields)
			}
			if _, err := used.Frontier(); err != nil {
				t.Fatal(err)
			}
			if sized, err := used.With(open(map[string]string{"budget": "24MiB"}).Config); err != nil {
				t.Fatal(err)
			} else if _, err := sized.Largest("batch"); err != nil {
				t.Fatal(err)
			}
		}
		if got := text(used); got != want {
			t.Errorf("%v: after a frontier and a largest size, the plan is another", fields)
		}
		if used.Graph != graph || !reflect.DeepEqual(used.Config.NonDefaults(), config) {
			t.Errorf("%v: planning changed the model", fields)
		}
		p, err := used.Plan()
		if err == nil {
			taken[strings.Join(p.Form.Taken, ", ")] = true
			if p.Form.Rounded > 0 {
				taken["rounded"] = true
			}
		}
	}
	if len(taken) < 3 || !taken["rounded"] {
		t.Errorf("plans are of too few forms to show anything: %v", taken)
	}
}

// apartFrom is where a text begins to be another.
func apartFrom(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%q, not %q", got[max(0, i-60):min(len(got), i+60)], want[max(0, i-60):min(len(want), i+60)])
}
