package kernels

import (
	"fmt"
	"strings"
	"testing"
)

// TestEveryPrice: an operator says as many operations as are counted on each of
// its samples, and they have three shapes at least unless it computes nothing.
func TestEveryPrice(t *testing.T) {
	for _, op := range Library.All() {
		if op.Rewrite != nil {
			continue
		}
		name := op.FullName()
		if op.Tests.Work == nil {
			t.Errorf("%s has a price that nothing counts: say it in Tests.Work", name)
			continue
		}
		cases, err := Cases(op)
		if err != nil {
			t.Fatal(err)
		}
		shapes, most := map[string]bool{}, int64(0)
		for _, c := range cases {
			got, _ := op.Flops(c.Node).Const()
			want := op.Tests.Work(c.Node, c.In)
			if got != want {
				t.Errorf("%s(%s): %d operations, counted %d", name, c.Text, got, want)
			}
			most = max(most, want)
			shapes[shapesOf(c)] = true
		}
		if most > 0 && len(shapes) < 3 {
			t.Errorf("%s is counted on %d shapes only", name, len(shapes))
		}
	}
}

// shapesOf tells the shapes of what a case reads and makes.
func shapesOf(c Case) string {
	var sb strings.Builder
	for _, x := range c.In {
		if x != nil {
			fmt.Fprint(&sb, x.Shape)
		}
	}
	for _, v := range c.Node.Outputs {
		if v != nil {
			fmt.Fprint(&sb, v.Shape)
		}
	}
	return sb.String()
}
