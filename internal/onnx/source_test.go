package onnx_test

import (
	"path/filepath"
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
)

// A source that is closed maps nothing any more, and who looks at its weights is
// told so. Its files are all that were read.
func TestSource(t *testing.T) {
	plain, _, err := onnx.Open(filepath.Join("..", "..", "memopt", "testdata", "models", "mlp", "model_dyn.onnx"), kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.Write(path, plain, onnx.External); err != nil {
		t.Fatal(err)
	}
	before := weights.Snapshot()
	g, source, err := onnx.Open(path, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := source.Files(), []string{path, path + ".data"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if weights.Snapshot().Mapped == before.Mapped {
		t.Error("nothing is mapped while the source is open")
	}
	source.Close()
	source.Close()
	if after := weights.Snapshot(); after.Mapped != before.Mapped || after.Blocks != before.Blocks {
		t.Errorf("closed: %+v, before it was opened: %+v", after, before)
	}
	i := slices.IndexFunc(g.Values, func(v *graph.Value) bool { return v.Data != nil })
	defer func() {
		if recover() == nil {
			t.Error("weights of a closed source are no panic")
		}
	}()
	g.Values[i].Data.Bytes()
}
