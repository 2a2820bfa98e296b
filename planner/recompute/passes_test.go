package recompute_test

import (
	"slices"
	"testing"

	"memopt/planner/recompute"
)

// TestPasses: every answer names a pass that took place and was the last to find a better
// plan, and leaving that out leaves its work to others.
func TestPasses(t *testing.T) {
	var names []string
	for _, p := range recompute.Passes() {
		if p.Name == "" || p.Doc == "" || p.Run == nil || slices.Contains(names, p.Name) {
			t.Errorf("pass %+v", p)
		}
		names = append(names, p.Name)
	}
	p := readJoint(t, "gpt2-6L")
	s := solver(t, p)
	plain, _ := s.Solve(1<<60, recompute.Ask{})
	a, ok := s.Solve(plain.Peak/2, recompute.Ask{})
	if !ok || !slices.Contains(names, a.By) {
		t.Fatalf("a plan by %q", a.By)
	}
	last := recompute.Try{}
	for i, try := range a.Tries {
		if slices.Index(names, try.Pass) < 0 || i > 0 && slices.Index(names, try.Pass) <= slices.Index(names, a.Tries[i-1].Pass) {
			t.Errorf("pass %q out of order", try.Pass)
		}
		if try.Took {
			last = try
		}
	}
	if last.Pass != a.By || last.Cost != a.Extra || last.Peak != a.Peak {
		t.Errorf("%+v by %q: the last that took was %+v", a.Extra, a.By, last)
	}
	without := solver(t, p)
	if err := without.Without(a.By); err != nil {
		t.Fatal(err)
	}
	b, _ := without.Solve(plain.Peak/2, recompute.Ask{})
	if b.By == a.By || slices.ContainsFunc(b.Tries, func(try recompute.Try) bool { return try.Pass == a.By }) {
		t.Errorf("%q ran although it was left out", a.By)
	}
	for _, name := range []string{"nothing", names[0]} {
		if without.Without(name) == nil {
			t.Errorf("%q is left out", name)
		}
	}
}
