package memopt

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/forward"
)

// TestQuantizeOlderOpsets: a model whose opset has no quantized operators is quantized all the same, with the same
// weights, and read back.
func TestQuantizeOlderOpsets(t *testing.T) {
	ctx := context.Background()
	for _, model := range []string{"mlp", "conv"} {
		path := filepath.Join("quantize", "testdata", model+".onnx")
		d, err := onnx.OpenDraft(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		d.Opsets[""] = 9
		dir := t.TempDir()
		old, to := filepath.Join(dir, "old.onnx"), filepath.Join(dir, "q.onnx")
		if err := d.Save(old); err != nil {
			t.Fatal(err)
		}
		d.Close()
		want, err := forward.Quantize(ctx, path, filepath.Join(dir, "new.onnx"), configs.Default())
		if err != nil {
			t.Fatal(err)
		}
		q, err := forward.Quantize(ctx, old, to, configs.Default())
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Tensors) != len(want.Tensors) || q.WorstError != want.WorstError {
			t.Errorf("%s: %d tensors, moved by %g; of the later opset %d, by %g", model, len(q.Tensors), q.WorstError, len(want.Tensors), want.WorstError)
		}
		if len(q.Warnings) != 1 || !strings.Contains(q.Warnings[0], "is for opset 9") {
			t.Errorf("warnings: %q", q.Warnings)
		}
		_, source, err := onnx.Open(to, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		source.Close()
	}
}
