package memopt

import (
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/memopt/feed"
)

// TestDimHints: what is to be pasted into a shell is one word there, whatever a dim is
// called, and the same name is found in data.
func TestDimHints(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32["b t", 4] = input
w f32[4, 4] = param
h = MatMul(x, w)
s = ReduceMean(h) keepdims=0
output s
`)
	if err != nil {
		t.Fatal(err)
	}
	w := graph.NewTensor(graph.Float32, 4, 4)
	for i := range w.Len() {
		w.SetFloat(i, float64(i)/3)
	}
	g.ByName("w").Data = graph.Bytes(w.Bytes)
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.Write(path, g); err != nil {
		t.Fatal(err)
	}
	c := configs.Merge()
	m, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Plan(); err == nil || !strings.HasSuffix(err.Error(), `need sizes; say --dims 'b t=N'`) {
		t.Errorf("without sizes: %v", err)
	}
	c.Dims = map[string]int64{"b t": 64}
	c.Budget.Bytes = 1500
	if m, err = Open(path, c); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Plan(); err == nil || !strings.Contains(err.Error(), `would fit: --dims 'b t=`) {
		t.Errorf("a budget that cannot be met: %v", err)
	}
	b, err := graph.Bind(c.Dims)
	if err != nil {
		t.Fatal(err)
	}
	data := &tensorfile.Set{Names: []string{"x"}, Tensors: map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, 8, 4)}}
	if _, err := feed.New(m.Graph, b, data, 0); err == nil || !strings.HasSuffix(err.Error(), `; with --dims 'b t=8' it would fit`) {
		t.Errorf("data of another size: %v", err)
	}
	if dims := feed.Sizes(m.Graph, data, nil); dims["b t"] != 8 {
		t.Errorf("the sizes of the data are %v", dims)
	}
}
