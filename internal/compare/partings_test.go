package compare

import (
	"math"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// TestPartings: what is listed is where a difference begins, not what it comes to
// later.
func TestPartings(t *testing.T) {
	g, err := graph.Parse(kernels.Library, "x f32[4] = input\na = Relu(x)\nb = Add(a, x)\nc = Exp(x)\nd = Mul(b, c)\noutput d")
	if err != nil {
		t.Fatal(err)
	}
	side := func(changed map[string]float64) func(string) (*graph.Tensor, error) {
		return func(name string) (*graph.Tensor, error) {
			x := graph.NewTensor(graph.Float32, 4)
			for i := range x.Len() {
				x.SetFloat(i, float64(i+1))
			}
			x.SetFloat(2, 3+changed[name])
			return x, nil
		}
	}
	got, err := Partings(g, side(nil), side(map[string]float64{"a": 0.5, "b": 0.5, "c": 1e-5, "d": math.NaN()}), 1e-3)
	if err != nil || len(got) != 1 || got[0].Value != "a" || got[0].Op != "Relu" || got[0].Off != 1 || math.Abs(got[0].RelErr-0.5/math.Sqrt(1+4+3.5*3.5+16)) > 1e-6 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = Partings(g, side(nil), side(map[string]float64{"d": math.NaN()}), 1e-3); err != nil || len(got) != 1 || got[0].Value != "d" {
		t.Errorf("%+v, %v", got, err)
	}
}
