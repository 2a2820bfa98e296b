package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/planner/cluster"
)

// training reads a graph of ONNX Runtime's trainer.
func training(t *testing.T, name string) *graph.Outline {
	t.Helper()
	o, err := onnx.ReadOutline(filepath.Join("..", "..", "memopt", "testdata", "ort", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func probe(t *testing.T, o *graph.Outline, r cluster.Rules) *cluster.Analysis {
	t.Helper()
	a, err := cluster.Analyse(o, r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// byIndex puts a fused graph's nodes in the order of the session's index: as in
// the graph it was made from, then what fusions made.
func byIndex(t *testing.T, name string) *graph.Outline {
	o, before := training(t, name), training(t, name+"-unfused")
	index := map[string]int{}
	for i, n := range before.Nodes {
		index[n.Name] = i + 1
	}
	at := func(n graph.OutlineNode) int {
		if i := index[n.Name]; i > 0 {
			return i
		}
		return len(before.Nodes) + 1
	}
	slices.SortStableFunc(o.Nodes, func(a, b graph.OutlineNode) int { return at(a) - at(b) })
	return o
}

// TestUpstream: under Compat, keys and frequencies are what ONNX Runtime 1.19.2
// found, for every probe config.
func TestUpstream(t *testing.T) {
	src, err := os.ReadFile("testdata/upstream.txt")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for block := range strings.SplitSeq(string(src), "\n\n") {
		head, want, _ := strings.Cut(strings.TrimSpace(block)+"\n", "\n")
		if strings.HasPrefix(head, "#") {
			continue
		}
		var model string
		var level, boundary int
		if _, err := fmt.Sscanf(head, "%s %d:%d", &model, &level, &boundary); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		blocks++
		a := probe(t, byIndex(t, model), cluster.Rules{ProbeLevel: level, Boundary: boundary == 1, Compat: "1.19"})
		var got strings.Builder
		for _, k := range a.Keys() {
			fmt.Fprintf(&got, "  %s %d\n", &k, len(k.Members))
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%s:\n%s", head, diff)
		}
	}
	if blocks != 16 {
		t.Errorf("%d probe configs were compared, not 16", blocks)
	}
}

// facts is a table of keys.
func facts(a *cluster.Analysis) string {
	var out strings.Builder
	for _, k := range a.Keys() {
		fmt.Fprintf(&out, "%s %d %s\n", &k, len(k.Members), cluster.Formula(k.Saving))
	}
	return out.String()
}

// TestBloom: what ONNX Runtime's own test of a three-layer model expects, and
// its whole table, by its rules and by the mended ones.
func TestBloom(t *testing.T) {
	o := training(t, "onnxruntime/3layer_bloom_optimized_training")
	table := func(adds, norms int, more ...string) string {
		short := strings.NewReplacer("{S}", "inputs_attention_mask_dim1", "{B}", "inputs_input_ids_dim0")
		lines := append([]string{
			"Cast+Reshape+:1:-1 3 96.0*{S}**2*{B}",
			"Cast+Where+Softmax+:2:-1 3 96.0*{S}**2*{B}",
			"CumSum+Sub+Mul+Unsqueeze+Cast+Mul+Cast+Reshape+MatMul+Mul+Add+Reshape+Cast+Where+Softmax+:1:-1 2 128.0*{S}**2*{B}",
			"FastGelu+:1:-1 2 16384.0*{S}*{B}",
			fmt.Sprintf("LayerNormalization+:1:-1 %d {B}*(%d.0*{S} - 2056.0)", norms, 2056*norms),
			"MatMul+:1:-1 3 24576.0*{S}*{B}",
			fmt.Sprintf("MatMul+Add+Add+:1:-1 %d %d.0*{S}*{B}", adds, 2048*adds),
			"MatMul+Add+Reshape+Split+Squeeze+Transpose+Reshape+:1:-1 9 18432.0*{S}*{B}",
			"MatMul+Add+Slice+Reshape+Add+:1:-1 1 2048.0*{B}*({S} - 1)",
			"MatMul+Mul+CumSum+Sub+Mul+Unsqueeze+Cast+Mul+Cast+Reshape+Add+Reshape+Cast+Where+Softmax+:1:-1 1 64.0*{S}**2*{B}",
			"MatMul+Reshape+Transpose+Reshape+:1:-1 3 6144.0*{S}*{B}",
			"Slice+Reshape+:1:-1 1 8.0*{B}*({S} - 1)",
			"Transpose+:1:-1 13 589299712.000000",
		}, more...)
		slices.Sort(lines)
		return short.Replace(strings.Join(lines, "\n") + "\n")
	}
	for _, c := range []struct {
		what   string
		rules  cluster.Rules
		want   string
		layers bool
	}{
		{"upstream, boundaries", cluster.Rules{ProbeLevel: 1, Boundary: true, Compat: "1.19"}, table(3, 7, "FastGelu+Slice+Reshape+:1:-1 1 2.0*unknown"), true},
		{"upstream, none", cluster.Rules{ProbeLevel: 1, Compat: "1.19"}, table(5, 8, "FastGelu+Slice+Reshape+:1:-1 1 2.0*unknown"), false},
		{"mended, boundaries", cluster.Rules{Boundary: true}, table(3, 7, "FastGelu+Slice+Reshape+:1:-1 1 2.0*unknown"), true},
		{"mended, none", cluster.Rules{}, table(5, 8, "FastGelu+Slice+Reshape+:1:-1 1 2.0*unknown"), false},
	} {
		a := probe(t, o, c.rules)
		if diff := cmp.Diff(strings.Split(c.want, "\n"), strings.Split(facts(a), "\n")); diff != "" {
			t.Errorf("%s:\n%s", c.what, diff)
		}
		var layers []string
		for _, i := range a.Boundaries {
			layers = append(layers, o.Nodes[i].Name)
		}
		if want := "LayerNormalization_token_0 LayerNormalization_token_6 LayerNormalization_token_12"; (strings.Join(layers, " ") == want) != c.layers {
			t.Errorf("%s: boundaries are %v", c.what, layers)
		}
		if a.Yield+1 != 289 {
			t.Errorf("%s: %d forward nodes with the border, not 289", c.what, a.Yield+1)
		}
	}
	probed := facts(probe(t, o, cluster.Rules{Compat: "1.19"}))
	var ids []string
	for line := range strings.Lines(probed) {
		id, _, _ := strings.Cut(line, ":")
		ids = append(ids, id)
	}
	if got, want := strings.Join(ids, " "), "Cast+Reshape+ FastGelu+ FastGelu+Slice+Reshape+ Slice+Reshape+ Transpose+"; got != want {
		t.Errorf("at probe level 0: %s, not %s", got, want)
	}
}

// TestSmallGraphs: ONNX Runtime's tests of single operators.
func TestSmallGraphs(t *testing.T) {
	for _, c := range []struct{ file, compat, want string }{
		{"recompute_gelu", "1.19", "Gelu+:1:-1 1 2000.0*input1_dim0\nGemm+:1:-1 1 2000.0*input1_dim0\n"},
		{"recompute_gelu", "", "Gelu+:1:-1 1 2000.0*input1_dim0\nGemm+:1:-1 1 2000.0*input1_dim0\n"},
		{"recompute_tile", "1.19", "ConcatTraining+:1:-1 1 24.0000000000000\nExpand+Tile+:1:-1 1 4.0*input1_dim1*query_layer_dim0*query_layer_dim2\n"},
		// 24 bytes are not worth a plan.
		{"recompute_tile", "", "Expand+Tile+:1:-1 1 4.0*input1_dim1*query_layer_dim0*query_layer_dim2\n"},
	} {
		for level := range 2 {
			a := probe(t, training(t, "onnxruntime/"+c.file), cluster.Rules{ProbeLevel: level, Compat: c.compat})
			if got := facts(a); got != c.want {
				t.Errorf("%s, compat %q, level %d:\n%swant\n%s", c.file, c.compat, level, got, c.want)
			}
		}
	}
}
