package kernels

import (
	"iter"

	"memopt/memopt/graph"
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
	quick:   &quickReduction{row: squareRow, rows: rowByRow(squareRows), join: addParts},
	flops:   2,
	lowered: &loweredReduction{term: termSquare},
})

func sumSquares(xs iter.Seq[float64], _ int) float64 {
	sum := 0.0
	for x := range xs {
		sum += x * x
	}
	return sum
}

// squareRow adds in the order of sumRow.
func squareRow(acc float64, xs []float32) float64 {
	if vectors && len(xs) >= worthVectors {
		return acc + dotRow(xs, xs)
	}
	var a, b, c, d float64
	for ; len(xs) >= 4; xs = xs[4:] {
		a += float64(xs[0]) * float64(xs[0])
		b += float64(xs[1]) * float64(xs[1])
		c += float64(xs[2]) * float64(xs[2])
		d += float64(xs[3]) * float64(xs[3])
	}
	for _, x := range xs {
		a += float64(x) * float64(x)
	}
	return acc + ((a + b) + (c + d))
}

func squareRows(acc []float64, xs []float32) {
	for i, x := range xs {
		acc[i] += float64(x) * float64(x)
	}
}
