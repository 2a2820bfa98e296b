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

// compare names the first difference.
func compare(got, want []*graph.Tensor, outputs []*graph.Value) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d outputs, not %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Type != w.Type || !slices.Equal(g.Shape, w.Shape) {
			return fmt.Errorf("output %q is %s%v, not %s%v", outputs[i].Name, g.Type, g.Shape, w.Type, w.Shape)
		}
		for k := range w.Len() {
			if !near(got[i], w, k) {
				return fmt.Errorf("output %q, element %d is %s, not %s", outputs[i].Name, k, show(got[i], k), show(w, k))
			}
		}
	}
	return nil
}

func near(got, want *graph.Tensor, k int) bool {
	if !want.Type.IsFloat() {
		return got.Int(k) == want.Int(k)
	}
	g, w := got.Float(k), want.Float(k)
	return g == w || math.IsNaN(g) && math.IsNaN(w) || !math.IsInf(w, 0) && math.Abs(g-w) <= absolute+relative*math.Abs(w)
}

func show(x *graph.Tensor, k int) string {
	if x.Type.IsFloat() {
		return fmt.Sprint(x.Float(k))
	}
	return fmt.Sprint(x.Int(k))
}
