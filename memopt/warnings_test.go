package memopt

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
)

// TestStoredStatistics: a model that is trained with the statistics of its evaluation is
// told so, and one that takes those of the batch is not.
func TestStoredStatistics(t *testing.T) {
	for mode, warned := range []bool{true, false} {
		g, err := graph.Parse(kernels.Library, fmt.Sprintf(`x f32[batch,3,4,4] = input
s f32[3] = param
b f32[3] = param
m f32[3] = param
v f32[3] = param
y = BatchNormalization(x, s, b, m, v) training_mode=%d @bn1
z = BatchNormalization(y, s, b, m, v) training_mode=%[1]d @bn2
l = ReduceMean(z) keepdims=0
output l
`, mode))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"s", "b", "m", "v"} {
			g.ByName(name).Data = graph.Bytes("\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40")
		}
		path := filepath.Join(t.TempDir(), "norm.onnx")
		if err := onnx.Write(path, g); err != nil {
			t.Fatal(err)
		}
		_, p := planned(t, path, settingsFor(t, map[string]string{"trainable": "s,b"}))
		is := slices.ContainsFunc(p.Warnings, func(w string) bool {
			return strings.HasPrefix(w, `node "bn1" and 1 more normalize with stored statistics`)
		})
		if is != warned {
			t.Errorf("training_mode=%d: %q", mode, p.Warnings)
		}
	}
}
