package f32

// The float32 matrix product: C[m, n] = A[m, k] · B[k, n], or C += that.
//
// Blocks of A and B are packed into panels (tile.rows or tile.cols wide, k running slowest), which
// a micro-kernel reads sequentially while it keeps a tile of C in registers (Goto and van de Geijn,
// "Anatomy of High-Performance Matrix Multiplication", 2008). An operand only has to pack panels,
// so a convolution passes its image and never stores it as a matrix.
//
// Every element of C is summed over k in a fixed order, whatever the number of workers.

// The largest block: a panel of B (288 × 32 floats) stays in the L1 cache while the panels of a block of A stream from the
// L2 cache.
const (
	BlockK = 288
	BlockM = 960
	BlockN = 1024
)

// tile is a micro-kernel and the shape of C that it holds in registers. rows divides BlockM, cols
// divides BlockN.
type tile struct {
	name       string
	rows, cols int
	less       []int // smaller numbers of rows that run supports, ascending
	// run computes rows of a tile from the panels a and b. Rows of c are at stride ldc,
	// their right halves at offset right from the left ones.
	run func(rows, k int, a, b, c []float32, ldc, right int, add bool)
}

// fit is the smallest number of rows ≥ n that run supports.
func (t *tile) fit(n int) int {
	if n == 0 {
		return 0
	}
	for _, r := range t.less {
		if r >= n {
			return r
		}
	}
	return t.rows
}

// The most rows and columns of a tile.
const maxRows, maxCols = 12, 32

// tiles lists the micro-kernels that this machine supports, best first.
var tiles = append(fastTiles(), tile{"go", 2, 4, nil, tileGo})

// Operand is a matrix with an outer index i (a row of A, a column of B) and
// the index p that is summed over.
type Operand interface {
	// Pack copies i in [i0, i1) and p in [p0, p1) to a panel of width w: element
	// (i, p) goes to dst[(p−p0)·w + i−i0], and the rest of the width is zeroed.
	Pack(dst []float32, i0, i1, p0, p1, w int)
}

// Matrix is a strided matrix: element (i, p) is at i·I + p·P.
type Matrix struct {
	Data  []float32
	I, P  int
	Scale float32
}

// Pack implements Operand.
func (d Matrix) Pack(dst []float32, i0, i1, p0, p1, w int) {
	n := i1 - i0
	if n < w {
		clear(dst[:(p1-p0)*w])
	}
	src := d.Data[i0*d.I+p0*d.P:]
	switch {
	case d.I == 1:
		copyRows(dst, src, p1-p0, n, w, d.P)
	case d.P == 1:
		packRows(dst, src, n, p1-p0, d.I, w)
	default:
		for p := range p1 - p0 {
			for i := range n {
				dst[p*w+i] = src[i*d.I+p*d.P]
			}
		}
	}
	if d.Scale != 1 {
		dst = dst[:(p1-p0)*w]
		for i := range dst {
			dst[i] *= d.Scale
		}
	}
}

// packRows transposes n rows of k floats, eight or four at a time.
func packRows(dst, src []float32, n, k, ld, w int) {
	if wide() {
		turnRows(dst, src, n, k, ld, w)
		return
	}
	i := 0
	for whole := k &^ 7; vectors && whole > 0 && i+8 <= n; i += 8 {
		turn8(dst[i:], src[i*ld:], whole, ld, w)
		for p := whole; p < k; p++ {
			for r := i; r < i+8; r++ {
				dst[p*w+r] = src[r*ld+p]
			}
		}
	}
	for ; i+4 <= n; i += 4 {
		r0, r1, r2, r3 := src[i*ld:][:k], src[(i+1)*ld:][:k], src[(i+2)*ld:][:k], src[(i+3)*ld:][:k]
		at := i
		for p, v := range r0 {
			d := (*[4]float32)(dst[at : at+4])
			d[0], d[1], d[2], d[3] = v, r1[p], r2[p], r3[p]
			at += w
		}
	}
	for ; i < n; i++ {
		at := i
		for _, v := range src[i*ld:][:k] {
			dst[at] = v
			at += w
		}
	}
}

