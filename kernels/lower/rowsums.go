package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// RowSums lowers a sum over rows that come some at a time, in the parts that ReduceSum would use
// for all of them.
type RowSums struct {
	l       *graph.Lowering
	columns int
	parts   int
	each    int   // rows of a part
	stride  int   // between the sums of two parts
	at      int64 // of these in work space
	to      graph.Buffer
}

// NewRowSums sums rows of some columns to a buffer. at is where the sums of the parts lie in work space.
func NewRowSums(l *graph.Lowering, columns, rows int, to graph.Buffer, at int64) *RowSums {
	s := &RowSums{l: l, columns: columns, stride: index.CeilDiv(columns, 16) * 16, at: at, to: to}
	s.parts, s.each = ReduceParts(columns, rows, true)
	return s
}

// Bytes is the work space of the parts' sums.
func (s *RowSums) Bytes() int64 { return int64(4 * s.parts * s.stride) }

// Add adds rows [first, first+n), which begin where x does, to the sums of their parts.
func (s *RowSums) Add(x graph.Buffer, first, n int) {
	for from := first; from < first+n; {
		part := from / s.each
		to := min(first+n, (part+1)*s.each)
		k := to - from
		rows := Unwritten(x)
		rows.At, rows.Bytes = x.At+int64(4*(from-first)*s.columns), int64(4*k*s.columns)
		sums := Scratch(s.at+int64(4*part*s.stride), int64(4*s.columns), true)
		Reduction{GoesOn: from > part*s.each}.Dispatch(s.l, rows, sums, OfRows(k, s.columns, s.columns), 0, s.columns, 0, 1, 0, 1)
		from = to
	}
}

// Finish adds up the parts.
func (s *RowSums) Finish() {
	Reduction{}.Dispatch(s.l, Scratch(s.at, s.Bytes(), false), s.to, OfRows(s.parts, s.columns, s.stride), 0, s.columns, 0, 1, 0, 1)
}
