package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// Momentum is torch.optim.SGD with momentum: the first update is not dampened.
var _ = defineOptimizer(optimizer{
	name:  "momentum",
	op:    "Momentum",
	doc:   "buf = mu·buf + (1 − dampening)·grad; param − lr·buf, or with nesterov param − lr·(grad + mu·buf)",
	attrs: "momentum float=0.9, dampening float=0, nesterov int=0, weight_decay float=0",
	slots: []string{"momentum_buffer"},
	flops: 8,
	eval: func(u update) func(p, g float64, s []float64) float64 {
		mu, keep, wd, nesterov := u.n.Float("momentum"), 1-u.n.Float("dampening"), u.n.Float("weight_decay"), u.n.Int("nesterov") != 0
		return func(p, g float64, s []float64) float64 {
			g += wd * p
			if u.step <= 1 {
				s[0] = g
			} else {
				s[0] = mu*s[0] + keep*g
			}
			if nesterov {
				return p - u.lr*(g+mu*s[0])
			}
			return p - u.lr*s[0]
		}
	},
	fast: func(u update) func(p, g []float32, s [][]float32) {
		lr, scale := float32(u.lr), float32(u.scale)
		mu, keep, wd := float32(u.n.Float("momentum")), float32(1-u.n.Float("dampening")), float32(u.n.Float("weight_decay"))
		nesterov, old := u.n.Int("nesterov") != 0, mu
		if u.step <= 1 {
			old, keep = 0, 1
		}
		if nesterov {
			return func(p, g []float32, s [][]float32) { f32.Nesterov(p, g, s[0], scale, wd, old, keep, mu, lr) }
		}
		return func(p, g []float32, s [][]float32) { f32.Momentum(p, g, s[0], scale, wd, old, keep, lr) }
	},
	lowered: &loweredRule{1, func(n *graph.Node) bool { return n.Int("nesterov") != 0 }, func(n *graph.Node) []float64 {
		return []float64{decayOf(n), 0, 1 - n.Float("dampening"), n.Float("momentum")}
	}},
	samples: []string{"", "momentum=0.5 dampening=0.25 weight_decay=0.1", "nesterov=1"},
})
