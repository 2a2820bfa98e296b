package kernels

import (
	"iter"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:     "ReduceSum",
	segments: "sum",
	since:    13,
	doc:      "the sum along axes",
	of: func(xs iter.Seq[float64], _ int) float64 {
		sum := 0.0
		for x := range xs {
			sum += x
		}
		return sum
	},
	ints: func(xs iter.Seq[int64], _ graph.DType) int64 {
		sum := int64(0)
		for x := range xs {
			sum += x
		}
		return sum
	},
	fold: foldDims(graph.Dim.Add),
	grad: func(b *graph.Builder, x, _, dy *graph.Value, _ []int) *graph.Value {
		return expandTo(b, dy, x.Shape)
	},
	quick:   &quickReduction{row: f32.Sum, rows: f32.SumRows, join: addParts},
	pieces:  []string{"f32[200,25], i64{1}", "f32[50,4,32], i64{1}"},
	lowered: &lower.Reduction{},
})

// addParts adds a later part's sums to acc.
func addParts(acc, more []float64) {
	for i, v := range more {
		acc[i] += v
	}
}
