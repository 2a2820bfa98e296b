package autograd_test

import (
	"fmt"
	"slices"
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/graph"
)

// TestTrainable: initializers that are parameters, and those that are masks and
// numbers, by their shapes and contents.
func TestTrainable(t *testing.T) {
	for _, c := range []struct {
		what, shape string
		numbers     []float64 // over and over
		want        bool
	}{
		{"a number", "", []float64{2}, false},
		{"a weight", "8,4", []float64{0.1, -0.2, 0}, true},
		{"a bias that begins at zero", "8", []float64{0}, true},
		{"a norm's scale", "8", []float64{1}, true},
		{"a matrix that begins at zero", "8,4", []float64{0}, true},
		{"a causal mask", "1,1,4,4", []float64{0, 1}, false},
		{"a mask that hides nothing", "1,1,4,4", []float64{0}, false},
		{"a mask of infinities", "4,4", []float64{0, -1e38}, false},
		{"a gain for each channel that begins at zero", "8,1,1,1", []float64{0}, true},
		{"one for each channel of an image", "1,8,1,1", []float64{0}, true},
	} {
		g, err := graph.Parse(kernels.Library, fmt.Sprintf("x f32[8,4] = input\nw f32[%s] = param\ny = Mul(x, x)\noutput y", c.shape))
		if err != nil {
			t.Fatal(err)
		}
		w := g.ByName("w")
		n, _ := w.Shape.Elems().Const()
		x := graph.NewTensor(graph.Float32, int(n))
		for i := range x.Len() {
			x.SetFloat(i, c.numbers[i%len(c.numbers)])
		}
		w.Data = graph.Bytes(x.Bytes)
		params, err := autograd.Trainable(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(params, w); got != c.want {
			t.Errorf("%s [%s] is trained: %v", c.what, c.shape, got)
		}
	}
}
