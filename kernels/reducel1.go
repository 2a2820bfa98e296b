package kernels

import (
	"iter"
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:  "ReduceL1",
	doc:   "the sum of absolute values along axes",
	since: 18,
	of: func(xs iter.Seq[float64], _ int) float64 {
		sum := 0.0
		for x := range xs {
			sum += math.Abs(x)
		}
		return sum
	},
	ints: func(xs iter.Seq[int64], _ graph.DType) int64 {
		sum := int64(0)
		for x := range xs {
			if x < 0 {
				x = -x
			}
			sum += x
		}
		return sum
	},
	grad: func(b *graph.Builder, x, _, dy *graph.Value, _ []int) *graph.Value {
		return b.Op("Mul", nil, b.Op("Sign", nil, x), dy)
	},
	flops:   2,
	lowered: &lower.Reduction{Term: lower.TermSize},
})
