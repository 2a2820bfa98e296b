package kernels

import (
	"fmt"
	"math"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// TestSafeSoftmax: a row masked whole is 0, as Softmax, IsNaN and Where make
// it; the others do not notice.
func TestSafeSoftmax(t *testing.T) {
	off := float32(math.Inf(-1))
	x := []float32{off, off, off, 0, off, 0, float32(math.NaN()), 1, 2}
	g, err := graph.Parse(Library, "x f32[3, 3] = input\ny = memopt.SafeSoftmax(x)\noutput y\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(*graph.Call){"Eval": g.Nodes[0].Op.Eval, "Fast": g.Nodes[0].Op.Fast} {
		y := graph.NewTensor(graph.Float32, 3, 3)
		run(&graph.Call{Node: g.Nodes[0], Parallel: f32.Serial, In: []*graph.Tensor{graph.TensorOf(graph.Float32, x, 3, 3)}, Out: []*graph.Tensor{y}})
		if got := fmt.Sprint(y.F32()); got != "[0 0 0 0.5 0 0.5 0 0 0]" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
