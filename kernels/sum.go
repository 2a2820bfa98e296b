package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Sum",
	Doc:   "the sum of any number of tensors, broadcast",
	In:    "data_0...",
	Out:   "sum",
	Infer: floatsOfOne,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		for i, x := range n.Inputs {
			dx[i] = sumTo(b, dy[0], x.Shape)
		}
		return dx
	},
	Eval:      many{f: func(acc, x float64) float64 { return acc + x }}.eval,
	Fast:      many{f: func(acc, x float64) float64 { return acc + x }}.fast(f32.Add),
	Lower:     lower.Many("a + b", "a + b + c"),
	Pointwise: true,
	Flops:     perInput,
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return int64(len(c.In)) * c.out(0) })},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Role:      graph.RoleSum,
	Samples: []string{
		"f32[2,3]",
		"f32[2,3], f32[2,3]",
		"f32[700], f32[700], f32[700]",
		"f32[2,1], f32[3], f32[]",
		"f16[3], f16[3], f16[3]",
		"f32[0], f32[0]",
	},
})

// floatsOfOne infers a variadic operator on floats of one type.
func floatsOfOne(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	anyNumber(n)
}
