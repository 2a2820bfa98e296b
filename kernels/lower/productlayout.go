package lower

import "memopt/kernels/internal/index"

// Product is alpha · op(A) · op(B) over the last two dims, with the batch dims before them broadcast. A vector A is a row, a
// vector B a column; the result does not have their dim of 1.
type Product struct {
	TransA, TransB bool
	Alpha          float64
	// batchA: the first dim of A, not the second to last, is its rows (before transA); batch
	// dims follow it. batchB is the same for B.
	BatchA, BatchB bool
}

// Matrix splits the shape of a factor of rank ≥ 2 into batch dims, rows and columns, before
// transposing.
func Matrix[D any](shape []D, batched bool) (batch []D, rows, cols D) {
	r := len(shape)
	if batched {
		return shape[1 : r-1], shape[0], shape[r-1]
	}
	return shape[:r-2], shape[r-2], shape[r-1]
}

// Layout holds the sizes and strides of a product: element (i, p) of A is at i·a.i + p·a.p,
// element (p, j) of B at j·b.i + p·b.p.
type Layout struct {
	M, N, K        int
	Batch          []int // batch dims of the result
	ABatch, BBatch []int // strides of the batch dims in A and B
	A, B           struct{ I, P int }
}

// Layout is that of A and B of given shapes and a result.
func (p Product) Layout(aShape, bShape, out []int) (l Layout) {
	l.M, l.N = 1, 1
	var aLead, bLead []int
	var row, aStep, bStep int // strides between rows and between matrices
	if len(aShape) == 1 {
		l.K, l.A.I, l.A.P = aShape[0], aShape[0], 1
	} else {
		aLead, l.M, l.K = Matrix(aShape, p.BatchA)
		row, aStep = l.K, l.M*l.K
		if p.BatchA {
			row, aStep = index.Elems(aLead)*l.K, l.K
		}
		l.A.I, l.A.P = row, 1
		if p.TransA {
			l.M, l.K, l.A.I, l.A.P = l.K, l.M, 1, row
		}
	}
	if len(bShape) == 1 {
		l.B.I, l.B.P = 1, 1
	} else {
		var rows int
		bLead, rows, l.N = Matrix(bShape, p.BatchB)
		row, bStep = l.N, rows*l.N
		if p.BatchB {
			row, bStep = index.Elems(bLead)*l.N, l.N
		}
		l.B.I, l.B.P = 1, row
		if p.TransB {
			l.N, l.B.I, l.B.P = rows, row, 1
		}
	}
	l.Batch = out[:max(len(aLead), len(bLead))]
	l.ABatch, l.BBatch = index.Broadcast(aLead, l.Batch), index.Broadcast(bLead, l.Batch)
	for i := range l.Batch {
		l.ABatch[i] *= aStep
		l.BBatch[i] *= bStep
	}
	return l
}
