package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// Products whose operands exceed the descriptor range are split into smaller ones: along the
// batch, the rows of A, the columns of B, or the terms of the sums, where later pieces
// accumulate in the same order. So results have the same bits as without splitting.

// pieceStep is the granularity of pieces in rows, columns or terms: each piece then begins at
// a multiple of pieceAlignment bytes, whatever the strides are.
const pieceStep = pieceAlignment / 4

// append appends the products, split where necessary.
func (g loweredProduct) append(l *graph.Lowering) {
	most := int64(0)
	for i, n := range g.extents() {
		most = max(most, n)
		[]*graph.Buffer{&g.y, &g.a, &g.b, &g.c}[i].Bytes = n
	}
	switch {
	case most <= l.Limits.Range:
		g.whole(l)
	case index.Elems(g.shape) > 1:
		g.byMatrices(l)
	default:
		g.byTiles(l)
	}
}

// extents returns the bytes from the first to the last element of Y, A, B and C; B's for C if
// there is none.
func (g loweredProduct) extents() [4]int64 {
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
	b := far(g.n, g.k, g.layout.b.i, g.layout.b.p, g.sb)
	c := b
	if g.biased || g.goesOn {
		c = far(g.m, g.n, g.ci, g.cj, g.ofC())
	}
	return [4]int64{far(g.m, g.n, g.ldy, 1, g.inLine(g.step)), far(g.m, g.k, g.layout.a.i, g.layout.a.p, g.sa), b, c}
}

// inLine returns the strides of the batch dims if matrices follow each other at stride step.
func (g loweredProduct) inLine(step int) []int {
	strides := make([]int, len(g.shape))
	for i := len(g.shape) - 1; i >= 0; i-- {
		strides[i], step = step, step*g.shape[i]
	}
	return strides
}

// ofC returns the strides of the batch dims in C.
func (g loweredProduct) ofC() []int {
	strides := make([]int, len(g.shape))
	strides[len(strides)-1] = g.cStep
	return strides
}

// from is the products with operands that begin the given numbers of elements later.
func (g loweredProduct) from(y, a, b, c int) loweredProduct {
	g.y.At, g.a.At, g.b.At = g.y.At+int64(4*y), g.a.At+int64(4*a), g.b.At+int64(4*b)
	if g.biased || g.goesOn {
		g.c.At += int64(4 * c)
	} else {
		g.c = g.b
	}
	return g
}

// byMatrices splits the outermost batch dim in two.
func (g loweredProduct) byMatrices(l *graph.Lowering) {
	n, y, c := g.shape[0], g.inLine(g.step)[0], g.ofC()[0]
	half := (n + 1) / 2
	for _, s := range []int{y, g.sa[0], g.sb[0], c} {
		multiple := pieceStep / int(gcd(int64(s), pieceStep))
		half = index.CeilDiv(half, multiple) * multiple
	}
	if n > 1 && half >= n {
		l.Refuse("%d matrices cannot be split at offsets that the device can bind", n)
		return
	}
	for at := 0; at < n; at += half {
		x := g.from(at*y, at*g.sa[0], at*g.sb[0], at*c)
		if x.shape = append([]int{min(half, n-at)}, g.shape[1:]...); x.shape[0] == 1 && len(x.shape) > 1 {
			x.shape, x.sa, x.sb = x.shape[1:], x.sa[1:], x.sb[1:]
		}
		x.append(l)
	}
}

// byTiles splits one product along the dims whose strides make an operand large.
func (g loweredProduct) byTiles(l *graph.Lowering) {
	a, b := g.layout.a, g.layout.b
	most := func(n int, strides ...int) int {
		all := n
		for _, s := range strides {
			n = min(n, int(l.Limits.Range/4)/max(1, s))
		}
		if n < all {
			n = n / pieceStep * pieceStep
		}
		return n
	}
	larger := func(stride, other int) int {
		if stride < other {
			return 0
		}
		return stride
	}
	rows := most(g.m, g.ldy, g.ci, larger(a.i, a.p))
	columns := most(g.n, larger(b.i, b.p))
	terms := most(g.k, larger(a.p, a.i+1), larger(b.p, b.i+1))
	switch {
	case rows*columns*terms == 0 || rows == g.m && columns == g.n && terms == g.k:
		l.Refuse("%d rows of the matrices exceed the device's buffer range", pieceStep)
		return
	case terms < g.k && (g.biased || g.goesOn || g.alpha != 1):
		l.Refuse("the sums exceed the device's buffer range and cannot be split, as alpha is not 1 or there is a bias")
		return
	}
	for i := 0; i < g.m; i += rows {
		for j := 0; j < g.n; j += columns {
			for p := 0; p < g.k; p += terms {
				x := g.from(i*g.ldy+j, i*a.i+p*a.p, j*b.i+p*b.p, i*g.ci+j*g.cj)
				if p > 0 {
					x.goesOn, x.c, x.ci, x.cj = true, unwritten(x.y), g.ldy, 1
				}
				x.m, x.n, x.k = min(rows, g.m-i), min(columns, g.n-j), min(terms, g.k-p)
				x.append(l)
			}
		}
	}
}
