package kernels

import "math"

// The rule of "Large Batch Optimization for Deep Learning" (You et al.): AdamW's
// direction, as long as the parameter is.
var _ = defineOptimizer(optimizer{
	name:    "lamb",
	op:      "Lamb",
	doc:     "u = Adam's direction + weight_decay·param; param − lr·(‖param‖/‖u‖)·u, norms of the whole tensor, their ratio 1 where one is zero",
	attrs:   "beta1 float=0.9, beta2 float=0.999, epsilon float=1e-6, weight_decay float=0.01",
	slots:   []string{"exp_avg", "exp_avg_sq"},
	flops:   30,
	samples: []string{"", "beta1=0.5 beta2=0.9 epsilon=0.01 weight_decay=0.1"},
	more: []string{
		"f32[70000], f32[70000], f32[]{0.1}, _, i64[]{2}, f32[70000], f32[70000]>0", // more than a chunk
		"f32[2]{0,0}, f32[2], f32[]{0.1}, _, i64[]{1}, f32[2], f32[2]>0",
		"f32[2], f32[2]{0,0}, f32[]{0.1}, _, i64[]{1}, f32[2]{0,0}, f32[2]>0; weight_decay=0.0",
		"f32[0], f32[0], f32[]{0.1}, _, i64[]{1}, f32[0], f32[0]",
	},
	direction: func(u update) (remember func(g float64, s []float64), direction func(p float64, s []float64) float64) {
		beta1, beta2, eps, wd := u.n.Float("beta1"), u.n.Float("beta2"), u.n.Float("epsilon"), u.n.Float("weight_decay")
		u.lr = 1
		step, root := adamCorrections(u)
		remember = func(g float64, s []float64) {
			s[0] += (1 - beta1) * (g - s[0])
			s[1] = beta2*s[1] + (1-beta2)*g*g
		}
		direction = func(p float64, s []float64) float64 {
			return step*s[0]/(math.Sqrt(s[1])/root+eps) + wd*p
		}
		return remember, direction
	},
})
