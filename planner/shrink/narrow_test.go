package shrink_test

import (
	"bytes"
	"fmt"
	"testing"

	"memopt/memopt/graph"
	"memopt/planner/shrink"
)

// places is a step whose backward pass reads where the greatest elements were.
const places = `
x f32[batch, 4, %[1]d] = input
w f32[%[1]d] = param
k i64[1] = const {3}
h = Mul(x, w)
v, at = TopK(h, k)
e = Exp(v)
l = ReduceMean(e) keepdims=0
output l
`

func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		width int
		as    graph.DType
	}{{256, graph.Uint8}, {257, graph.Uint16}, {65537, graph.Int32}} {
		t.Run(c.as.String(), func(t *testing.T) {
			g := step(t, filled(t, fmt.Sprintf(places, c.width)))
			found, err := shrink.Candidates(g)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].ID != "TopK+" || found[0].As != c.as {
				t.Fatalf("found %+v, want TopK+ as %s", found, c.as)
			}
			small, err := shrink.Apply(g, found)
			if err != nil {
				t.Fatal(err)
			}
			before, want := run(t, g)
			after, got := run(t, small)
			if was, is := before.Baseline.Stashed, after.Baseline.Stashed; was-is != 3*4*3*(8-c.as.Size()) {
				t.Errorf("kept %d bytes before and %d after", was, is)
			}
			for name := range want {
				if !bytes.Equal(want[name], got[name]) {
					t.Errorf("%q has other bits", name)
				}
			}
		})
	}
}
