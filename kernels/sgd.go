package kernels

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
			g = g[:len(p)]
			if vectors {
				a := mapping2(p, p, g)
				a.scalars = [10]float32{1 - lr*wd, lr * scale}
				a.sgd(len(p))
				return
			}
			for i, x := range p {
				p[i] = x - lr*(scale*g[i]+wd*x)
			}
		}
	},
	samples: []string{"", "weight_decay=0.1"},
})
