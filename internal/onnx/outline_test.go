package onnx_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// TestOutline: files of ONNX Runtime's trainer, node for node with the forms of
// their opsets and the shapes that were recorded.
func TestOutline(t *testing.T) {
	for _, c := range []struct {
		file  string
		nodes int
		some  []string // lines that must be there
	}{
		{"onnxruntime/recompute_gelu", 10, []string{
			"Gelu_1 com.microsoft.Gelu-1 [com.microsoft::Gelu_5] [onnx::Gemm_6]",
			"Gemm_2 Gemm-13 [onnx::Gemm_6 _original_module.fc2.weight _original_module.fc2.bias] [data]",
			"com.microsoft::Gelu_5 f32[input1_dim0, 500]",
			"_original_module.fc1.weight f32[500, 784]",
		}},
		{"onnxruntime/3layer_bloom_optimized_training", 500, []string{
			"LayerNormalization_token_6 LayerNormalization-1",
		}},
		{"mlp", 88, []string{"LayerNormalization-17"}},
	} {
		o, err := onnx.ReadOutline(filepath.Join("..", "..", "memopt", "testdata", "ort", c.file+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Nodes) != c.nodes {
			t.Errorf("%s: %d nodes, not %d", c.file, len(o.Nodes), c.nodes)
		}
		has := map[string]bool{}
		for _, n := range o.Nodes {
			op := fmt.Sprintf("%s-%d", n.Op, n.Since)
			if n.Domain != "" {
				op = n.Domain + "." + op
			}
			has[op], has[n.Name+" "+op] = true, true
			has[fmt.Sprintf("%s %s %s %s", n.Name, op, n.Inputs, n.Outputs)] = true
		}
		for name, v := range o.Values {
			has[fmt.Sprintf("%s %s%s", name, v.Type, v.Shape)] = true
		}
		for _, line := range c.some {
			if !has[line] {
				t.Errorf("%s has no %q", c.file, line)
			}
		}
	}
}

// TestOutlineAttributes: what a node says of itself is there, in bytes that the
// file does not share.
func TestOutlineAttributes(t *testing.T) {
	o, err := onnx.ReadOutline(filepath.Join("..", "..", "memopt", "testdata", "ort", "mlp.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, n := range o.Nodes {
		for _, a := range n.Attrs {
			switch a.Value.(type) {
			case int64:
				kinds["int"] = true
			case float64:
				kinds["float"] = true
			case []int64:
				kinds["ints"] = true
			case string:
				kinds["string"] = true
			case *graph.Tensor:
				kinds["tensor"] = true
			}
		}
	}
	for _, kind := range []string{"int", "float", "ints", "string"} {
		if !kinds[kind] {
			t.Errorf("no attribute is of kind %s", kind)
		}
	}
}

// TestHostileOutline: broken files are errors.
func TestHostileOutline(t *testing.T) {
	for _, src := range []string{"", "\x3a", "\x3a\x03abc", "\x3a\x04\x0a\x02\x0a\x00"} {
		if _, err := onnx.OutlineOf([]byte(src), "bad.onnx"); err == nil {
			t.Errorf("%q is an outline", src)
		}
	}
	if _, err := onnx.ReadOutline(filepath.Join(t.TempDir(), "none.onnx")); err == nil {
		t.Error("a file that is not there is an outline")
	}
}