// panels is the memory of packed blocks: 1.1 MB for each worker on a product.
type panels struct {
	a    [BlockM * BlockK]float32
	b    [maxCols * BlockK]float32
	edge [maxRows * maxCols]float32 // a partial tile
}

var blocks workspace[panels]

// Multiply is the product with the best micro-kernel.
func Multiply(par Parallel, m, n, k int, a, b Operand, c []float32, ldc int, add bool) {
	tiles[0].multiply(par, m, n, k, a, b, result{c, ldc, n, 0, nil}, add)
}

// result is the layout of C: rows at stride ld, and columns in parts of part columns at stride step.
// spots, if not nil, are the offsets of the columns in a part.
type result struct {
	data     []float32
	ld, part int
	step     int
	spots    []int
}

// at is the offset of column j in row 0.
func (r result) at(j int) int {
	if r.spots != nil {
		return j/r.part*r.step + r.spots[j%r.part]
	}
	return j/r.part*r.step + j%r.part
}

func (t *tile) multiply(par Parallel, m, n, k int, a, b Operand, c result, add bool) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		for j := 0; !add && j < n; j += c.part {
			for i := range m {
				at := c.at(j) + i*c.ld
				clear(c.data[at : at+min(c.part, n-j)])
			}
		}
		return
	}
	if m*n*k < aShare*t.rows*t.cols {
		t.block(0, m, 0, n, k, a, b, c, add)
		return
	}
	// C is split into shares that are computed in parallel, each with its own panels: with
	// common panels workers would synchronize twice a block, which takes as long as a good
	// part of it. Consecutive shares of the same rows are computed as one.
	rows, cols := shares(m, 256, t.rows), shares(n, 128, t.cols)
	par(rows*cols, 1, func(lo, hi int) {
		for lo < hi {
			row, first := lo/cols, lo%cols
			last := min(cols, first+hi-lo)
			m0, m1 := shareOf(m, t.rows, row, row+1, rows)
			n0, n1 := shareOf(n, t.cols, first, last, cols)
			t.block(m0, m1, n0, n1, k, a, b, c, add)
			lo += last - first
		}
	})
}

// aShare is the work, in micro-kernel steps, from which on a product is split into shares.
const aShare = 8 << 10

// shares is the number of shares of n rows or columns: a power of two if they are few, so that few
// workers divide them evenly, but not so many that packing the other factor again dominates.
func shares(n, least, tile int) int {
	parts := n / 512
	if parts < 8 {
		for parts = 1; parts < 8 && n/(2*parts) >= least; {
			parts *= 2
		}
		if parts == 8 && n/8 < 256 {
			parts = 4
		}
	}
	return min(parts, ceil(n, tile))
}

// shareOf returns the part of n that shares [first, last) have, in whole tiles.
func shareOf(n, tile, first, last, shares int) (lo, hi int) {
	tiles := ceil(n, tile)
	return tiles * first / shares * tile, min(n, tiles*last/shares*tile)
}

// block computes rows [m0, m1) × columns [n0, n1).
func (t *tile) block(m0, m1, n0, n1, k int, a, b Operand, c result, add bool) {
	buf := blocks.Get()
	defer blocks.Put(buf)
	depth := DepthOf(k)
	for j0 := n0; j0 < n1; j0 += BlockN {
		j1 := min(j0+BlockN, n1)
		for p0 := 0; p0 < k; p0 += depth {
			p1 := min(p0+depth, k)
			for i0 := m0; i0 < m1; i0 += BlockM {
				i1 := min(i0+BlockM, m1)
				for i := i0; i < i1; i += t.rows {
					a.Pack(buf.a[(i-i0)*(p1-p0):], i, min(i+t.rows, i1), p0, p1, t.rows)
				}
				for j := j0; j < j1; j += t.cols {
					b.Pack(buf.b[:], j, min(j+t.cols, j1), p0, p1, t.cols)
					t.column(buf, p1-p0, i0, i1, j, j1, c, add || p0 > 0)
				}
			}
		}
	}
}

