package kernels

import (
	"iter"
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:  "ReduceLogSumExp",
	doc:   "the logarithm of the sum of exponentials along axes",
	since: 18,
	of: func(xs iter.Seq[float64], _ int) float64 {
		top := math.Inf(-1)
		for x := range xs {
			top = math.Max(top, x)
		}
		if math.IsInf(top, 0) {
			return top
		}
		sum := 0.0
		for x := range xs {
			sum += math.Exp(x - top)
		}
		return top + math.Log(sum)
	},
	grad: func(b *graph.Builder, x, y, dy *graph.Value, _ []int) *graph.Value {
		return b.Op("Mul", nil, b.Op("Exp", nil, b.Op("Sub", nil, x, y)), dy)
	},
	flops:   10,
	pieces:  []string{"f32[70,25], i64{1}"},
	lowered: &lower.Reduction{Fold: lower.FoldSum, Term: lower.TermExp, Final: lower.FinalLogOfExp},
})
