package kernels

import (
	"iter"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:     "ReduceMean",
	segments: "mean",
	doc:      "the mean along axes",
	since:    18,
	of: func(xs iter.Seq[float64], n int) float64 {
		sum := 0.0
		for x := range xs {
			sum += x
		}
		return sum / float64(n)
	},
	grad: func(b *graph.Builder, x, _, dy *graph.Value, axes []int) *graph.Value {
		return expandTo(b, b.Op("Div", nil, dy, count(b, dy, x.Shape, axes)), x.Shape)
	},
	quick: &quickReduction{
		row:  f32.Sum,
		rows: f32.SumRows,
		join: addParts,
		done: func(acc float64, n int) float64 { return acc / float64(n) },
	},
	pieces:  []string{"f32[70,4,16], i64{2}; keepdims=0"},
	lowered: &lower.Reduction{Mean: true},
})
