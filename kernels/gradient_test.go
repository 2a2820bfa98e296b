package kernels

import (
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestGradientOf builds Gradient by hand: of a product with a second use, of an
// intermediate value, and of what y does not depend on.
func TestGradientOf(t *testing.T) {
	g, err := graph.Parse(Library, `
		x f64[2] = input
		w f64[2] = input
		unused f64[3] = input
		h = Mul(x, x)
		y = Mul(h, w)
		output y
	`)
	if err != nil {
		t.Fatal(err)
	}
	of := func(names ...string) (in []*graph.Value) {
		for _, n := range names {
			in = append(in, g.ByName(n))
		}
		return in
	}
	op := Library.Find(previewTraining, "Gradient", 1)
	gradients := func(y string, xs ...string) ([]*graph.Value, error) {
		attrs := []graph.Attr{{Name: "xs", Value: xs}, {Name: "y", Value: y}}
		return graph.NewBuilder(g).Node(op, "", attrs, of(xs...), make([]string, len(xs)))
	}
	direct, err := gradients("y", "x", "w", "unused")
	if err != nil {
		t.Fatal(err)
	}
	through, err := gradients("y", "h")
	if err != nil {
		t.Fatal(err)
	}
	second, err := gradients(direct[0].Name, "x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := Interpret(g, b, map[string]*graph.Tensor{
		"x": graph.TensorOf(graph.Float64, []float64{3, -2}, 2), "w": graph.TensorOf(graph.Float64, []float64{5, 7}, 2),
		"unused": graph.NewTensor(graph.Float64, 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		v    *graph.Value
		want []float64
	}{
		{"dy/dx = 2xw", direct[0], []float64{30, -28}},
		{"dy/dw = x²", direct[1], []float64{9, 4}},
		{"dy/dunused", direct[2], []float64{0, 0, 0}},
		{"dy/dh = w", through[0], []float64{5, 7}},
		{"d²y/dx² = 2w", second[0], []float64{10, 14}},
	} {
		for k, want := range test.want {
			if got := values[test.v.ID].Float(k); got != want {
				t.Errorf("%s: element %d is %v, not %v", test.name, k, got, want)
			}
		}
	}
	if _, err := gradients("nothing", "x"); err == nil || !strings.Contains(err.Error(), "not computed before this node") {
		t.Errorf("got %v", err)
	}
}
