package pack

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every packing that any pass makes in any test is checked.
func TestMain(m *testing.M) {
	checking = true
	os.Exit(m.Run())
}

// A solution is signed by a pass of the table, says what ran, and is one with any pass left out.
func TestWithout(t *testing.T) {
	known := map[string]bool{}
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
	for _, x := range Passes()[1:] {
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
		took := false
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

// A name that is no pass, and the pass that always has to run, cannot be left out.
func TestWithoutErrors(t *testing.T) {
	for _, name := range []string{"skylines", "stack"} {
		_, err := Solve(Problem{}, Effort{Without: map[string]bool{name: true}})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "skyline,") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// Every pass that packs a part keeps lives apart and leaves the packing there was as it is, whatever that was.
func TestEveryPass(t *testing.T) {
	ran := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		lives, sections := liveRanges(p)
		if len(lives) == 0 {
			return
		}
		q := &part{ranges: lives, sections: sections, floor: rapid.Int64Range(0, 9).Draw(t, "floor")}
		goal := maxLive(lives, sections) + q.floor
		for _, x := range passes {
			if x.run == nil {
				continue
			}
			for _, tg := range []target{{bound: goal, enough: goal, looks: 1 << 30}, {bound: goal, enough: goal + goal/20, looks: 1 << 20, capped: true, quick: true}} {
				q.offsets, q.top = stack(q, tg)
				was := append([]int64(nil), q.offsets...)
				offsets, top := x.run(q, tg)
				for i, at := range was {
					if q.offsets[i] != at {
						t.Fatalf("%s moved life %d of the packing there was", x.name, i)
					}
				}
				if offsets == nil {
					continue
				}
				ran[x.name]++
				q.offsets, q.top = offsets, top
				checkApart(t, q)
				if top < goal {
					t.Fatalf("%s: %d, with a goal of %d", x.name, top, goal)
				}
			}
		}
	})
	for _, x := range passes {
		if x.run != nil && ran[x.name] == 0 {
			t.Errorf("%s never packed anything", x.name)
		}
	}
}
