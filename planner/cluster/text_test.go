package cluster_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/planner/cluster"
)

// TestText: what a plan file says of requests is read back.
func TestText(t *testing.T) {
	want := []cluster.Request{
		{ID: "BiasGelu+", Type: 1, Count: -1},
		{ID: "Add+Gelu+", Type: 2, Count: 3},
		{ID: "MatMul+", Type: 1, Count: -1, Places: []cluster.Places{{First: 0, Last: 3}, {First: 7, Last: 7}}},
		{ID: "Cast+", Type: 1, Count: 1},
	}
	for n := range len(want) + 1 {
		got, err := cluster.ParseText(cluster.Text(want[:n]...))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(slices.Clone(want[:n]), append([]cluster.Request{}, got...)); d != "" {
			t.Error(d)
		}
	}
	for _, bad := range []string{"x", "x:1", "x:y:1", "x:1:z", "x:1:{0-1", "x:1:{0,a}", "x:1:{0-}", "x:1:{}", ":", "x:1:1,y"} {
		if got, err := cluster.ParseText(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
