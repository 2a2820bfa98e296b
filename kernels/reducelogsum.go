package kernels

import (
	"iter"
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:  "ReduceLogSum",
	doc:   "the logarithm of the sum along axes",
	since: 18,
	of: func(xs iter.Seq[float64], _ int) float64 {
		sum := 0.0
		for x := range xs {
			sum += x
		}
		return math.Log(sum)
	},
	grad: func(b *graph.Builder, x, y, dy *graph.Value, _ []int) *graph.Value {
		return expandTo(b, b.Op("Div", nil, dy, b.Op("Exp", nil, y)), x.Shape)
	},
	positive: true,
	lowered:  &lower.Reduction{Final: lower.FinalLog},
})
