package planner_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/planner"
	"memopt/planner/cluster"
)

// TestRewriteOutline: of an outline that has just the graph's nodes the edit is
// the rewritten graph, node for node; without one of them there is none.
func TestRewriteOutline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, 8)
		dims := map[string]int64{"batch": 2}
		p := mustMake(t, g, planner.Request{Dims: dims, Again: randomAgain(t, g, dims)})
		want, err := p.Rewrite()
		if err != nil {
			t.Fatal(err)
		}
		o := cluster.Of(g)
		after, order, ok, err := p.RewriteOutline(o)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if len(order) != len(after.Nodes) || len(order) < len(want.Nodes) {
			t.Fatalf("%d nodes in an order of %d, not %d", len(after.Nodes), len(order), len(want.Nodes))
		}
		for _, i := range order[len(want.Nodes):] { // views that nobody reads
			if i >= len(o.Nodes) || !g.Nodes[i].Op.View {
				t.Fatalf("%s is too many", after.Nodes[i].Name)
			}
		}
		names := func(vs []*graph.Value) (out []string) {
			for _, v := range vs {
				name := ""
				if v != nil {
					name = v.Name
				}
				out = append(out, name)
			}
			return out
		}
		for k, i := range order[:len(want.Nodes)] {
			n, w := after.Nodes[i], want.Nodes[k]
			if n.Name != w.Name || n.Op != w.Op.Name || !slices.Equal(n.Inputs, names(w.Inputs)) || !slices.Equal(n.Outputs, names(w.Outputs)) {
				t.Fatalf("node %d is %+v, not %s%v of %v", k, n, w.Op.Name, names(w.Inputs), names(w.Outputs))
			}
			if i >= len(o.Nodes) && (n.Of < 0 || o.Nodes[n.Of].Op != n.Op) {
				t.Fatalf("%s is a copy of %d", n.Name, n.Of)
			}
		}
		o.Nodes = o.Nodes[:len(o.Nodes)-1]
		if _, _, ok, err := p.RewriteOutline(o); ok || err != nil {
			t.Fatalf("a node is missing: %v, %v", ok, err)
		}
	})
}
