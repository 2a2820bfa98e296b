package kernels

import (
	"memopt/internal/graph"
)

var _ = defineActivation(activation{
	name:  "HardSigmoid",
	doc:   "y = max(0, min(1, alpha·x + beta))",
	attrs: "alpha float=0.2, beta float=0.5",
	f: func(n *graph.Node) func(float64) float64 {
		alpha, beta := n.Float("alpha"), n.Float("beta")
		return func(x float64) float64 { return max(0, min(1, alpha*x+beta)) }
	},
	slope: func(n *graph.Node) func(float64) float64 {
		alpha := n.Float("alpha")
		return func(y float64) float64 {
			if y > 0 && y < 1 {
				return alpha
			}
			return 0
		}
	},
	fromY:       true,
	shader:      "greatest(least(p * a + q, T(1)), T(0))",
	shaderSlope: "choose(gt(b, T(0)), T(1), T(0)) * choose(lt(b, T(1)), T(p), T(0))",
	numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha"), n.Float("beta")} },
	flops:       4,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=0.6 beta=0.1"},
	kinks:       "0, 0.5, 1", // of y
})
