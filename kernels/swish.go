package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

var _ = defineActivation(swish("Swish", "", 24, "alpha float=1"))

// QuickGelu is ONNX Runtime's older name of Swish, with another default.
var _ = defineActivation(swish("QuickGelu", microsoft, 0, "alpha float=1.702"))

func swish(name, domain string, since int, attrs string) activation {
	return activation{
		name:   name,
		domain: domain,
		since:  since,
		doc:    "y = x·sigmoid(alpha·x)",
		attrs:  attrs,
		f: func(n *graph.Node) func(float64) float64 {
			alpha := n.Float("alpha")
			return func(x float64) float64 { return x * sigmoid(alpha*x) }
		},
		slope: func(n *graph.Node) func(float64) float64 {
			alpha := n.Float("alpha")
			return func(x float64) float64 {
				s := sigmoid(alpha * x)
				return s + alpha*x*s*(1-s)
			}
		},
		ofOrt: domain == microsoft,
		fast: func(n *graph.Node) func(y, x []float32) {
			alpha := float32(n.Float("alpha"))
			return func(y, x []float32) { f32.Swish(y, x, alpha) }
		},
		fastSlope: func(n *graph.Node) func(dx, dy, x []float32) {
			alpha := float32(n.Float("alpha"))
			return func(dx, dy, x []float32) { f32.SwishSlope(dx, dy, x, alpha) }
		},
		shader:      "a * sigmoidOf(p * a)",
		shaderSlope: "sigmoidOf(p * b) * (T(1) + p * b * (T(1) - sigmoidOf(p * b)))",
		numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha")} },
		flops:       14,
		samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[37]; alpha=1.5", "f32[0,2]"},
	}
}
