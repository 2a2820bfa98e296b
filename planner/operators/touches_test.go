package operators

import (
	"math"
	"testing"

	"memopt/internal/graph"
	"memopt/planner/profile"
)

const chained = `graph chained
x f32[250] = input
w f32[250] = param
a = Add(x, w)
b = Neg(a)
c = Neg(b)
d = Add(c, w)
output d
`

// TestTouches: memory that was not touched before is farthest, what was touched is as far as all that was touched since, and a value takes the
// place of the last one of its size that is gone.
func TestTouches(t *testing.T) {
	lib := &graph.Library{}
	lib.Define(graph.Op{Name: "Add", Doc: "Sum.", In: "a, b", Out: "c", Infer: func(n *graph.Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape) }, NoGrad: true})
	lib.Define(graph.Op{Name: "Neg", Doc: "Minus.", In: "a", Out: "c", Infer: func(n *graph.Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape) }, NoGrad: true})
	g, err := graph.Parse(lib, chained)
	if err != nil {
		t.Fatal(err)
	}
	bytes := make([]int64, len(g.Values))
	for i := range bytes {
		bytes[i] = 1000
	}
	p := &profile.Profile{}
	if got := TouchesFor(p, g, bytes).Of(0); got != nil {
		t.Errorf("without far memory there are touches %v", got)
	}
	p.Far = []profile.Far{{Beyond: 1, Rate: 1}}
	touches := TouchesFor(p, g, bytes)
	const new = math.MaxInt64
	for node, want := range [][]int64{
		{new, new, new},    // x, w, a
		{1000, new},        // a, and b beside it
		{1000, 2000},       // b, and c where a was, behind b
		{1000, 3000, 3000}, // c; w behind the places of a and b; d where b was, behind c and w
	} {
		got := touches.Of(int32(node))
		if len(got) != len(want) {
			t.Fatalf("node %d touches %v, not %v", node, got, want)
		}
		for i, w := range want {
			if got[i].Since != w || got[i].Bytes != 1000 {
				t.Errorf("node %d touches %v, not %v", node, got, want)
			}
		}
	}
}
