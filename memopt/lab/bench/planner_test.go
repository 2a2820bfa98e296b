package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
)

// TestPlanner plans and packs files given by path.
func TestPlanner(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "two.csv")
	if err := os.WriteFile(csv, []byte("id,lower,upper,size\na,0,2,10\nb,1,3,20\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var said []string
	r, err := Planner(PlannerOptions{Quick: true, Only: []string{"files"}, Files: []string{"../corpus/steps/gpt2-6L.json.gz", csv},
		Progress: func(what string) { said = append(said, what) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Models)+len(r.Scale) != 0 || len(r.Joint) != len(jointBudgets) || len(r.Pack) != 1 || len(said) != 2 {
		t.Fatalf("report %+v, said %q", r, said)
	}
	for i, row := range r.Joint {
		if row.Note != "" {
			if i < len(r.Joint)-1 && !strings.HasPrefix(row.Note, "none: the floor is ") {
				t.Errorf("%s: %s", row.Way, row.Note)
			}
			continue
		}
		if 100*row.Share > jointBudgets[i] || row.Gap < 0 || i > 0 && row.Overhead < r.Joint[i-1].Overhead {
			t.Errorf("%+v, after %+v", row, r.Joint[max(i, 1)-1])
		}
	}
	if p := r.Pack[0]; p.Height != 30 || p.Bound != 30 || p.Buffers != 2 {
		t.Errorf("packing %+v", p)
	}
	var text strings.Builder
	r.Text(&text)
	for _, want := range []string{"Recorded graphs\n", "gpt2-6L.json.gz", "memopt, 90 %", "two.csv"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if _, err := Planner(PlannerOptions{Only: []string{"modles"}}); err == nil {
		t.Error("a group that is none has no error")
	}
	if _, err := Planner(PlannerOptions{Only: []string{"files"}, Files: []string{"none.csv"}}); err == nil {
		t.Error("a file that is none has no error")
	}
}

// TestPlannerQuestions: groups without files have their rows, and bars with verdicts.
func TestPlannerQuestions(t *testing.T) {
	r, err := Planner(PlannerOptions{Quick: true, Only: []string{"questions", "packing"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Questions) != 1 || len(r.Packing) != 15 || len(r.Models)+len(r.Scale)+len(r.Joint)+len(r.Pack) != 0 {
		t.Fatalf("report %+v", r)
	}
	if q := r.Questions[0]; q.Answer == "" || q.Met == nil || q.BarMS != 1000 {
		t.Errorf("question %+v", q)
	}
	sum := 0.0
	for _, p := range r.Packing {
		if p.Capacity > 0 {
			sum += p.CPUMS
		}
		if p.Capacity > 0 != strings.HasPrefix(p.Problem, "minimalloc-") || p.Capacity > 0 && p.Height > p.Capacity || float64(p.Height) > 1.01*float64(p.Bound) && p.Capacity == 0 || p.Bound > p.Height || p.Met != nil {
			t.Errorf("packing %+v", p)
		}
	}
	if c := r.Together; c.CPUMS != sum || c.Met == nil || c.BarMS != packingBar {
		t.Errorf("together %+v, the rows %v", c, sum)
	}
	var text strings.Builder
	r.Text(&text)
	for _, want := range []string{"GPT, 12 layers", "frontier", "packings of others", "minimalloc-K", "somas-pangu", "1,048,576", "those with a capacity", "≤ 2000 ms, 200 MB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}

// TestClock: a bar applies to the lesser time, and to bytes.
func TestClock(t *testing.T) {
	for _, x := range []struct {
		c    Clock
		bar  float64
		want string
	}{
		{Clock{MS: 90, CPUMS: 40}, 50, "met"},
		{Clock{MS: 40, CPUMS: 60}, 50, "met"},
		{Clock{MS: 51, CPUMS: 60}, 50, "short"},
		{Clock{MS: 40, CPUMS: 40, Heap: heapBar + 1}, 50, "short"},
		{Clock{MS: 40, CPUMS: 40}, 0, ""},
	} {
		x.c.judge(x.bar)
		if line := x.c.columns(); line[len(line)-1] != x.want {
			t.Errorf("%+v: %q, want %q", x.c, line, x.want)
		}
	}
}

// TestOfNodes: programs have about the requested number of nodes.
func TestOfNodes(t *testing.T) {
	for _, s := range []zoo.Spec{plannerScale[0].spec, plannerScale[1].spec} {
		g, err := ofNodes(s, 1500)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(g.Nodes); n < 1300 || n > 1600 {
			t.Errorf("%s: %d nodes", s.Family, n)
		}
	}
}
