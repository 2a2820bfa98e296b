package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/planner/cluster"
)

var bloomSizes = map[string]int64{"inputs_input_ids_dim0": 2, "inputs_attention_mask_dim1": 1024, "inputs_attention_mask_dim0": 2, "inputs_input_ids_dim1": 1024}

// TestBloomPeaks: the sum of savings is what is not kept at the border; the peak
// falls by less, and by far less when layers have no boundaries.
func TestBloomPeaks(t *testing.T) {
	o := training(t, "onnxruntime/3layer_bloom_optimized_training")
	for _, c := range []struct {
		what            string
		level           int
		boundary        bool
		nodes           int
		stored, peak    int64
		at              string
		column, column2 int64 // the table's total for what is on: ONNX Runtime's, and of all outputs
	}{
		{"nothing", 0, true, 500, 2417151972, 3443752930, "SoftmaxCrossEntropyLossInternal", 0, 0},
		{"level 1", 1, true, 630, 1043395068, 2352124208, "Gemm", 1344344040, 1373757408},
		{"level 1 without boundaries", 1, false, 637, 1030795772, 2930937840, "Gemm", 0, 0},
	} {
		a := probe(t, o, cluster.Rules{ProbeLevel: 1, Boundary: c.boundary, Compat: "1.19"})
		chosen := a.Choose(atLevel(t, a, c.level))
		after := cluster.Rewrite(a, chosen.Choices, 0)
		order, err := cluster.MemoryEfficientOrder(after)
		if err != nil {
			t.Fatal(err)
		}
		l, err := cluster.Simulate(after, order, bloomSizes)
		if err != nil {
			t.Fatal(err)
		}
		if len(after.Nodes) != c.nodes || l.Stored != c.stored || l.Peak != c.peak || after.Nodes[l.At].Op != c.at {
			t.Errorf("%s: %d nodes, %d at the border, peak %d at %s %s", c.what, len(after.Nodes), l.Stored, l.Peak, after.Nodes[l.At].Op, after.Nodes[l.At].Name)
		}
		if c.column == 0 {
			continue
		}
		var ort, all float64
		lines, err := a.Table(atLevel(t, a, c.level), bloomSizes)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !line.On {
				continue
			}
			e, err := cluster.ParseSaving(a.Raw(&line.Key, false))
			if err != nil {
				t.Fatal(err)
			}
			n, _ := e.At(bloomSizes).Number()
			ort, all = ort+line.Bytes, all+n
		}
		if int64(ort) != c.column || int64(all) != c.column2 {
			t.Errorf("%s: the table's total is %.0f, and %.0f over all outputs", c.what, ort, all)
		}
	}
}

// TestBloomLayers: at level 1 each layer from the last to the first makes its
// residual anew, then runs the gradient of the norm behind it, then that of the
// norm in front; what crosses from layer to layer is kept.
func TestBloomLayers(t *testing.T) {
	a := probe(t, training(t, "onnxruntime/3layer_bloom_optimized_training"), cluster.Rules{ProbeLevel: 1, Boundary: true, Compat: "1.19"})
	after := cluster.Rewrite(a, a.Choose(atLevel(t, a, 1)).Choices, 0)
	order, err := cluster.MemoryEfficientOrder(after)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	maker, readers := map[string]graph.OutlineNode{}, map[string][]graph.OutlineNode{}
	for place, i := range order {
		n := after.Nodes[i]
		at[n.Name] = place
		for _, out := range n.Outputs {
			maker[out] = n
		}
		for _, in := range n.Inputs {
			readers[in] = append(readers[in], n)
		}
	}
	last := at["YieldOp"]
	if last == 0 {
		for name := range at {
			if strings.HasPrefix(name, "YieldOp") {
				last = at[name]
			}
		}
	}
	gradOf := func(n graph.OutlineNode) graph.OutlineNode {
		for _, g := range readers[n.Outputs[1]] {
			if g.Op == "LayerNormalizationGrad" {
				return g
			}
		}
		t.Fatalf("%s has no gradient", n.Name)
		return n
	}
	for layer := 2; layer >= 0; layer-- {
		in := after.Nodes[slices.IndexFunc(after.Nodes, func(n graph.OutlineNode) bool {
			return n.Name == []string{"LayerNormalization_token_0", "LayerNormalization_token_6", "LayerNormalization_token_12"}[layer]+"_recompute"
		})]
		if maker[in.Inputs[0]].Of >= 0 {
			t.Errorf("layer %d: what crosses into it is made again by %s", layer, maker[in.Inputs[0]].Name)
		}
		// The norm behind the attention reads the residual, made again.
		var post graph.OutlineNode
		for _, n := range after.Nodes {
			if n.Of >= 0 && n.Op == "LayerNormalization" && at[n.Name] > at[in.Name] && maker[n.Inputs[0]].Op == "Add" && maker[n.Inputs[0]].Of >= 0 &&
				slices.Contains(maker[n.Inputs[0]].Inputs, in.Inputs[0]) {
				post = n
			}
		}
		if post.Name == "" {
			t.Fatalf("layer %d: no norm behind the attention is made again", layer)
		}
		for _, step := range []graph.OutlineNode{maker[post.Inputs[0]], gradOf(post), gradOf(in)} {
			if at[step.Name] <= last {
				t.Errorf("layer %d: %s runs at %d, before %d", layer, step.Name, at[step.Name], last)
			}
			last = at[step.Name]
		}
	}
}
