package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:   "IsInf",
	Doc:    "whether x is ∞ (detect_positive) or −∞ (detect_negative)",
	In:     "X",
	Out:    "Y",
	Attrs:  "detect_negative int=1, detect_positive int=1",
	Infer:  question,
	NoGrad: true,
	Eval: func(c *graph.Call) {
		above, below := c.Node.Int("detect_positive") != 0, c.Node.Int("detect_negative") != 0
		answer(c, func(x float64) bool { return above && math.IsInf(x, 1) || below && math.IsInf(x, -1) })
	},
	Lower: lower.PointwiseOf("uint(abs(a) == uintBitsToFloat(0x7f800000) && (a > 0 ? p : q) != 0)", func(n *graph.Node) []float64 {
		return []float64{float64(n.Int("detect_positive")), float64(n.Int("detect_negative"))}
	}, graph.Bool, graph.Float32, graph.Float32, graph.Float32),
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	Samples:   []string{"f32[2,3]", "f64[]", "f32[3]; detect_negative=0", "f32[3]; detect_positive=0", "f32[0]"},
})
