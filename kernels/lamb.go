package kernels

import (
	"math"
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
	"slices"
)

// Lamb is the optimizer of "Large Batch Optimization for Deep Learning" (You et al. 2020):
// AdamW's direction, scaled to the norm of the parameter.
var _ = defineOptimizer(optimizer{
	name:    "lamb",
	op:      "Lamb",
	doc:     "u = Adam's direction + weight_decay·param; param − lr·(‖param‖/‖u‖)·u, norms of the whole tensor, their ratio 1 where one is zero",
	attrs:   "beta1 float=0.9, beta2 float=0.999, epsilon float=1e-6, weight_decay float=0.01",
	slots:   []string{"exp_avg", "exp_avg_sq"},
	flops:   30,
	lower:   lowerLamb,
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
	fastDirection: func(u update) (remember func(p, g []float32, s [][]float32) (params, directions float64), follow func(p []float32, s [][]float32, rate float32)) {
		scale, beta2 := float32(u.scale), float32(u.n.Float("beta2"))
		keep1, keep2 := float32(1-u.n.Float("beta1")), float32(1-u.n.Float("beta2"))
		u.lr = 1
		step64, root64 := adamCorrections(u)
		step, root := float32(step64), float32(1/root64)
		eps, wd := float32(u.n.Float("epsilon")), float32(u.n.Float("weight_decay"))
		direction := func(p, m, v float32) float32 {
			return step*m/(float32(math.Sqrt(float64(v)))*root+eps) + wd*p
		}
		remember = func(p, g []float32, s [][]float32) (params, directions float64) {
			m, v := s[0][:len(p)], s[1][:len(p)]
			for i, x := range p {
				d := scale * g[i]
				m[i] += keep1 * (d - m[i])
				v[i] = beta2*v[i] + keep2*d*d
				u := direction(x, m[i], v[i])
				params += float64(x) * float64(x)
				directions += float64(u) * float64(u)
			}
			return params, directions
		}
		follow = func(p []float32, s [][]float32, rate float32) {
			m, v := s[0][:len(p)], s[1][:len(p)]
			for i, x := range p {
				p[i] = x - rate*direction(x, m[i], v[i])
			}
		}
		return remember, follow
	},
})

func lowerLamb(l *graph.Lowering) {
	f, i := graph.Float32, graph.Int64
	if !lower.OnlyTypes(l, []graph.DType{f, f, f, f, i, f}, []graph.DType{f}) {
		return
	}
	n := l.Out[0].Len()
	if n == 0 {
		return
	}
	if lower.Out(l, 1) == nil || lower.Out(l, 2) == nil {
		l.Refuse("an optimizer state is not an output")
		return
	}
	scale, scaled := lower.Reads(2), lower.In(l, 3) != nil
	if scaled {
		scale = lower.Reads(3)
	}
	parts := min(index.CeilDiv(n, lower.ReducePart), 64)
	each := index.CeilDiv(n, parts)
	l.Scratch = int64(4 * (2*parts + 1))
	work := lower.Scratch(0, l.Scratch, true)
	dispatch := func(pass, local, n, some, at, begin, groups int, buffers []graph.Buffer) {
		push := lower.Words(l, n, some, each, at, begin, parts)
		for _, x := range adamNumbers(l.Node) {
			push = append(push, lower.Bits(x))
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: lambKernel, Spec: []uint32{uint32(local), uint32(pass), lower.OneIf(scaled)}, Push: push, Buffers: buffers, Groups: lower.InLine(l, groups),
		})
	}
	buffers := []graph.Buffer{lower.Writes(0), lower.Reads(1), lower.Reads(2), scale, lower.Reads(4), lower.Writes(1), lower.Writes(2), work}
	some := lower.SamplesAtOnce(l, parts, each)
	for first := 0; first < parts; first += some {
		some, before := min(some, parts-first), 0
		seen := slices.Clone(buffers)
		for _, i := range []int{0, 1, 5, 6} { // the parameter, its gradient and its states
			seen[i], before = lower.SamplesOf(l, buffers[i], parts, each, first, some)
			seen[i].Bytes = min(seen[i].Bytes, int64(4*(n-before))) // the last part may be shorter
		}
		begin := first*each - before
		dispatch(0, l.Limits.Subgroup, min(begin+some*each, n-before), some, first, begin, some, seen)
	}
	dispatch(1, l.Limits.Subgroup, 0, 0, 0, 0, 1, []graph.Buffer{lower.Unused(true), lower.Unused(false), lower.Reads(2), scale, lower.Reads(4), lower.Unused(true), lower.Unused(true), work})
	lower.InPieces(l, n, buffers, []int64{4, 4, 0, 0, 0, 4, 4, 0}, func(n int, buffers []graph.Buffer) {
		dispatch(2, 256, n, 0, 0, 0, index.CeilDiv(n, 256), buffers)
	})
}

var lambKernel = lower.Shader("lamb", "lamb.comp")
