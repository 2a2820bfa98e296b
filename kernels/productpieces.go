package kernels

import "memopt/memopt/graph"

// Products whose operands are larger than what a device shows of a buffer are
// made of smaller ones: of some matrices of the batch, some rows of A, some
// columns of B, or some terms of the sums, which then go on where those before
// ended. So the bits are those of the whole.

// pieceStep is what pieces have a multiple of rows, columns or terms of: then each
// begins at a multiple of pieceAlignment, whatever the strides are.
const pieceStep = pieceAlignment / 4

// append appends the products, in pieces where they must be.
func (g loweredProduct) append(l *graph.Lowering) {
	most := int64(0)
	for i, n := range g.extents() {
		most = max(most, n)
		[]*graph.Buffer{&g.y, &g.a, &g.b, &g.c}[i].Bytes = n
	}
	switch {
	case most <= l.Limits.Range:
		g.whole(l)
	case elems(g.shape) > 1:
		g.byMatrices(l)
	default:
		g.byTiles(l)
	}
}

// extents are the bytes from the first to the last element of Y, A, B and C; C is
// B where there is none.
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

// inLine is the strides of the batch where its matrices follow each other.
func (g loweredProduct) inLine(step int) []int {
	strides := make([]int, len(g.shape))
	for i := len(g.shape) - 1; i >= 0; i-- {
		strides[i], step = step, step*g.shape[i]
	}
	return strides
}

// ofC is the strides of C under the batch.
func (g loweredProduct) ofC() []int {
	strides := make([]int, len(g.shape))
	strides[len(strides)-1] = g.cStep
	return strides
}

// from is products whose operands begin so many elements later.
func (g loweredProduct) from(y, a, b, c int) loweredProduct {
	g.y.At, g.a.At, g.b.At = g.y.At+int64(4*y), g.a.At+int64(4*a), g.b.At+int64(4*b)
	if g.biased || g.goesOn {
		g.c.At += int64(4 * c)
	} else {
		g.c = g.b
	}
	return g
}

// byMatrices cuts the outer dim of the batch in two.
func (g loweredProduct) byMatrices(l *graph.Lowering) {
	n, y, c := g.shape[0], g.inLine(g.step)[0], g.ofC()[0]
	half := (n + 1) / 2
	for _, s := range []int{y, g.sa[0], g.sb[0], c} {
		multiple := pieceStep / int(gcd(int64(s), pieceStep))
		half = ceilDiv(half, multiple) * multiple
	}
	if n > 1 && half >= n {
		l.Refuse("its %d matrices cannot be parted where the device wants", n)
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

// byTiles cuts one product along the dims whose strides make an operand large.
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
		l.Refuse("%d rows of its matrices are more than the device shows", pieceStep)
		return
	case terms < g.k && (g.biased || g.goesOn || g.alpha != 1):
		l.Refuse("its sums must be cut, and are scaled or added to something")
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
