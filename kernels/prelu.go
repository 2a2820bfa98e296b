package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "PRelu",
	Since: 7,
	Doc:   "y = x, or slope·x where x < 0; the slope is broadcast to x",
	In:    "X, slope",
	Out:   "Y",
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isNumber, "numbers")
		sameDims(n, broadcast(n, n.Inputs[0].Shape, n.Inputs[1].Shape), n.Inputs[0].Shape)
		sameShape(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, slope := n.Inputs[0], n.Inputs[1]
		zero := num(b, x, 0)
		below := b.Op("Less", nil, x, zero)
		return []*graph.Value{
			b.Op("Where", nil, below, b.Op("Mul", nil, dy[0], slope), dy[0]),
			sumTo(b, b.Op("Where", nil, below, b.Op("Mul", nil, dy[0], x), zero), slope.Shape),
		}
	},
	Eval: leak.eval,
	Lower: lower.ByType(map[graph.DType]func(*graph.Lowering){
		graph.Float32: lower.Pointwise("choose(lt(a, T(0)), b * a, a)"),
		graph.Int32:   lower.PointwiseOf("a < 0 ? b * a : a", nil, graph.Int32, graph.Int32, graph.Int32, graph.Int32),
	}),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3,4], f32[3,1]",
		"f32[5], f32[5]",
		"f32[2,3], f32[]",
		"i32[5], i32[1]",
		"f16[5], f16[5]",
		"f32[0,3], f32[3]",
	},
})

var leak = binary{
	f: func(x, slope float64) float64 {
		if x < 0 {
			return slope * x
		}
		return x
	},
	i: func(x, slope int64) int64 {
		if x < 0 {
			return slope * x
		}
		return x
	},
	u: func(x, _ uint64) uint64 { return x },
}

// Before opset 7 the slope has one element, or one for each channel.
var _ = define(graph.Op{
	Name: "PRelu",
	Doc:  "the form before opset 7, with a slope for each channel",
	In:   "X, slope",
	Out:  "Y",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x, slope := n.Inputs[0], n.Inputs[1]
		if slope.Rank() == 1 && !slope.Shape[0].Is(1) && x.Rank() > 2 {
			slope = reshape(b, slope, append(slices.Clone(slope.Shape), slices.Repeat(graph.Dims(1), x.Rank()-2)...))
		}
		return []*graph.Value{b.Op("PRelu", nil, x, slope)}
	},
})
