package planner_test

import (
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/cluster"
)

// TestBindRequests: a plan that is read back knows what was asked of clusters.
func TestBindRequests(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 3, Width: 32, Heads: 2, Vocab: 50})
	dims := map[string]int64{"batch": 4, "seq": 16}
	plain, err := planner.Make(g, planner.Request{Dims: dims})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Tabulate(); err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, r := range plain.Clusters {
		if r.Freq == 3 && r.Strategy == 1 {
			id = r.ID
			break
		}
	}
	p, err := planner.Make(g, planner.Request{Dims: dims, Clusters: []cluster.Request{{ID: id, Type: 1, Count: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := p.File("gpt.onnx").Bind(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range p.Clusters {
		if got := q.Clusters[i]; got.Requested != r.Requested || got.Applied != r.Applied {
			t.Errorf("%s: requested %d and applied %d, read back as %d and %d", r.Key, r.Requested, r.Applied, got.Requested, got.Applied)
		}
		if r.ID == id && r.Strategy == 1 && r.Requested != 2 {
			t.Errorf("%s: requested %d, not 2", r.Key, r.Requested)
		}
	}
	f := p.File("gpt.onnx")
	f.Request.Config = "no request"
	if _, err := f.Bind(g); err == nil {
		t.Error("a request that is none is read")
	}
}
