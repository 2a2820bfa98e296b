package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Mean",
	Doc:   "the mean of any number of tensors, broadcast",
	In:    "data_0...",
	Out:   "mean",
	Infer: floatsOfOne,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		share := b.Op("Div", nil, dy[0], num(b, dy[0], float64(len(n.Inputs))))
		dx := make([]*graph.Value, len(n.Inputs))
		for i, x := range n.Inputs {
			dx[i] = sumTo(b, share, x.Shape)
		}
		return dx
	},
	Eval: many{
		f:    func(acc, x float64) float64 { return acc + x },
		last: func(acc float64, n int) float64 { return acc / float64(n) },
	}.eval,
	Lower:     lowerMean,
	Pointwise: true,
	Flops:     perInput,
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return int64(len(c.In)) * c.out(0) })},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3]",
		"f32[2,3], f32[2,3]",
		"f32[2,1], f32[3], f32[]",
		"f16[3], f16[3], f16[3]",
		"f32[0], f32[0]",
	},
})

// lowerMean is a sum, then a division in place.
var lowerMean = func() func(*graph.Lowering) {
	sum := lower.Many("a + b", "a + b + c")
	form := lower.FormOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	const part = "a / T(p)"
	form.Exprs = append(form.Exprs, part)
	return func(l *graph.Lowering) {
		if sum(l); l.Refused == "" && len(l.In) > 1 {
			form.Append(l, part, l.Out[0], []*graph.Operand{l.Out[0]}, []graph.Buffer{lower.Writes(0), lower.Rereads(0)}, float64(len(l.In)))
		}
	}
}()
