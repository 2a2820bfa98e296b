package kernels

import (
	"iter"
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:     "ReduceMax",
	segments: "max",
	doc:      "the maximum along axes",
	since:    18,
	types:    graph.DType.Valid,
	of: func(xs iter.Seq[float64], _ int) float64 {
		acc := math.Inf(-1)
		for x := range xs {
			if x > acc || x != x {
				acc = x
			}
		}
		return acc
	},
	ints: func(xs iter.Seq[int64], t graph.DType) int64 {
		acc, _ := intRange(t)
		for x := range xs {
			if below(t, acc, x) {
				acc = x
			}
		}
		return acc
	},
	fold: foldDims(graph.Dim.Max),
	grad: extremeGrad,
	quick: &quickReduction{
		start: math.Inf(-1),
		row: func(acc float64, xs []float32) float64 {
			for _, v := range xs {
				if x := float64(v); x > acc || x != x {
					acc = x
				}
			}
			return acc
		},
		rows: rowByRow(func(acc []float64, xs []float32) {
			for i, v := range xs {
				if x := float64(v); x > acc[i] || x != x {
					acc[i] = x
				}
			}
		}),
		join: func(acc, more []float64) {
			for i, x := range more {
				if x > acc[i] || x != x {
					acc[i] = x
				}
			}
		},
	},
	lowered: &lower.Reduction{Fold: lower.FoldMax},
})
