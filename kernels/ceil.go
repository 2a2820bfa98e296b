package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:      "Ceil",
	Doc:       "y = ⌈x⌉",
	In:        "X",
	Out:       "Y",
	Infer:     floatMap,
	NoGrad:    true,
	Eval:      unary{f: math.Ceil}.eval,
	Fast:      unary{f: math.Ceil}.fast(scalarRows(math.Ceil)),
	Lower:     lower.Pointwise("ceil(a)"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]"},
})
