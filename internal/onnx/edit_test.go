package onnx_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
)

// TestWriteEdited: a file that is written back as it is has the same outline and
// the same graph; with a copied node it has that copy beside, recorded like the
// original, and is otherwise what it was.
func TestWriteEdited(t *testing.T) {
	for _, c := range []struct{ file, newer string }{{"mlp", ""}, {"gpt2", ""},
		{"onnxruntime/3layer_bloom_optimized_training", "Identity LayerNormalization ScatterND Where"}} {
		file := c.file
		from := filepath.Join("..", "..", "memopt", "testdata", "ort", file+".onnx")
		o, err := onnx.ReadOutline(from)
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int, len(o.Nodes))
		for i := range order {
			order[i] = i
		}
		to := filepath.Join(t.TempDir(), "back.onnx")
		write := func(o *graph.Outline, order []int) (*graph.Outline, *graph.Graph) {
			t.Helper()
			if strange, err := onnx.WriteEdited(to, from, o, order); err != nil || strange != nil {
				t.Fatal(strange, err)
			}
			back, err := onnx.ReadOutline(to)
			if err != nil {
				t.Fatal(err)
			}
			g, _, err := onnx.Open(to, kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			return back, g
		}
		same, g := write(o, order)
		// The three-layer model has norms that its opset has not: it says the next
		// that has, by which three operators have another form that takes more.
		newer := map[string]bool{}
		unraised := func(o *graph.Outline, back *graph.Outline, at func(i int) int) {
			for i := range o.Nodes {
				if n := &back.Nodes[at(i)]; n.Since != o.Nodes[i].Since {
					newer[n.Op], n.Since = true, o.Nodes[i].Since
				}
			}
		}
		unraised(o, same, func(i int) int { return i })
		if got := strings.Join(slices.Sorted(maps.Keys(newer)), " "); got != c.newer {
			t.Errorf("%s: other forms of %s", file, got)
		}
		if diff := cmp.Diff(o, same, cmp.Comparer(graph.Dim.Equal)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		want, _, err := onnx.Open(from, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		if g.String() != want.String() {
			t.Errorf("%s: another graph", file)
		}

		// The loss is computed a second time, by a copy that the file has before it.
		i := slices.IndexFunc(o.Nodes, func(n graph.OutlineNode) bool { return n.Op == "MatMul" || n.Op == "FusedMatMul" || n.Op == "Gemm" })
		edited := &graph.Outline{Nodes: slices.Clone(o.Nodes), Values: maps.Clone(o.Values), Inputs: o.Inputs, Outputs: o.Outputs}
		n := o.Nodes[i]
		n.Name, n.Of, n.Outputs = n.Name+"_again", i, []string{n.Outputs[0] + "_again"}
		n.Attrs = append(slices.Clone(n.Attrs), graph.Attr{Name: "note", Value: int64(7)})
		edited.Nodes = append(edited.Nodes, n)
		back, err := writeOutline(to, from, edited, slices.Insert(slices.Clone(order), i, len(order)))
		if err != nil {
			t.Fatal(err)
		}
		copied := back.Nodes[i]
		unraised(o, back, func(k int) int {
			if k >= i {
				k++
			}
			return k
		})
		if copied.Name != n.Name || copied.Outputs[0] != n.Outputs[0] || !slices.Equal(copied.Inputs, n.Inputs) || len(copied.Attrs) != len(n.Attrs) {
			t.Errorf("%s: the copy is %+v", file, copied)
		}
		if old, now := o.Values[o.Nodes[i].Outputs[0]], back.Values[n.Outputs[0]]; old.Known && (!now.Known || now.Type != old.Type || !now.Shape.Equal(old.Shape)) {
			t.Errorf("%s: the copy's value is %+v, the original's %+v", file, now, old)
		}
		if len(back.Nodes) != len(o.Nodes)+1 || !cmp.Equal(slices.Delete(slices.Clone(back.Nodes), i, i+1), o.Nodes) {
			t.Errorf("%s: other nodes changed", file)
		}
	}
}

func writeOutline(to, from string, o *graph.Outline, order []int) (*graph.Outline, error) {
	if _, err := onnx.WriteEdited(to, from, o, order); err != nil {
		return nil, err
	}
	return onnx.ReadOutline(to)
}

// TestWriteEditedKeeps: weights, their bytes, metadata and whatever else no
// outline tells are there as before, byte for byte.
func TestWriteEditedKeeps(t *testing.T) {
	g, err := zoo.New(zoo.Spec{Family: "mlp"}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a.onnx"), filepath.Join(dir, "b.onnx")
	if err := onnx.Write(from, g); err != nil {
		t.Fatal(err)
	}
	rewrite := func() error {
		o, err := onnx.ReadOutline(from)
		if err != nil {
			return err
		}
		order := make([]int, len(o.Nodes))
		for i := range order {
			order[i] = i
		}
		_, err = onnx.WriteEdited(to, from, o, order)
		return err
	}
	if err := rewrite(); err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(from)
	b, errB := os.ReadFile(to)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%d bytes became %d others (%v, %v)", len(a), len(b), errA, errB)
	}

	// Weights beside the file stay there: only its own folder will do.
	if err := onnx.Write(from, g, onnx.External); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := onnx.Open(to, kernels.Library); err != nil {
		t.Error(err)
	}
	to = filepath.Join(t.TempDir(), "b.onnx")
	if err := rewrite(); err == nil || !strings.Contains(err.Error(), "write to that folder") {
		t.Errorf("weights were left behind: %v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("the file is there all the same")
	}
	if _, err := onnx.WriteEdited(to, filepath.Join(dir, "none.onnx"), &graph.Outline{}, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	if _, err := onnx.WriteEdited(filepath.Join(dir, "c.onnx"), from, &graph.Outline{}, nil); err == nil || !strings.Contains(err.Error(), "nodes, but the outline has 0") {
		t.Error(err)
	}
}
