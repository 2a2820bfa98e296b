package kernels

import (
	"iter"
	"unsafe"

	"memopt/memopt/graph"
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
	quick:   &quickReduction{row: sumRow, rows: sumRows, join: addParts},
	lowered: &loweredReduction{},
})

// sumRow adds four running sums, so that additions need not wait for each
// other; the order depends on the length alone.
func sumRow(acc float64, xs []float32) float64 {
	if vectors && len(xs) >= worthVectors {
		var s rowSums
		a := mapping(xs, xs)
		a.sums = &s
		a.sumAll(len(xs))
		return acc + s.total(0)
	}
	var a, b, c, d float64
	for ; len(xs) >= 4; xs = xs[4:] {
		a += float64(xs[0])
		b += float64(xs[1])
		c += float64(xs[2])
		d += float64(xs[3])
	}
	for _, x := range xs {
		a += float64(x)
	}
	return acc + ((a + b) + (c + d))
}

// sumRows adds the rows one by one. Each is asked for four rows before: the
// memory is slower than the additions.
func sumRows(acc []float64, xs []float32, rows, step int) {
	full := 0
	if vectors {
		full = len(acc) &^ (lanes - 1)
		a := rowArgs{out: [4]*float32{(*float32)(unsafe.Pointer(unsafe.SliceData(acc)))}}
		for r := range rows {
			later := min(r+4, rows-1)
			a.in[0], a.in[1] = unsafe.SliceData(xs[r*step:][:len(acc)]), unsafe.SliceData(xs[later*step:][:len(acc)])
			a.sumRows(full)
		}
	}
	if full < len(acc) {
		rowByRow(func(acc []float64, xs []float32) {
			for i, x := range xs {
				acc[i] += float64(x)
			}
		})(acc[full:], xs[full:], rows, step)
	}
}

// addParts is the sum of two parts' sums.
func addParts(acc, more []float64) {
	for i, v := range more {
		acc[i] += v
	}
}
