package lower

import "memopt/internal/graph"

// A descriptor covers at most Limits.Range bytes of a buffer (maxStorageBufferRange).
// Kernels that work row by row process larger operands in pieces, by several dispatches.

// pieceAlignment is the alignment of pieces in bytes. It suffices for every device
// (minStorageBufferOffsetAlignment), also after halving, for 16-bit floats.
const pieceAlignment = 128

// piece is how many of n rows go into one dispatch: all if they fit, or if no aligned number
// of them does. rowBytes is the row stride of each operand in bytes, 0 if all rows read the
// whole operand.
func piece(l *graph.Lowering, n int, rowBytes ...int64) int {
	most, step := int64(n), int64(1)
	for _, b := range rowBytes {
		if b > 0 {
			most = min(most, l.Limits.Range/b)
			step = max(step, pieceAlignment/gcd(b, pieceAlignment)) // powers of two: the maximum is the common multiple
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

// InPieces calls f for each piece of n rows, with the buffers restricted to it.
func InPieces(l *graph.Lowering, n int, buffers []graph.Buffer, rowBytes []int64, f func(rows int, buffers []graph.Buffer)) {
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

// SamplesOf restricts a buffer of n samples, sample elements each, to count of them from first
// on, if the whole exceeds the descriptor range. It returns how many elements are left out
// before them, which offsets must be reduced by.
func SamplesOf(l *graph.Lowering, b graph.Buffer, n, sample, first, count int) (seen graph.Buffer, before int) {
	if int64(4*n*sample) <= l.Limits.Range {
		return b, 0
	}
	before = first * sample / PieceStep * PieceStep
	b.At += int64(4 * before)
	b.Bytes = int64(4 * (first*sample + count*sample - before))
	return b, before
}

// SamplesAtOnce is how many of n samples fit the descriptor range in all buffers, whose
// samples have the given numbers of elements; at least one.
func SamplesAtOnce(l *graph.Lowering, n int, samples ...int) int {
	most := int64(n)
	for _, sample := range samples {
		if int64(4*n*sample) > l.Limits.Range {
			most = min(most, (l.Limits.Range/4-PieceStep)/int64(sample))
		}
	}
	return int(max(1, most))
}
