package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

var _ = define(graph.Op{
	Name:  "DynamicQuantizeLinear",
	Since: 11,
	Doc:   "x quantized to u8, with a scale and zero point that cover its range and 0",
	In:    "x",
	Out:   "y, y_scale, y_zero_point",
	Infer: func(n *graph.Node) {
		wantType(n, 0, func(t graph.DType) bool { return t == graph.Float32 }, "float32")
		n.Set(0, graph.Uint8, n.Inputs[0].Shape)
		n.Set(1, graph.Float32, graph.Shape{})
		n.Set(2, graph.Uint8, graph.Shape{})
	},
	NoGrad: true,
	Eval:   func(c *graph.Call) { dynamicQuantize(c, f32.Serial) },
	Fast:   func(c *graph.Call) { dynamicQuantize(c, c.Parallel) },
	Flops:  func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems().Mul(graph.Num(6)) },
	Tests:  graph.Tests{Work: eachIn(0, 6)},

	Recompute: graph.Cheap,
	Samples:   []string{"f32[3,4]", "f32[5]>0", "f32{-1,-2}", "f32{0,0}", "f32[0]", "f32[]"},
})

// dynamicQuantize rounds to float32 where ONNX's definition does. ONNX leaves the scale of
// an all-zero input undefined; here it is 1, as in ONNX Runtime.
func dynamicQuantize(c *graph.Call, par f32.Parallel) {
	x := c.In[0].F32()
	least, most := float32(0), float32(0)
	for _, v := range x {
		least, most = min(least, v), max(most, v)
	}
	scale := (most - least) / 255
	if scale == 0 {
		scale = 1
	}
	zero := math.RoundToEven(max(0, min(255, float64(0-least/scale))))
	y := c.Out[0].Bytes
	par(len(x), f32.Grain/4, func(lo, hi int) {
		for i, v := range x[lo:hi] {
			y[lo+i] = byte(toInt(graph.Uint8, math.RoundToEven(float64(v/scale))+zero))
		}
	})
	if s := output(c, 1); s != nil {
		s.SetFloat(0, float64(scale))
	}
	if z := output(c, 2); z != nil {
		z.SetFloat(0, zero)
	}
}
