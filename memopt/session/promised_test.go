package session_test

import (
	"context"
	"fmt"
	"testing"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/session"
)

// TestPromised: the memory that a run takes is what its plan promises, with a block for all values and
// value by value, for all results and for some, of which the others' nodes do not run.
func TestPromised(t *testing.T) {
	for _, family := range []string{"gpt", "resnet"} {
		path := zooModel(t, family)
		g, source, err := onnx.Open(path, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		dims := map[string]int64{}
		for _, name := range g.Names() {
			dims[name] = 3
		}
		in := feed(t, g, dims, 7)
		for _, pattern := range []bool{true, false} {
			var all *session.Result
			for _, name := range []string{"", g.Outputs[0].Name} {
				t.Run(fmt.Sprint(family, pattern, name), func(t *testing.T) {
					s := open(t, path, session.Options{Pattern: pattern, Arena: arena.Options{Strategy: arena.SameAsRequested}})
					var fetches []session.Fetch
					if name != "" {
						fetches = []session.Fetch{{Name: name}}
					}
					for range 2 {
						r, err := s.Run(context.Background(), in, fetches, session.RunOptions{})
						if err != nil {
							t.Fatal(err)
						}
						if r.Promised != r.Measured {
							t.Errorf("promised %+v, measured %+v", r.Promised, r.Measured)
						}
						if (r.Height > 0) != pattern || r.Bound == 0 || pattern && r.Height < r.Bound {
							t.Errorf("height %d, bound %d", r.Height, r.Bound)
						}
						if all == nil {
							all = r
						}
						if len(r.Outputs) < len(all.Outputs) && r.Promised.Total >= all.Promised.Total {
							t.Errorf("some results take %d, all of them %d", r.Promised.Total, all.Promised.Total)
						}
					}
				})
			}
		}
	}
	s := open(t, "testdata/above.onnx", session.Options{Pattern: true})
	x := map[string]*graph.Tensor{"x": tensor([]int{3}, 1, -1, 2)}
	for _, p := range s.Signature.Outputs {
		r, err := s.Run(context.Background(), x, []session.Fetch{{Name: p.Name}}, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Promised != r.Measured || len(r.Outputs) != 1 {
			t.Errorf("%s: promised %+v, measured %+v, %d outputs", p.Name, r.Promised, r.Measured, len(r.Outputs))
		}
	}
}
