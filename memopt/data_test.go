package memopt

import (
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/tensorfile"
	"memopt/memopt/feed"
	"memopt/memopt/lab/zoo"
)

// TestEmptyData: no dim has the size 0, so an array without rows is told as that, and
// no dims are said to fit it.
func TestEmptyData(t *testing.T) {
	model, _ := madeGPT(t, zoo.Spec{Family: "mlp", Width: 8, Inputs: 4, Classes: 3})
	m, err := Open(model, settingsFor(t, map[string]string{}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := graph.Bind(map[string]int64{"batch": 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range [][]int{{0, 4}, {4, 0}, {0, 7}} {
		data := &tensorfile.Set{Names: []string{"x"}, Tensors: map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, shape...)}}
		_, err := feed.New(m.Graph, b, data, 0)
		if err == nil || !strings.Contains(err.Error(), "which holds nothing; the model takes [4 4] or more rows") || strings.Contains(err.Error(), "--dims") {
			t.Errorf("an array of shape %v: %v", shape, err)
		}
	}
}
