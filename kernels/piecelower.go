package kernels

import "memopt/memopt/graph"

// A device shows a kernel no more than so many bytes of a buffer. Kernels that go
// row by row see larger operands in pieces, by several dispatches.

// pieceAlignment is what pieces begin at multiples of: enough for every device, and
// for half as many bytes too, where elements are 16-bit floats.
const pieceAlignment = 128

// piece is how many of n rows go into one dispatch: all if they fit, or if no
// number of them would. rowBytes is the distance of rows in each operand, 0 for one
// that every row sees whole.
func piece(l *graph.Lowering, n int, rowBytes ...int64) int {
	most, step := int64(n), int64(1)
	for _, b := range rowBytes {
		if b > 0 {
			most = min(most, l.Limits.Range/b)
			step = max(step, pieceAlignment/gcd(b, pieceAlignment)) // of powers of two the larger is the multiple
		}
	}
	if most == int64(n) || most < step {
		return n
	}
	return int(most - most%step)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// inPieces calls f for each piece of n rows, with the buffers' parts.
func inPieces(l *graph.Lowering, n int, buffers []graph.Buffer, rowBytes []int64, f func(rows int, buffers []graph.Buffer)) {
	each := piece(l, n, rowBytes...)
	if each == n {
		f(n, buffers)
		return
	}
	for from := 0; from < n; from += each {
		rows := min(each, n-from)
		parts := make([]graph.Buffer, len(buffers))
		for i, b := range buffers {
			if parts[i] = b; rowBytes[i] > 0 && b.Place != graph.PlaceNone {
				parts[i].At, parts[i].Bytes = b.At+int64(from)*rowBytes[i], int64(rows)*rowBytes[i]
			}
		}
		f(rows, parts)
	}
}

// samplesOf shows some samples of a buffer that has n of so many elements each, if the
// device does not show all of them, and says how many elements it leaves out in front:
// strides count from so many before what is seen.
func samplesOf(l *graph.Lowering, b graph.Buffer, n, sample, first, count int) (seen graph.Buffer, before int) {
	if int64(4*n*sample) <= l.Limits.Range {
		return b, 0
	}
	before = first * sample / pieceStep * pieceStep
	b.At += int64(4 * before)
	b.Bytes = int64(4 * (first*sample + count*sample - before))
	return b, before
}

// samplesAtOnce is how many of n samples samplesOf can show of buffers with so many
// elements a sample, but at least one.
func samplesAtOnce(l *graph.Lowering, n int, samples ...int) int {
	most := int64(n)
	for _, sample := range samples {
		if int64(4*n*sample) > l.Limits.Range {
			most = min(most, (l.Limits.Range/4-pieceStep)/int64(sample))
		}
	}
	return int(max(1, most))
}
