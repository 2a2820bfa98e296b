package f32

import (
	"math"
	"memopt/internal/graph"
	"testing"
)

// TestWiden: every 16-bit float, as tensors read it.
func TestWiden(t *testing.T) {
	for _, f := range []struct {
		is    graph.DType
		widen func(uint16) float32
	}{{graph.Float16, WidenHalf}, {graph.BFloat16, WidenBrain}} {
		x := graph.NewTensor(f.is, 1<<16)
		bits := graph.View[uint16](x)
		for i := range bits {
			bits[i] = uint16(i)
			want, got := x.Float(i), float64(f.widen(uint16(i)))
			if math.Float64bits(want) != math.Float64bits(got) && !(math.IsNaN(want) && math.IsNaN(got)) {
				t.Fatalf("%s %#x is %v, not %v", f.is, i, got, want)
			}
		}
	}
}
