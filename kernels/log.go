package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Log",
	Doc:   "y = ln x",
	In:    "X",
	Out:   "Y",
	Infer: floatMap,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Div", nil, dy[0], n.Inputs[0])}
	},
	Eval:      unary{f: math.Log}.eval,
	Fast:      unary{f: math.Log}.fast(scalarRows(math.Log)),
	Lower:     lower.Pointwise("log(a)"),
	Pointwise: true,
	Flops:     perElement(10),
	Tests:     graph.Tests{Work: eachOut(10)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]>0", "f64[]>0", "f16[4]>0", "f32[0,2]", "f32[37]>0"},
})
