package kernels

import (
	"iter"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:  "ReduceSumSquare",
	doc:   "the sum of squares along axes",
	since: 18,
	of:    sumSquares,
	ints: func(xs iter.Seq[int64], _ graph.DType) int64 {
		sum := int64(0)
		for x := range xs {
			sum += x * x
		}
		return sum
	},
	grad: func(b *graph.Builder, x, _, dy *graph.Value, _ []int) *graph.Value {
		return b.Op("Mul", nil, x, b.Op("Mul", nil, dy, num(b, dy, 2)))
	},
	quick:   &quickReduction{row: f32.SumSquares, rows: rowByRow(f32.AddSquares), join: addParts},
	flops:   2,
	pieces:  []string{"f32[200000]", "f32[200000], i64{0}"},
	lowered: &lower.Reduction{Term: lower.TermSquare},
})

func sumSquares(xs iter.Seq[float64], _ int) float64 {
	sum := 0.0
	for x := range xs {
		sum += x * x
	}
	return sum
}
