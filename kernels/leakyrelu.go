package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

var _ = defineActivation(activation{
	name:  "LeakyRelu",
	doc:   "y = x, or alpha·x where x < 0",
	attrs: "alpha float=0.01",
	f: func(n *graph.Node) func(float64) float64 {
		alpha := n.Float("alpha")
		return func(x float64) float64 {
			if x < 0 {
				return alpha * x
			}
			return x
		}
	},
	slope: func(n *graph.Node) func(float64) float64 {
		alpha := n.Float("alpha")
		return func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return alpha
		}
	},
	fast: func(n *graph.Node) func(y, x []float32) {
		alpha := float32(n.Float("alpha"))
		return func(y, x []float32) {
			for i, v := range x {
				y[i] = f32.Choose(v < 0, v*alpha, v)
			}
		}
	},
	shader:      "choose(lt(a, T(0)), p * a, a)",
	shaderSlope: "choose(gt(b, T(0)), T(1), T(p))",
	numbers:     func(n *graph.Node) []float64 { return []float64{n.Float("alpha")} },
	flops:       1,
	samples:     []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=0.3"},
	kinks:       "-1, 0, 1",
})

// ONNX Runtime's gradient reads y, which has the sign of x if alpha ≥ 0.
var _ = define(graph.Op{
	Name:    "LeakyReluGrad",
	Domain:  microsoft,
	Doc:     "dX = dY, or alpha·dY where Y < 0",
	In:      "dY, Y",
	Out:     "dX",
	Attrs:   "alpha float=0.01",
	Samples: []string{"f32[2,5], f32[2,5]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		if !(n.Float("alpha") > 0) {
			n.Fail("alpha is %v; the gradient needs alpha > 0, as it takes the sign of the input from Y", n.Float("alpha"))
		}
		return []*graph.Value{b.Op(own+".LeakyReluGrad", graph.A{"alpha": n.Float("alpha")}, n.Inputs[0], n.Inputs[1])}
	},
})
