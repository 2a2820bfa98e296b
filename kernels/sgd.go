package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

var _ = defineOptimizer(optimizer{
	name:  "sgd",
	op:    "SGD",
	doc:   "param − lr·(grad + weight_decay·param)",
	attrs: "weight_decay float=0",
	flops: 4,
	eval: func(u update) func(p, g float64, s []float64) float64 {
		wd := u.n.Float("weight_decay")
		return func(p, g float64, _ []float64) float64 { return p - u.lr*(g+wd*p) }
	},
	fast: func(u update) func(p, g []float32, s [][]float32) {
		lr, scale, wd := float32(u.lr), float32(u.scale), float32(u.n.Float("weight_decay"))
		return func(p, g []float32, _ [][]float32) {
			f32.SGD(p, g, lr, scale, wd)
		}
	},
	lowered: &loweredRule{0, nil, func(n *graph.Node) []float64 { return []float64{decayOf(n)} }},
	samples: []string{"", "weight_decay=0.1"},
})