// column computes rows [i0, i1) of columns [j, j1), which are a packed panel of B.
func (t *tile) column(buf *panels, k, i0, i1, j, j1 int, c result, add bool) {
	half, at, width := t.cols/2, c.at(j), min(t.cols, j1-j)
	right, whole := half, false
	if width == t.cols && c.spots == nil && j%c.part+half <= c.part && (j+half)%c.part+half <= c.part {
		right, whole = c.at(j+half)-at, true
	}
	var places [maxCols]int
	if last := (i1 - i0) % t.rows; !whole || t.fit(last) != last {
		for x := range width {
			places[x] = c.at(j + x)
		}
	}
	for i := i0; i < i1; i += t.rows {
		a, n := buf.a[(i-i0)*k:], min(t.rows, i1-i)
		rows := t.fit(n)
		if whole && rows == n {
			t.run(rows, k, a, buf.b[:], c.data[at+i*c.ld:], c.ld, right, add)
			continue
		}
		t.run(rows, k, a, buf.b[:], buf.edge[:], t.cols, half, false)
		for r := range n {
			place(c.data[(i+r)*c.ld:], buf.edge[r*t.cols:][:width], places[:width], add)
		}
	}
}

// place stores sums at the given places of a row of C.
func place(row, sums []float32, places []int, add bool) {
	places = places[:len(sums)]
	if add {
		for x, v := range sums {
			row[places[x]] += v
		}
		return
	}
	for x, v := range sums {
		row[places[x]] = v
	}
}

// tileGo is the portable micro-kernel: 2 × 4 sums, which fit scalar registers, unrolled by four.
func tileGo(_, k int, a, b, c []float32, ldc, right int, add bool) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	a, b = a[:2*k], b[:4*k]
	for len(a) >= 8 && len(b) >= 16 {
		p, q := (*[8]float32)(a), (*[16]float32)(b)
		x, y := p[0], p[1]
		c00 += x * q[0]
		c01 += x * q[1]
		c02 += x * q[2]
		c03 += x * q[3]
		c10 += y * q[0]
		c11 += y * q[1]
		c12 += y * q[2]
		c13 += y * q[3]
		x, y = p[2], p[3]
		c00 += x * q[4]
		c01 += x * q[5]
		c02 += x * q[6]
		c03 += x * q[7]
		c10 += y * q[4]
		c11 += y * q[5]
		c12 += y * q[6]
		c13 += y * q[7]
		x, y = p[4], p[5]
		c00 += x * q[8]
		c01 += x * q[9]
		c02 += x * q[10]
		c03 += x * q[11]
		c10 += y * q[8]
		c11 += y * q[9]
		c12 += y * q[10]
		c13 += y * q[11]
		x, y = p[6], p[7]
		c00 += x * q[12]
		c01 += x * q[13]
		c02 += x * q[14]
		c03 += x * q[15]
		c10 += y * q[12]
		c11 += y * q[13]
		c12 += y * q[14]
		c13 += y * q[15]
		a, b = a[8:], b[16:]
	}
	for len(a) >= 2 && len(b) >= 4 {
		p, q := (*[2]float32)(a), (*[4]float32)(b)
		x, y := p[0], p[1]
		c00 += x * q[0]
		c01 += x * q[1]
		c02 += x * q[2]
		c03 += x * q[3]
		c10 += y * q[0]
		c11 += y * q[1]
		c12 += y * q[2]
		c13 += y * q[3]
		a, b = a[2:], b[4:]
	}
	for i, sums := range [2][4]float32{{c00, c01, c02, c03}, {c10, c11, c12, c13}} {
		for j, v := range sums {
			at := i*ldc + j%2
			if j >= 2 {
				at += right
			}
			if add {
				v += c[at]
			}
			c[at] = v
		}
	}
}

// DepthOf is the length of the parts in which a sum over k is computed. Sums that are split at
// multiples of it have the same bits.
func DepthOf(k int) int { return ceil(k, ceil(k, BlockK)) }

func ceil(a, b int) int { return (a + b - 1) / b }

// Dense is a Matrix with strides si and sp, multiplied by scale.
func Dense(data []float32, si, sp int, scale float32) Matrix { return Matrix{data, si, sp, scale} }
