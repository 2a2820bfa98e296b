package memopt

import (
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
)

// TestNoLoss: a model that ends in scores says what could be added, and each of
// that can be.
func TestNoLoss(t *testing.T) {
	g, err := graph.Parse(kernels.Library, "x f32[batch,4] = input\nw f32[4,3] = param\ny = MatMul(x, w)\noutput y")
	if err != nil {
		t.Fatal(err)
	}
	g.ByName("w").Data = graph.Bytes(make([]byte, 4*12))
	path := filepath.Join(t.TempDir(), "scores.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	settings := func(loss string) (c configs.Config) {
		for name, value := range map[string]string{"dims": "batch=2", "loss": loss, "trainable": "w"} {
			if value == "" {
				continue
			}
			if err := c.Set(name, value, configs.Source{Origin: configs.OriginFlag, Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	_, err = Open(path, settings(""))
	if err == nil {
		t.Fatal("a model without a loss was opened")
	}
	_, list, _ := strings.Cut(err.Error(), "or a loss to add: ")
	names := strings.Split(list, ", ")
	if len(names) != len(kernels.Losses) {
		t.Errorf("the error names %d losses of %d: %v", len(names), len(kernels.Losses), err)
	}
	for _, name := range names {
		m, err := Open(path, settings(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := m.Plan(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
