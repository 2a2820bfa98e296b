package kernels

import (
	"memopt/memopt/graph"
)

var _ = defineActivation(activation{
	name:    "Selu",
	since:   6,
	doc:     "y = gamma·x, or gamma·alpha·(eˣ − 1) where x < 0",
	attrs:   "alpha float=1.67326319217681884765625, gamma float=1.05070102214813232421875",
	f:       func(n *graph.Node) func(float64) float64 { return elu(n.Float("alpha"), 1, n.Float("gamma")) },
	slope:   func(n *graph.Node) func(float64) float64 { return eluSlope(n.Float("alpha"), 1, n.Float("gamma")) },
	flops:   10,
	samples: []string{"f32[2,5]", "f64[]", "f16[4]", "f32[0,2]", "f32[5]; alpha=0.3 gamma=1.5"},
})
