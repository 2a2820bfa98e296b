package kernels

import (
	"math"

	"memopt/internal/graph"
)

// Adagrad as torch.optim.Adagrad computes it.
var _ = defineOptimizer(optimizer{
	name:  "adagrad",
	op:    "Adagrad",
	doc:   "sum += grad²; param − lr/(1 + (step − 1)·lr_decay)·grad/(√sum + epsilon); weight decay is added to the gradient",
	attrs: "epsilon float=1e-10, weight_decay float=0, lr_decay float=0",
	slots: []string{"sum"},
	flops: 8,
	lowered: &loweredRule{3, nil, func(n *graph.Node) []float64 {
		return []float64{decayOf(n), n.Float("epsilon"), 0, 0, 0, n.Float("lr_decay")}
	}},
	samples: []string{"", "epsilon=0.01 weight_decay=0.1 lr_decay=0.5"},
	eval: func(u update) func(p, g float64, s []float64) float64 {
		eps, wd, rate := u.n.Float("epsilon"), u.n.Float("weight_decay"), adagradRate(u)
		return func(p, g float64, s []float64) float64 {
			g += wd * p
			s[0] += g * g
			return p - rate*g/(math.Sqrt(s[0])+eps)
		}
	},
	fast: func(u update) func(p, g []float32, s [][]float32) {
		scale, rate := float32(u.scale), float32(adagradRate(u))
		eps, wd := float32(u.n.Float("epsilon")), float32(u.n.Float("weight_decay"))
		return func(p, g []float32, s [][]float32) {
			g, sum := g[:len(p)], s[0][:len(p)]
			for i, x := range p {
				d := scale*g[i] + wd*x
				a := sum[i] + d*d
				sum[i] = a
				p[i] = x - rate*d/(float32(math.Sqrt(float64(a)))+eps)
			}
		}
	},
})

func adagradRate(u update) float64 {
	return u.lr / (1 + float64(u.step-1)*u.n.Float("lr_decay"))
}
