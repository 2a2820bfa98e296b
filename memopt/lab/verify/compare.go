package verify

import (
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
)

// Tolerance of the ONNX project's node tests.
const (
	relative = 1e-3
	absolute = 1e-7
)

// units is the tolerance for 16-bit floats, in units of the last place. A thousandth is less than one such unit of
// bfloat16 and barely one of float16, so the tests' own tolerance leaves no room for other rounding, and the expected
// numbers were computed by rounding to 16 bits after every addition. Our kernels round less often. For float32 the
// unit is that of the output's largest number: where large numbers cancel to 0, the expected result is NumPy's
// rounding error.
const units = 2

// compare reports the first difference. loose says that an element is within units, but not within the tests'
// tolerance.
func compare(got, want []*graph.Tensor, outputs []*graph.Value) (loose bool, err error) {
	if len(got) != len(want) {
		return false, fmt.Errorf("%d outputs, not %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Type != w.Type || !slices.Equal(g.Shape, w.Shape) {
			return false, fmt.Errorf("output %q is %s%v, not %s%v", outputs[i].Name, g.Type, g.Shape, w.Type, w.Shape)
		}
		largest := greatest(w)
		for k := range w.Len() {
			if near(g, w, k) {
				continue
			}
			if distance(g, w, k, largest) > units {
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

// digits are the bits of the floats' significands.
var digits = map[graph.DType]int{graph.Float16: 11, graph.BFloat16: 8, graph.Float32: 24}

// distance is the difference of two numbers in units of the last place: of the wanted number, or for float32 of the
// output's largest number. It is infinite for other types.
func distance(got, want *graph.Tensor, k int, largest float64) float64 {
	n, has := digits[want.Type]
	w := want.Float(k)
	if !has || math.IsInf(w, 0) || math.IsNaN(w) || math.IsNaN(got.Float(k)) {
		return math.Inf(1)
	}
	size := w
	if want.Type == graph.Float32 {
		size = largest
	}
	_, e := math.Frexp(size)
	return math.Abs(got.Float(k)-w) / math.Ldexp(1, e-n)
}

// greatest is the largest finite magnitude in a float32 output.
func greatest(x *graph.Tensor) (size float64) {
	if x.Type == graph.Float32 {
		for _, v := range x.F32() {
			if v := math.Abs(float64(v)); v > size && !math.IsInf(v, 0) {
				size = v
			}
		}
	}
	return size
}

func show(x *graph.Tensor, k int) string {
	if x.Type.IsReal() {
		return fmt.Sprint(x.Float(k))
	}
	return fmt.Sprint(x.Int(k))
}
