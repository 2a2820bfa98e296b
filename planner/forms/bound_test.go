package forms

import (
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestLeastOf: no plan of a form costs less than the bound known before its step is derived, and
// the bound rules out a form that cannot win.
func TestLeastOf(t *testing.T) {
	dims := map[string]int64{"batch": 4, "seq": 32}
	near := false
	for _, spec := range []zoo.Spec{
		{Family: "gpt", Layers: 2, Width: 16, Heads: 2, Vocab: 300},
		{Family: "gpt", Layers: 6, Width: 16, Heads: 2, Vocab: 40},
		{Family: "llama", Layers: 4, Width: 32, Heads: 2, Vocab: 100},
	} {
		s, _ := stepsOf(t, spec)
		for _, percent := range []float64{75, 40} {
			f, err := s.Own(askOf(dims, percent))
			if err != nil {
				t.Fatal(err)
			}
			own, err := newTrial(f)
			if err != nil {
				t.Fatal(err)
			}
			plain, _, err := own.look.Least()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range own.choices(own.inBytes()) {
				least := own.leastOf(c)
				near = near || least > own.look.Own()+(plain-own.look.Own())/2
				other, err := c.form()
				if err != nil {
					t.Fatal(err)
				}
				x, err := newTrial(other)
				if err != nil {
					t.Fatal(err)
				}
				if p, err := x.best(planner.Target{}); err == nil && costOf(p) < least*(1-1e-9) {
					t.Errorf("%v at %v %%, %s: a plan costs %.0f, and none was to cost less than %.0f", spec, percent, x.name(), costOf(p), least)
				}
			}
		}
	}
	if !near {
		t.Error("nothing worth knowing is said of any form")
	}

	s, derived := stepsOf(t, zoo.Spec{Family: "gpt", Layers: 12, Width: 16, Heads: 2, Vocab: 40})
	if _, err := s.Plan(askOf(dims, 40)); err != nil {
		t.Fatal(err)
	}
	if *derived != 3 {
		t.Errorf("%d forms were derived, not 3: the loss of a deep model is not worth chunks alone", *derived)
	}
}
