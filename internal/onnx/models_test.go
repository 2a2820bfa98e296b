package onnx_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
)

// exports has PyTorch's exports.
const exports = "../../memopt/testdata/models"

// models are small training models as exporters write them; what is known of
// each is how many nodes are left, its names of dims and its parameters, of which
// running statistics and numbers of the program are none.
var models = []struct {
	file          string
	dims          string
	nodes, params int
	updates       int
}{
	{"mlp/model", "", 6, 6, 0},
	{"mlp/model_dyn", "batch", 6, 6, 0},
	{"gpt2-2L/model_dyn", "batch seq", 135, 28, 0},
	{"resnet8/model", "", 31, 29, 18},
}

func TestModels(t *testing.T) {
	for _, m := range models {
		t.Run(m.file, func(t *testing.T) {
			path := filepath.Join(exports, m.file+".onnx")
			g, _, err := onnx.Open(path, kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(g.Names(), " "); got != m.dims {
				t.Errorf("dims are %q, not %q", got, m.dims)
			}
			params := 0
			for _, v := range g.Values {
				if v.Kind == graph.Param {
					params++
				}
			}
			if len(g.Nodes) != m.nodes || params != m.params || len(g.Updates) != m.updates {
				t.Errorf("%d nodes, %d params and %d updates, not %d, %d and %d",
					len(g.Nodes), params, len(g.Updates), m.nodes, m.params, m.updates)
			}
			if g.Loss == nil || g.Loss.Name != "loss" {
				t.Errorf("loss is %v", g.Loss)
			}
			if err := g.CheckTypes(); err != nil {
				t.Error(err)
			}
			var file bytes.Buffer
			if err := onnx.Encode(&file, g); err != nil {
				t.Fatal(err)
			}
			back, err := onnx.Parse(file.Bytes(), "back.onnx", kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.String(), back.String()); diff != "" {
				t.Errorf("after writing and reading (-before +after):\n%s", diff)
			}
		})
	}
}

// FuzzModels changes bytes of real models, so that operators see what their
// authors did not think of.
func FuzzModels(f *testing.F) {
	for _, file := range []string{exports + "/mlp/model.onnx", exports + "/mlp/model_dyn.onnx",
		"../../memopt/testdata/ort/mlp.onnx", "../../memopt/testdata/ort/resnet.onnx", "../../memopt/testdata/ort/onnxruntime/recompute_tile.onnx"} {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := onnx.Parse(b, "m.onnx", kernels.Library)
		if err == nil {
			err = g.CheckTypes()
		}
		if err != nil && !strings.HasPrefix(err.Error(), "m.onnx: ") {
			t.Error(err)
		}
	})
}
