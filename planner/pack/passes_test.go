package pack

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMain has every packing of every pass in all tests checked.
func TestMain(m *testing.M) {
	checking = true
	os.Exit(m.Run())
}

// TestWithout: with any pass left out, a solution is valid, is signed by a pass of the table, and lists the passes that ran.
func TestWithout(t *testing.T) {
	known := map[string]bool{}
	for _, x := range Passes() {
		if known[x.Name] || x.Doc == "" {
			t.Errorf("pass %q is in the table twice, or has no description", x.Name)
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

// TestWithoutErrors: an unknown pass, and the first, cannot be left out.
func TestWithoutErrors(t *testing.T) {
	for _, name := range []string{"skylines", "stack"} {
		_, err := Solve(Problem{}, Effort{Without: map[string]bool{name: true}})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "skyline,") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestEveryPass: every pass returns valid packings, and does not change the packing that it is given.
func TestEveryPass(t *testing.T) {
	ran := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		ranges, sections := liveRanges(p)
		if len(ranges) == 0 {
			return
		}
		q := &part{ranges: ranges, sections: sections, floor: rapid.Int64Range(0, 9).Draw(t, "floor")}
		bound := maxLive(ranges, sections) + q.floor
		for _, x := range passes {
			if x.run == nil {
				continue
			}
			for _, tg := range []target{{bound: bound, enough: bound, looks: 1 << 30}, {bound: bound, enough: bound + bound/20, looks: 1 << 20, capped: true, quick: true}} {
				q.offsets, q.top = stack(q, tg)
				before := append([]int64(nil), q.offsets...)
				offsets, top := x.run(q, tg)
				for i, offset := range before {
					if q.offsets[i] != offset {
						t.Fatalf("%s moved range %d of the packing that it was given", x.name, i)
					}
				}
				if offsets == nil {
					continue
				}
				ran[x.name]++
				q.offsets, q.top = offsets, top
				checkApart(t, q)
				if top < bound {
					t.Fatalf("%s: %d, below the bound %d", x.name, top, bound)
				}
			}
		}
	})
	for _, x := range passes {
		if x.run != nil && ran[x.name] == 0 {
			t.Errorf("%s never returned a packing", x.name)
		}
	}
}
