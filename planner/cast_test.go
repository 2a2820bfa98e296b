package planner_test

import (
	"fmt"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
	"memopt/planner/cluster"
)

// wide is a step whose backward pass reads a cast's result; its source is
// smaller, and nothing else of the backward pass needs it.
const wide = `
x f32[batch, 64] = input
zero f32[] = const {0}
h = Tanh(x)
s = %s
w = Cast(s) to=1
y = Exp(w)
l = ReduceMean(y) keepdims=0
backward:
d = Mul(y, w)
e = Add(d, w)
output l
output e
`

// TestCastCompromise: Cast+:2:-1 keeps the source of a cast and casts again,
// and nothing before it.
func TestCastCompromise(t *testing.T) {
	for _, c := range []struct {
		source string
		saved  int64
	}{{"Cast(h) to=10", 8 * 64 * 2}, {"Greater(h, zero)", 8 * 64 * 3}} {
		t.Run(c.source, func(t *testing.T) {
			g, err := graph.Parse(kernels.Library, fmt.Sprintf(wide, c.source))
			if err != nil {
				t.Fatal(err)
			}
			p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 8}, Boundary: true,
				Clusters: []cluster.Request{{ID: "Cast+", Type: 2, Count: -1}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Tabulate(); err != nil {
				t.Fatal(err)
			}
			var again []string
			for _, s := range p.Steps {
				if s.Again {
					again = append(again, g.Nodes[s.Node].Name)
				}
			}
			if len(again) != 1 || again[0] != g.ByName("w").Def.Name {
				t.Errorf("%v run again, want the second cast alone", again)
			}
			if was, is := p.Baseline.Stashed, p.Result.Stashed; was-is != c.saved {
				t.Errorf("kept %d bytes, then %d; want %d less", was, is, c.saved)
			}
			for _, r := range p.Clusters {
				if r.ID == "Cast+" && (r.Applied != 1 || r.Bytes != c.saved) {
					t.Errorf("row %+v", r)
				}
			}
			for _, w := range p.Warnings {
				t.Error(w)
			}
		})
	}
}
