package verify

import (
	"fmt"
	"math"
	"slices"

	"memopt/memopt/graph"
)

// The tolerance of the ONNX project's node tests.
const (
	relative = 1e-3
	absolute = 1e-7
)

// units is the tolerance of 16-bit floats, in units of the last place. A
// thousandth is less than one such unit of bfloat16 and one of float16, so the
// tests' own tolerance asks for their bits, and these are of arithmetic that
// rounds to 16 bits after every addition. Ours rounds less.
const units = 2

// compare names the first difference. What is within units but not within the
// tests' tolerance is loose.
func compare(got, want []*graph.Tensor, outputs []*graph.Value) (loose bool, err error) {
	if len(got) != len(want) {
		return false, fmt.Errorf("%d outputs, not %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Type != w.Type || !slices.Equal(g.Shape, w.Shape) {
			return false, fmt.Errorf("output %q is %s%v, not %s%v", outputs[i].Name, g.Type, g.Shape, w.Type, w.Shape)
		}
		for k := range w.Len() {
			if near(g, w, k) {
				continue
			}
			if distance(g, w, k) > units {
				return false, fmt.Errorf("output %q, element %d is %s, not %s", outputs[i].Name, k, show(g, k), show(w, k))
			}
			loose = true
		}
	}
	return loose, nil
}

func near(got, want *graph.Tensor, k int) bool {
	if !want.Type.IsReal() {
		return got.Int(k) == want.Int(k)
	}
	g, w := got.Float(k), want.Float(k)
	return g == w || math.IsNaN(g) && math.IsNaN(w) || !math.IsInf(w, 0) && math.Abs(g-w) <= absolute+relative*math.Abs(w)
}

// digits of the 16-bit floats' significands.
var digits = map[graph.DType]int{graph.Float16: 11, graph.BFloat16: 8}

// distance is that of 16-bit floats in units of the last place of what is
// wanted; others are infinitely far off.
func distance(got, want *graph.Tensor, k int) float64 {
	n, half := digits[want.Type]
	w := want.Float(k)
	if !half || math.IsInf(w, 0) || math.IsNaN(w) || math.IsNaN(got.Float(k)) {
		return math.Inf(1)
	}
	_, e := math.Frexp(w)
	return math.Abs(got.Float(k)-w) / math.Ldexp(1, e-n)
}

func show(x *graph.Tensor, k int) string {
	if x.Type.IsReal() {
		return fmt.Sprint(x.Float(k))
	}
	return fmt.Sprint(x.Int(k))
}
