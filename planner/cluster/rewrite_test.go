package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/internal/graph"
	"memopt/planner/cluster"
)

// trainerSeed is what torch.manual_seed was given when the files under
// testdata/ort were recorded.
const trainerSeed = 99

// requests reads ID:type:count, separated by commas.
func requests(t *testing.T, text string) (list []cluster.Request) {
	t.Helper()
	for part := range strings.SplitSeq(text, ",") {
		f := strings.Split(part, ":")
		r := cluster.Request{ID: f[0]}
		var err1, err2 error
		r.Type, err1 = strconv.Atoi(f[1])
		r.Count, err2 = strconv.Atoi(f[2])
		if err1 != nil || err2 != nil {
			t.Fatalf("request %q", part)
		}
		list = append(list, r)
	}
	return list
}

// atLevel is what ONNX Runtime's level turns on.
func atLevel(t *testing.T, a *cluster.Analysis, level int) []cluster.Request {
	t.Helper()
	lines, err := a.Table(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Level(cluster.KeysOf(lines), level)
}

// nodeText is a node on one line: what ONNX Runtime's rewriting may change.
func nodeText(n graph.OutlineNode) string {
	op := n.Op
	if n.Domain != "" {
		op = n.Domain + "." + op
	}
	fields := []string{n.Name, op, strings.Join(n.Inputs, ","), strings.Join(n.Outputs, ",")}
	for _, a := range n.Attrs {
		if a.Name == "seed" {
			fields = append(fields, fmt.Sprintf("seed=%d", a.Value))
		}
	}
	return strings.Join(fields, "\t")
}

// changes lists the nodes of a rewritten program that the old one has not.
func changes(before, after *graph.Outline) []string {
	old := map[string]bool{}
	for _, n := range before.Nodes {
		old[nodeText(n)] = true
	}
	var lines []string
	for _, n := range after.Nodes {
		if line := nodeText(n); !old[line] {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestRewritten: under Compat, programs after levels and after settings are ONNX
// Runtime 1.19.2's, node for node: names, operators, inputs, outputs and seeds.
func TestRewritten(t *testing.T) {
	for model, count := range map[string]int{"mlp": 6, "gpt2": 6, "bert": 5} {
		src, err := os.ReadFile("testdata/ort/" + model + ".rewritten.txt")
		if err != nil {
			t.Fatal(err)
		}
		a := probe(t, byIndex(t, model), cluster.Rules{ProbeLevel: 1, Boundary: true, Compat: "1.19"})
		plain := probe(t, byIndex(t, model), cluster.Rules{ProbeLevel: 1, Compat: "1.19"})
		var last []string
		blocks := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n\n")
		if len(blocks) != count {
			t.Errorf("%s: %d cases, not %d", model, len(blocks), count)
		}
		for _, block := range blocks {
			head, rest, _ := strings.Cut(block, "\n")
			want := strings.Split(rest, "\n")
			switch {
			case rest == "":
				want = nil
			case rest == "as level 1":
				want = last
			}
			slices.Sort(want)
			var after *graph.Outline
			if level, ok := strings.CutPrefix(head, "case level "); ok {
				n, _ := strconv.Atoi(level)
				after = cluster.Rewrite(a, a.Choose(atLevel(t, a, n)).Choices, trainerSeed)
				last = want
			} else {
				after = cluster.Rewrite(plain, plain.Choose(requests(t, strings.TrimPrefix(head, "case config "))).Choices, trainerSeed)
			}
			if diff := cmp.Diff(want, changes(a.Outline, after)); diff != "" {
				t.Errorf("%s, %s:\n%s", model, head, diff)
			}
		}
	}
}

// TestExecuted: programs rewritten at level 1 run in the order in which ONNX
// Runtime 1.19.2 ran them, in every position.
func TestExecuted(t *testing.T) {
	for _, model := range []string{"mlp", "gpt2", "bert"} {
		src, err := os.ReadFile("testdata/ort/" + model + ".order.txt")
		if err != nil {
			t.Fatal(err)
		}
		a := probe(t, byIndex(t, model), cluster.Rules{ProbeLevel: 1, Boundary: true, Compat: "1.19"})
		after := cluster.Rewrite(a, a.Choose(atLevel(t, a, 1)).Choices, trainerSeed)
		order, err := cluster.MemoryEfficientOrder(after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range order {
			if after.Nodes[i].Op != "YieldOp" {
				got = append(got, after.Nodes[i].Name)
			}
		}
		if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(src)), "\n"), got); diff != "" {
			t.Errorf("%s:\n%s", model, diff)
		}
	}
}

// TestSmallRewrites: what ONNX Runtime's own tests of single operators expect.
func TestSmallRewrites(t *testing.T) {
	for _, c := range []struct {
		file, asked string
		ops         map[string]int // how many there are then
		reads       [][3]string    // node, its input, who makes that; "" for the file
	}{
		{"recompute_gelu", "Gelu+:1:-1", map[string]int{"Gemm": 5, "Gelu": 2, "YieldOp": 1, "ReduceSum": 2, "GeluGrad": 1},
			[][3]string{{"Gelu_1_recompute", "com.microsoft::Gelu_5", "Gemm_0"}}},
		{"recompute_gelu", "Gelu+:1:-1,Gemm+:1:-1", map[string]int{"Gemm": 6, "Gelu": 2, "GeluGrad": 1},
			[][3]string{{"Gelu_1_recompute", "com.microsoft::Gelu_5_recompute", "Gemm_0_recompute"},
				{"Gelu_1_Grad/GeluGrad_0", "com.microsoft::Gelu_5_recompute", "Gemm_0_recompute"},
				{"Gemm_2", "onnx::Gemm_6", "Gelu_1"}}},
		{"recompute_tile", "Expand+Tile+:1:-1", map[string]int{"Tile": 2, "Expand": 2, "FusedMatMul": 3, "YieldOp": 1}, nil},
	} {
		o := training(t, "onnxruntime/"+c.file)
		for _, compat := range []string{"1.19", ""} {
			a := probe(t, o, cluster.Rules{ProbeLevel: 1, Compat: compat})
			after := cluster.Rewrite(a, a.Choose(requests(t, c.asked)).Choices, 0)
			ops, maker, node := map[string]int{}, map[string]graph.OutlineNode{}, map[string]graph.OutlineNode{}
			for _, n := range after.Nodes {
				ops[n.Op]++
				node[n.Name] = n
				for _, out := range n.Outputs {
					maker[out] = n
				}
			}
			for op, n := range c.ops {
				if ops[op] != n {
					t.Errorf("%s, %s, compat %q: %d %s, not %d", c.file, c.asked, compat, ops[op], op, n)
				}
			}
			for _, r := range c.reads {
				if !slices.Contains(node[r[0]].Inputs, r[1]) || maker[r[1]].Name != r[2] {
					t.Errorf("%s, %s, compat %q: %s reads %v, not %s of %s", c.file, c.asked, compat, r[0], node[r[0]].Inputs, r[1], r[2])
				}
			}
			if c.file != "recompute_tile" {
				continue
			}
			// The gradient of the query reads the copy; it is made of a copy of the
			// Expand, which reads what the original reads.
			tile := maker[maker["query_layer_grad"].Inputs[1]]
			expand := maker[tile.Inputs[0]]
			if tile.Op != "Tile" || tile.Of < 0 || expand.Op != "Expand" || expand.Of < 0 || expand.Inputs[0] != o.Nodes[expand.Of].Inputs[0] {
				t.Errorf("compat %q: the gradient reads %s, made of %s", compat, tile.Name, expand.Name)
			}
		}
	}
}
