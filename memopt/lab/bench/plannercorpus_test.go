package bench

import (
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/memopt/report"
)

// TestCorpus: every corpus step at every budget is planned and placed as in
// memopt/lab/corpus/plans.txt, by the passes named there, and so are published problems. A change of
// the planner changes the file: consider its cost, then rewrite the file with -update.
func TestCorpus(t *testing.T) {
	r, err := Planner(PlannerOptions{Only: []string{"corpus"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Planner(PlannerOptions{Only: []string{"packing"}, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	corpusText(&text, r.Corpus, false)
	text.WriteString("\n")
	table := [][]string{{"problem", "buffers", "height", "above the bound", "placed by"}}
	for _, row := range p.Packing {
		table = append(table, []string{row.Problem, report.Thousands(int64(row.Buffers)), report.Thousands(row.Height), above(row.Height, row.Bound), row.By})
	}
	report.Table(&text, "=lrrrl", table)
	golden.File(t, "../corpus/plans.txt", text.String())
	plans, placings := 0.0, 0.0
	for _, row := range r.Corpus {
		plans, placings = plans+row.MS/1000, placings+row.PackMS/1000
		if row.Found && (row.Bound > row.Cost+1e-9 || row.Peak > row.Limit || row.Height < row.Least) {
			t.Errorf("%+v", row)
		}
	}
	t.Logf("plans took %.0f s of processor time, placings %.0f s", plans, placings)
}

// TestEarned: passes are left out one by one and together, and plans in which they took no part do
// not change.
func TestEarned(t *testing.T) {
	earned := func(without ...string) *PlannerReport {
		r, err := Planner(PlannerOptions{Quick: true, Only: []string{"gpt-2L", "resnet18", "minimalloc-G"}, Without: without})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	all := earned("each")
	var idle []string
	for _, row := range all.Earned {
		if row.Doc == "" || len(row.Without) != 1 || row.Plans > 4 || row.Placings > 5 || row.Cost.Most < 0 || row.Height.Least > 0 {
			t.Errorf("%+v", row)
		}
		if row.Plans == 0 {
			idle = append(idle, row.Without...)
		}
	}
	if len(all.Earned) < 10 || len(idle) == 0 || len(idle) == len(all.Earned) {
		t.Fatalf("%d passes, of which none of %q took part in a plan", len(all.Earned), idle)
	}
	b := &plannerBench{o: PlannerOptions{Quick: true, Only: []string{"gpt-2L", "resnet18"}}, report: &PlannerReport{}}
	steps, _, err := b.chosen()
	if err != nil {
		t.Fatal(err)
	}
	plans, err := b.corpusPlans(steps)
	if err != nil {
		t.Fatal(err)
	}
	for _, with := range plans {
		without := *with
		if err := without.plan(idle); err != nil {
			t.Fatal(err)
		}
		if without.Cost != with.Cost || without.Bound != with.Bound || without.Peak != with.Peak || without.Choice != with.Choice {
			t.Errorf("%+v, and without passes that took no part %+v", with.CorpusRow, without.CorpusRow)
		}
	}
	none := make([]string, 0, len(all.Earned))
	for _, row := range all.Earned {
		if strings.HasPrefix(row.Without[0], "recompute/") {
			none = append(none, row.Without[0])
		}
	}
	r := earned(none...)
	if row := r.Earned[0]; len(r.Earned) != 1 || row.Plans != 4 || row.Missing == 0 && row.Cost.Most < 0.001 || len(row.Changed) == 0 {
		t.Errorf("without all passes that choose nothing is lost: %+v", row)
	}
	var text strings.Builder
	r.Text(&text)
	for _, want := range []string{"What passes earn", "lost", "gpt-2L", "without"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	for _, o := range []PlannerOptions{{Without: []string{"recompute/evcit"}}, {Without: []string{"each"}, Only: []string{"models"}}} {
		if _, err := Planner(o); err == nil {
			t.Errorf("%+v has no error", o)
		}
	}
}
