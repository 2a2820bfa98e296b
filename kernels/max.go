package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Max",
	Doc:   "the elementwise maximum of any number of tensors, broadcast",
	In:    "data_0...",
	Out:   "max",
	Infer: extremeInfer(graph.Dim.Max),
	Grad:  extremeShare,
	Whole: sameNumbers(),
	Eval:  greatest.eval,
	Fast: greatest.fast(func(z, x, y []float32) {
		x, y = x[:len(z)], y[:len(z)]
		for i := range z {
			z[i] = max(x[i], y[i])
		}
	}),
	Lower:     lower.Many("greatest(a, b)", "greatest(greatest(a, b), c)", "max(a, b)", "max(max(a, b), c)"),
	Pointwise: true,
	Flops:     perInput,
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return int64(len(c.In)) * c.out(0) })},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   extremeSamples,
})

var greatest = many{
	f: func(acc, x float64) float64 { return max(acc, x) },
	i: func(acc, x int64) int64 { return max(acc, x) },
	u: func(acc, x uint64) uint64 { return max(acc, x) },
}

var extremeSamples = []string{
	"f32[2,3]",
	"f32[2,3], f32[2,3]",
	"f32[700], f32[700], f32[700]",
	"f32[2,1], f32[3], f32[]",
	"i64[3], i64[3]",
	"i64{1,5}, i64[]{3}",
	"u64[3]>0, u64[3]>0",
	"u8[3]>0, u8[3]>0",
	"f16[3], f16[3]",
	"f32[0], f32[0]",
}

// extremeInfer infers Max and Min and folds known contents.
func extremeInfer(fold func(a, b graph.Dim) graph.Dim) func(*graph.Node) {
	return func(n *graph.Node) {
		anyNumber(n)
		size := 0
		for _, x := range n.Inputs {
			size = max(size, len(x.Ints))
		}
		if !n.Outputs[0].Shape.Elems().Is(int64(size)) {
			return
		}
		for _, x := range n.Inputs {
			if x.Ints == nil || len(x.Ints) != size && len(x.Ints) != 1 {
				return
			}
		}
		foldEach(n, size, func(i int) (graph.Dim, bool) {
			acc := n.Inputs[0].Ints[i%len(n.Inputs[0].Ints)]
			for _, x := range n.Inputs[1:] {
				acc = fold(acc, x.Ints[i%len(x.Ints)])
			}
			return acc, true
		})
	}
}

// extremeShare is the gradient of Max and Min: dy goes to the chosen input, in equal shares
// where several are equal.
func extremeShare(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if len(n.Inputs) == 1 {
		return dy
	}
	y := n.Outputs[0]
	is := make([]*graph.Value, len(n.Inputs))
	for i, x := range n.Inputs {
		is[i] = cast(b, b.Op("Equal", nil, x, y), y.Type)
	}
	share := b.Op("Div", nil, dy[0], b.Op("Sum", nil, is...))
	dx := make([]*graph.Value, len(n.Inputs))
	for i, x := range n.Inputs {
		dx[i] = sumTo(b, b.Op("Mul", nil, is[i], share), x.Shape)
	}
	return dx
}
