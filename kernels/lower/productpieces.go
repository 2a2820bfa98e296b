package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// Products whose operands exceed the descriptor range are split into smaller ones: along the
// batch, the rows of A, the columns of B, or the terms of the sums, where later pieces
// accumulate in the same order. So results have the same bits as without splitting.

// PieceStep is the granularity of pieces in rows, columns or terms: each piece then begins at
// a multiple of pieceAlignment bytes, whatever the strides are.
const PieceStep = pieceAlignment / 4

// Append appends the products, split where necessary.
func (g Products) Append(l *graph.Lowering) {
	most := int64(0)
	for i, n := range g.extents() {
		most = max(most, n)
		[]*graph.Buffer{&g.Y, &g.A, &g.B, &g.C}[i].Bytes = n
	}
	switch {
	case most <= l.Limits.Range:
		g.Whole(l)
	case index.Elems(g.shape) > 1:
		g.byMatrices(l)
	default:
		g.byTiles(l)
	}
}

// extents returns the bytes from the first to the last element of Y, A, B and C; B's for C if
// there is none.
func (g Products) extents() [4]int64 {
	far := func(rows, columns, down, across int, batch []int) int64 {
		if rows*columns == 0 {
			return 0
		}
		last := int64(rows-1)*int64(down) + int64(columns-1)*int64(across)
		for i, n := range g.shape {
			last += int64(n-1) * int64(batch[i])
		}
		return 4 * (last + 1)
	}
	b := far(g.N, g.K, g.Layout.B.I, g.Layout.B.P, g.Sb)
	c := b
	if g.Biased || g.GoesOn {
		c = far(g.M, g.N, g.Ci, g.Cj, g.ofC())
	}
	return [4]int64{far(g.M, g.N, g.Ldy, 1, g.inLine(g.Step)), far(g.M, g.K, g.Layout.A.I, g.Layout.A.P, g.Sa), b, c}
}

// inLine returns the strides of the batch dims if matrices follow each other at stride step.
func (g Products) inLine(step int) []int {
	strides := make([]int, len(g.shape))
	for i := len(g.shape) - 1; i >= 0; i-- {
		strides[i], step = step, step*g.shape[i]
	}
	return strides
}

// ofC returns the strides of the batch dims in C.
func (g Products) ofC() []int {
	strides := make([]int, len(g.shape))
	strides[len(strides)-1] = g.CStep
	return strides
}

// from is the products with operands that begin the given numbers of elements later.
func (g Products) from(y, a, b, c int) Products {
	g.Y.At, g.A.At, g.B.At = g.Y.At+int64(4*y), g.A.At+int64(4*a), g.B.At+int64(4*b)
	if g.Biased || g.GoesOn {
		g.C.At += int64(4 * c)
	} else {
		g.C = g.B
	}
	return g
}

// byMatrices splits the outermost batch dim in two.
func (g Products) byMatrices(l *graph.Lowering) {
	n, y, c := g.shape[0], g.inLine(g.Step)[0], g.ofC()[0]
	half := (n + 1) / 2
	for _, s := range []int{y, g.Sa[0], g.Sb[0], c} {
		multiple := PieceStep / int(gcd(int64(s), PieceStep))
		half = index.CeilDiv(half, multiple) * multiple
	}
	if n > 1 && half >= n {
		l.Refuse("%d matrices cannot be split at offsets that the device can bind", n)
		return
	}
	for at := 0; at < n; at += half {
		x := g.from(at*y, at*g.Sa[0], at*g.Sb[0], at*c)
		if x.shape = append([]int{min(half, n-at)}, g.shape[1:]...); x.shape[0] == 1 && len(x.shape) > 1 {
			x.shape, x.Sa, x.Sb = x.shape[1:], x.Sa[1:], x.Sb[1:]
		}
		x.Append(l)
	}
}

// byTiles splits one product along the dims whose strides make an operand large.
func (g Products) byTiles(l *graph.Lowering) {
	a, b := g.Layout.A, g.Layout.B
	most := func(n int, strides ...int) int {
		all := n
		for _, s := range strides {
			n = min(n, int(l.Limits.Range/4)/max(1, s))
		}
		if n < all {
			n = n / PieceStep * PieceStep
		}
		return n
	}
	larger := func(stride, other int) int {
		if stride < other {
			return 0
		}
		return stride
	}
	rows := most(g.M, g.Ldy, g.Ci, larger(a.I, a.P))
	columns := most(g.N, larger(b.I, b.P))
	terms := most(g.K, larger(a.P, a.I+1), larger(b.P, b.I+1))
	switch {
	case rows*columns*terms == 0 || rows == g.M && columns == g.N && terms == g.K:
		l.Refuse("%d rows of the matrices exceed the device's buffer range", PieceStep)
		return
	case terms < g.K && (g.Biased || g.GoesOn || g.Alpha != 1):
		l.Refuse("the sums exceed the device's buffer range and cannot be split, as alpha is not 1 or there is a bias")
		return
	}
	for i := 0; i < g.M; i += rows {
		for j := 0; j < g.N; j += columns {
			for p := 0; p < g.K; p += terms {
				x := g.from(i*g.Ldy+j, i*a.I+p*a.P, j*b.I+p*b.P, i*g.Ci+j*g.Cj)
				if p > 0 {
					x.GoesOn, x.C, x.Ci, x.Cj = true, Unwritten(x.Y), g.Ldy, 1
				}
				x.M, x.N, x.K = min(rows, g.M-i), min(columns, g.N-j), min(terms, g.K-p)
				x.Append(l)
			}
		}
	}
}
