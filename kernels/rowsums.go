package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// rowSums lowers a sum over rows that come some at a time, in the parts that ReduceSum would use
// for all of them.
type rowSums struct {
	l       *graph.Lowering
	columns int
	parts   int
	each    int   // rows of a part
	stride  int   // between the sums of two parts
	at      int64 // of these in work space
	to      graph.Buffer
}

func newRowSums(l *graph.Lowering, columns, rows int, to graph.Buffer, at int64) *rowSums {
	s := &rowSums{l: l, columns: columns, stride: index.CeilDiv(columns, 16) * 16, at: at, to: to}
	s.parts, s.each = lower.ReduceParts(columns, rows, true)
	return s
}

func (s *rowSums) bytes() int64 { return int64(4 * s.parts * s.stride) }

// add adds rows [first, first+n), which begin where x does, to the sums of their parts.
func (s *rowSums) add(x graph.Buffer, first, n int) {
	for from := first; from < first+n; {
		part := from / s.each
		to := min(first+n, (part+1)*s.each)
		k := to - from
		rows := lower.Unwritten(x)
		rows.At, rows.Bytes = x.At+int64(4*(from-first)*s.columns), int64(4*k*s.columns)
		sums := lower.Scratch(s.at+int64(4*part*s.stride), int64(4*s.columns), true)
		lower.Reduction{GoesOn: from > part*s.each}.Dispatch(s.l, rows, sums, lower.OfRows(k, s.columns, s.columns), 0, s.columns, 0, 1, 0, 1)
		from = to
	}
}

func (s *rowSums) finish() {
	lower.Reduction{}.Dispatch(s.l, lower.Scratch(s.at, s.bytes(), false), s.to, lower.OfRows(s.parts, s.columns, s.stride), 0, s.columns, 0, 1, 0, 1)
}
