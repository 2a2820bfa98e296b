package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Min",
	Doc:   "the elementwise minimum of any number of tensors, broadcast",
	In:    "data_0...",
	Out:   "min",
	Infer: extremeInfer(graph.Dim.Min),
	Grad:  extremeShare,
	Whole: sameNumbers(),
	Eval:  least.eval,
	Fast: least.fast(func(z, x, y []float32) {
		x, y = x[:len(z)], y[:len(z)]
		for i := range z {
			z[i] = min(x[i], y[i])
		}
	}),
	Lower:     lower.Many("least(a, b)", "least(least(a, b), c)", "min(a, b)", "min(min(a, b), c)"),
	Pointwise: true,
	Flops:     perInput,
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return int64(len(c.In)) * c.out(0) })},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   extremeSamples,
})

var least = many{
	f: func(acc, x float64) float64 { return min(acc, x) },
	i: func(acc, x int64) int64 { return min(acc, x) },
	u: func(acc, x uint64) uint64 { return min(acc, x) },
}
