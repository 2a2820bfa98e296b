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
// rounds to 16 bits after every addition. Ours rounds less. For float32 it is in
// units of the last place of the output's greatest number: where a sum of numbers of
// that size is 0, the tests' numbers are what NumPy's rounding leaves.
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

// digits of the floats' significands.
var digits = map[graph.DType]int{graph.Float16: 11, graph.BFloat16: 8, graph.Float32: 24}

// distance is that of two numbers in units of the last place: of what is wanted, or for
// float32 of the output's greatest number. Other types are infinitely far off.
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

// greatest is the size of a float32 output's greatest number.
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
