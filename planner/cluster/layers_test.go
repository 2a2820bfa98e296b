package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner/cluster"
)

// TestLayers: layers are found in models of any kind by what is narrow: norms
// before and after, norms of squares, convolutions, none at all.
func TestLayers(t *testing.T) {
	for _, c := range []struct {
		family string
		layers int
		kept   string
	}{
		{"gpt", 4, "transformer.embeddings transformer.h.0.mlp.sum transformer.h.1.mlp.sum transformer.h.2.mlp.sum"},
		{"bert", 4, "bert.embeddings.sum bert.encoder.layer.0.output.sum bert.encoder.layer.1.output.sum bert.encoder.layer.2.output.sum"},
		{"llama", 4, "model.embed_tokens model.layers.0.mlp.sum model.layers.1.mlp.sum model.layers.2.mlp.sum"},
		{"resnet", 0, "relu layer1.0.relu2 layer2.0.relu2 layer3.0.relu2"},
		// A layer keeps one value, which is what crosses: two are a round.
		{"mlp", 8, "relu2 relu4 relu6 relu8"},
	} {
		for _, fused := range []bool{false, true} {
			g, err := zoo.New(zoo.Spec{Family: c.family, Layers: c.layers}, kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			if fused {
				g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
			}
			step, err := autograd.TrainStep(g, autograd.Options{Optimizer: "sgd"})
			if err != nil {
				t.Fatal(err)
			}
			a, err := cluster.AnalyseGraph(step, cluster.Of(step), cluster.Rules{Boundary: true, Library: kernels.Library})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(a.Kept, " "); got != c.kept {
				t.Errorf("%s of %d layers, fused %v: %s, not %s", c.family, c.layers, fused, got, c.kept)
			}
			for k, i := range a.Boundaries {
				if !slices.Contains(a.Outline.Nodes[i].Inputs, a.Kept[k]) {
					t.Errorf("%s: %s does not read %s", c.family, a.Outline.Nodes[i].Name, a.Kept[k])
				}
			}
		}
	}
}

// TestFamilies: layers of models of all kinds, each a forward graph as text.
func TestFamilies(t *testing.T) {
	golden.Files(t, "testdata/layers/*.txt", func(t *testing.T, input string) string {
		g, err := graph.Parse(kernels.Library, input)
		if err != nil {
			t.Fatal(err)
		}
		step, err := autograd.TrainStep(g, autograd.Options{Optimizer: "sgd"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := cluster.AnalyseGraph(step, cluster.Of(step), cluster.Rules{Boundary: true, Library: kernels.Library})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for k, i := range a.Boundaries {
			fmt.Fprintf(&out, "layer at %s keeps %s\n", a.Outline.Nodes[i].Name, a.Kept[k])
		}
		return out.String()
	})
}
