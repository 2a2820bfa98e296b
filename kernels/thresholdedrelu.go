package kernels

import (
	"memopt/internal/graph"
)

var _ = defineActivation(activation{
	name:  "ThresholdedRelu",
	doc:   "y = x where x > alpha, else 0",
	attrs: "alpha float=1",
	f: func(n *graph.Node) func(float64) float64 {
		alpha := n.Float("alpha")
		return func(x float64) float64 {
			if x > alpha {
				return x
			}
			return 0
		}
	},
	slope: func(n *graph.Node) func(float64) float64 {
		alpha := n.Float("alpha")
		return func(x float64) float64 {
			if x > alpha {
				return 1
			}
			return 0
		}
	},
	shader:      "choose(gt(a, T(p)), a, T(0))",
	shaderSlope: "choose(gt(b, T(p)), T(1), T(0))",
	numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha")} },
	flops:       1,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=-0.3"},
	kinks:       "0, 1, 2",
})
