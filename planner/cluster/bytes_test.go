package cluster_test

import (
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/planner/cluster"
)

// TestFormulasAreBytes: for any sizes, a key's formula is the sum of the bytes of the tensors that
// it frees.
func TestFormulasAreBytes(t *testing.T) {
	for _, file := range []string{"gpt2", "bert", "mlp", "onnxruntime/3layer_bloom_optimized_training"} {
		o := training(t, file)
		g, _, err := onnx.Open("../../memopt/testdata/ort/"+file+".onnx", kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		known := func(name string) (graph.OutlineValue, bool) {
			v := g.ByName(name)
			if v == nil {
				return graph.OutlineValue{}, false
			}
			return graph.OutlineValue{Type: v.Type, Shape: v.Shape, Known: true}, true
		}
		a := probe(t, o, cluster.Rules{Library: kernels.Library, Value: known})
		keys := a.Keys()
		if len(keys) < 8 {
			t.Errorf("%s has %d keys", file, len(keys))
		}
		rapid.Check(t, func(t *rapid.T) {
			dims := map[string]int64{}
			for _, name := range g.Names() {
				dims[name] = rapid.Int64Range(2, 3000).Draw(t, name)
			}
			b, err := graph.Bind(dims)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				want := 0.0
				for _, m := range k.Members {
					for _, option := range a.Options(m) {
						for _, s := range option.Outputs {
							shape, err := b.Shape(g.ByName(s.Name).Shape)
							if err != nil {
								t.Fatal(err)
							}
							n := float64(s.Type.Size())
							for _, d := range shape {
								n *= float64(d)
							}
							want += n * option.Ratio
						}
					}
				}
				if got, err := b.Eval(k.Saving); err != nil || float64(got) != want {
					t.Fatalf("%s: %s: %s is %d, not %.0f (%v)", file, &k, k.Saving, got, want, err)
				}
			}
		})
	}
}
