package kernels

import (
	"iter"
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:  "ReduceL2",
	doc:   "the square root of the sum of squares along axes",
	since: 18,
	of:    func(xs iter.Seq[float64], n int) float64 { return math.Sqrt(sumSquares(xs, n)) },
	grad: func(b *graph.Builder, x, y, dy *graph.Value, _ []int) *graph.Value {
		// At 0 the derivative is undefined; 0 is used.
		zero := num(b, y, 0)
		slope := b.Op("Where", nil, b.Op("Equal", nil, y, zero), zero, b.Op("Div", nil, dy, y))
		return b.Op("Mul", nil, x, slope)
	},
	quick: &quickReduction{
		row:  f32.SumSquares,
		rows: rowByRow(f32.AddSquares),
		join: addParts,
		done: func(acc float64, _ int) float64 { return math.Sqrt(acc) },
	},
	flops:   2,
	lowered: &lower.Reduction{Term: lower.TermSquare, Final: lower.FinalRoot},
})
