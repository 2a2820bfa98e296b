package pack

import (
	"testing"
)

// A solution is signed by a pass of the table, says what ran, and is one with any pass left out.
func TestWithout(t *testing.T) {
	known := map[string]bool{"stack": true}
	for _, x := range Passes() {
		if known[x.Name] || x.Doc == "" {
			t.Errorf("pass %q is there twice, or says nothing of itself", x.Name)
		}
		known[x.Name] = true
	}
	all, err := MiniMalloc()
	if err != nil {
		t.Fatal(err)
	}
	p := all[6].Problem
	p.Capacity = 0
	none := Effort{Looks: 1 << 20, Without: map[string]bool{}}
	efforts := []Effort{{Looks: 1 << 20}}
	for _, x := range Passes() {
		efforts = append(efforts, Effort{Looks: 1 << 20, Without: map[string]bool{x.Name: true}})
		none.Without[x.Name] = true
	}
	for _, e := range append(efforts, none) {
		s, err := Solve(p, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(p, s); err != nil {
			t.Errorf("without %v: %v", e.Without, err)
		}
		if !known[s.By] || e.Without[s.By] {
			t.Errorf("without %v: signed %q", e.Without, s.By)
		}
		took := s.By == "stack"
		for _, x := range s.Tries {
			if !known[x.Pass] || e.Without[x.Pass] || x.Parts == 0 {
				t.Errorf("without %v: tried %+v", e.Without, x)
			}
			took = took || x.Pass == s.By && x.Took
		}
		if !took {
			t.Errorf("without %v: by %q, which is not among %+v", e.Without, s.By, s.Tries)
		}
	}
}
