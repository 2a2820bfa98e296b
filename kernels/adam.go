package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

var _ = defineOptimizer(adamRule("adam", "Adam", "Adam; weight decay is added to the gradient", "0", false))

// adamRule is torch.optim's Adam or AdamW: exponential moving averages of the
// gradient and its square, with bias correction. AdamW (decoupled) multiplies the
// parameter by 1 − lr·decay; Adam adds decay·parameter to the gradient.
func adamRule(name, op, doc, decay string, decoupled bool) optimizer {
	return optimizer{
		name:    name,
		op:      op,
		doc:     doc,
		attrs:   "beta1 float=0.9, beta2 float=0.999, epsilon float=1e-8, weight_decay float=" + decay,
		samples: []string{"", "beta1=0.5 beta2=0.9 epsilon=0.01 weight_decay=0.1"},
		pieces:  []string{"f32[3001], f32[3001], f32[]>0, _, i64[]{4}, f32[3001], f32[3001]>0"},
		slots:   []string{"exp_avg", "exp_avg_sq"},
		flops:   14,
		lowered: &loweredRule{2, func(*graph.Node) bool { return decoupled }, adamNumbers},
		eval: func(u update) func(p, g float64, s []float64) float64 {
			beta1, beta2, eps, wd := u.n.Float("beta1"), u.n.Float("beta2"), u.n.Float("epsilon"), u.n.Float("weight_decay")
			step, root := adamCorrections(u)
			return func(p, g float64, s []float64) float64 {
				if decoupled {
					p -= u.lr * wd * p
				} else {
					g += wd * p
				}
				s[0] += (1 - beta1) * (g - s[0])
				s[1] = beta2*s[1] + (1-beta2)*g*g
				return p - step*s[0]/(math.Sqrt(s[1])/root+eps)
			}
		},
		fast: func(u update) func(p, g []float32, s [][]float32) {
			scale, eps := float32(u.scale), float32(u.n.Float("epsilon"))
			keep1, beta2, keep2 := float32(1-u.n.Float("beta1")), float32(u.n.Float("beta2")), float32(1-u.n.Float("beta2"))
			wide, wideRoot := adamCorrections(u)
			step, inv := float32(wide), float32(1/wideRoot)
			shrink, decay := float32(1), float32(u.n.Float("weight_decay"))
			if decoupled {
				shrink, decay = float32(1-u.lr*u.n.Float("weight_decay")), 0
			}
			return func(p, g []float32, s [][]float32) {
				f32.Adam(p, g, s[0], s[1], scale, decay, keep1, beta2, keep2, inv, eps, shrink, step)
			}
		},
	}
}

// adamCorrections returns the bias corrections: lr/(1 − β₁ᵗ) and √(1 − β₂ᵗ).
func adamCorrections(u update) (step, root float64) {
	t := float64(u.step)
	return u.lr / (1 - math.Pow(u.n.Float("beta1"), t)), math.Sqrt(1 - math.Pow(u.n.Float("beta2"), t))
}

// adamNumbers are the constants that the kernels of Adam and Lamb take.
func adamNumbers(n *graph.Node) []float64 {
	b1, b2 := n.Float("beta1"), n.Float("beta2")
	return []float64{decayOf(n), n.Float("epsilon"), 1 - b1, b2, 1 - b2, math.Log(b1), math.Log(b2)}
}
