package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:      "Round",
	Doc:       "rounds to the nearest integer, ties to even",
	In:        "X",
	Out:       "Y",
	Infer:     floatMap,
	NoGrad:    true,
	Eval:      unary{f: math.RoundToEven}.eval,
	Fast:      unary{f: math.RoundToEven}.fast(scalarRows(math.RoundToEven)),
	Lower:     lower.Pointwise("roundEven(a)"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]", "f32{0.5,1.5,-2.5,2.4}"},
})
