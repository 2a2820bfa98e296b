package lower

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// productTile is a row of the table of product kernels: a kernel and the tile of the result
// that one workgroup computes. All tiles sum in the same order.
type productTile struct {
	name          string
	shared        bool // uses workgroup shared memory
	rows, columns int  // columns 0: two for each lane of a subgroup
	threads, slab int  // if shared: invocations, and terms in shared memory at a time
	// Relative cost of a workgroup: fixed, and for each row.
	begin, row      int
	singles, paired *graph.Kernel
	gathers         *graph.Kernel // if shared: B is an image, for convolutions
	spec            []uint32      // specialization constants after the common ones
	addresses       bool          // paired has a form that finds lines of B by address
}

// productTiles has tiles for two kinds of devices. On CPU drivers, where lanes load one by one
// and barriers are expensive, each subgroup works alone; their costs are measured. GPUs use
// shared memory; there a larger tile loads less, a smaller one makes more workgroups.
var productTiles = func() (tiles []productTile) {
	for _, rows := range []int{12, 8, 4} {
		size := fmt.Sprintf("-DROWS=%d", rows)
		singles := Halved(Shader(fmt.Sprint("product-", rows), "product.comp", size))
		paired := halvedAs(Shader(fmt.Sprintf("product-%d-pairs", rows), "product.comp", size, "-DPAIRS"), singles)
		tiles = append(tiles, productTile{name: fmt.Sprint("alone-", rows), rows: rows, begin: 6, row: 1, singles: singles, paired: paired, addresses: true})
	}
	for _, t := range []struct{ rows, columns, down, across, slab int }{ // down × across elements for an invocation
		{128, 128, 8, 8, 8}, {128, 64, 8, 4, 8}, {64, 64, 8, 8, 8}, {64, 64, 4, 4, 16}, {32, 32, 4, 4, 16},
	} {
		size := fmt.Sprintf("%dx%d-%dx%d", t.rows, t.columns, t.down, t.across)
		args := []string{fmt.Sprintf("-DTM=%d", t.rows), fmt.Sprintf("-DTN=%d", t.columns), fmt.Sprintf("-DRM=%d", t.down), fmt.Sprintf("-DRN=%d", t.across), fmt.Sprintf("-DSLAB=%d", t.slab)}
		k := Halved(Shader("product-tiled-"+size, "producttiled.comp", args...))
		// By term, an invocation multiplies down·across times and loads down + across from shared memory;
		// the group loads rows + columns.
		each := 16 * (t.down*t.across + t.down + t.across)
		tiles = append(tiles, productTile{
			name: size, shared: true, rows: t.rows, columns: t.columns, threads: t.rows / t.down * t.columns / t.across, slab: t.slab,
			begin: 64 * (t.rows + t.columns), row: t.columns * each / (t.down * t.across), singles: k, paired: k,
			gathers: Halved(Shader("convolution-tiled-"+size, "producttiled.comp", append(args, "-DCONV")...)), addresses: true,
		})
	}
	return tiles
}()

// sharedBytes is the shared memory of a workgroup: two slabs of each factor, with lines padded by four.
func (t productTile) sharedBytes() int { return 2 * 4 * t.slab * (t.rows + t.columns + 8) }

// addressedTerms is the most terms that a subgroup sums at a time on a CPU driver if lines of B
// are found by address. With more terms the strip of B that all its tiles read does not stay
// in the L1 cache, and gathers are not prefetched: 512 terms run at 13–16 GFLOP/s, not 20.
// Lines that are contiguous along the terms are prefetched anyway.
const addressedTerms = 384

// BusyGroups is the number of workgroups that keeps a GPU busy.
const BusyGroups = 128

// worthTrying is how many times the least estimated cost a tile's may be for it to be measured.
const worthTrying = 3

// tilesFor lists the tiles that a device can run by estimated cost: partial tiles cost as much as
// whole ones, and on a GPU having fewer than BusyGroups is penalized.
func tilesFor(l *graph.Lowering, m, n, batch int) (tiles []productTile) {
	costs := map[string]float64{}
	least := math.Inf(1)
	for _, t := range productTiles {
		if t.shared != l.Limits.Shared || !Fits(t.threads, l.Limits.Invocations) || t.shared && !Fits(t.sharedBytes(), l.Limits.SharedBytes) {
			continue
		}
		if !t.shared {
			t.columns = 2 * l.Limits.Subgroup
		}
		groups := index.CeilDiv(m, t.rows) * index.CeilDiv(n, t.columns) * batch
		if t.shared {
			groups = max(groups, BusyGroups)
		}
		costs[t.name] = float64(groups) * float64(t.begin+t.row*t.rows)
		least = min(least, costs[t.name])
		tiles = append(tiles, t)
	}
	slices.SortStableFunc(tiles, func(a, b productTile) int { return cmp.Compare(costs[a.name], costs[b.name]) })
	if p := l.Limits.Picker; p != nil && p.All {
		return tiles
	}
	return slices.DeleteFunc(tiles, func(t productTile) bool { return costs[t.name] > worthTrying*least })
}

// Fits reports whether n is within a limit; 0 is none.
func Fits(n, limit int) bool { return limit == 0 || n <= limit }

// productTileFor picks the tile of a product.
func productTileFor(l *graph.Lowering, m, n, k, batch int, form string) productTile {
	tiles := tilesFor(l, m, n, batch)
	name := l.Pick(fmt.Sprintf("product%s %d×%d×%d×%d", form, SizeClass(m), SizeClass(n), SizeClass(k), SizeClass(batch)), tileNames(tiles)...)
	return tiles[slices.IndexFunc(tiles, func(t productTile) bool { return t.name == name })]
}

func tileNames(tiles []productTile) (names []string) {
	for _, t := range tiles {
		names = append(names, t.name)
	}
	return names
}

// SizeClass rounds a size up to a power of two or half more.
func SizeClass(n int) int {
	c := 1
	for ; c < n; c *= 2 {
		if c+c/2 >= n {
			return c + c/2
		}
	}
	return c
}

// Lower appends the product of inputs 0 and 1, plus beta times input number bias unless bias
// is negative.
func (p Product) Lower(l *graph.Lowering, bias int, beta float64) {
	out := l.Out[0]
	if out.Len() == 0 {
		return
	}
	g := p.Layout(l.In[0].Shape, l.In[1].Shape, out.Shape)
	batch, st := index.Merge(g.Batch, g.ABatch, g.BBatch)
	if !MustFit(l, batch, 3) {
		return
	}
	sa, sb := st[0], st[1]
	if len(batch) == 1 && batch[0] > 1 && sb[0] == 0 && sa[0] == g.M*g.A.I && bias < 0 {
		// All matrices share B: the whole batch is one tall matrix.
		g.M, batch, sa = g.M*batch[0], []int{1}, []int{0}
	}
	x := Products{Layout: g, shape: batch, Sa: sa, Sb: sb, Alpha: p.Alpha, Beta: beta, Step: g.M * g.N, Ldy: g.N, Y: Writes(0), A: Reads(0), B: Reads(1), C: Reads(1)}
	if bias >= 0 {
		x.C, x.Biased = Reads(bias), true
		c := index.Broadcast(l.In[bias].Shape, out.Shape)
		x.Ci, x.Cj = c[0], c[1]
	}
	x.spreads = true
	x.Append(l)
}

// Products is a batch of products alpha·A·B (+ beta·C if biased) of strided matrices.
type Products struct {
	Layout
	shape, Sa, Sb       []int // batch dims, and their strides in A and B
	first, batches      int   // compute matrices [first, first+batches); batches 0 means all
	Alpha, Beta         float64
	Step, Ldy           int   // strides of Y between matrices and between rows
	sy                  []int // strides of the batch dims in Y, if its matrices are not contiguous
	Y, A, B, C          graph.Buffer
	FromA, FromB, FromY int // offsets of the first element
	FromC               int
	Biased              bool
	GoesOn              bool          // accumulate: sums start from C; alpha is 1
	Ci, Cj, CStep       int           // strides of C within a matrix, and along the last batch dim
	lines               *graph.Buffer // nil, or a table of the offsets of B's lines
	ofA, ofB            *graph.Buffer // nil, or the original of a factor that was copied
	roomB               bool          // B's rows are padded: an odd last column may be loaded as a pair
	places              *places       // nil, or the positions of an image that Y's columns are
	// spreads: factors may be copied to another layout, in work space from byte work on.
	spreads bool
	work    int64
}

// places maps columns of Y to positions of an image: width columns for each line of the image,
// of which the first whole are stored, with strides line and place.
type places struct{ width, whole, line, place int }

// Factor is the matrices of one factor: buffer, stride between matrices, and strides along
// the outer dim (rows of A, columns of B) and along k.
type Factor struct {
	graph.Buffer
	Step, Outside, Along int
}

// ProductsOf is a batch of products whose results are at stride step.
func ProductsOf(m, n, k, batch int, a, b Factor, y graph.Buffer, step int) Products {
	x := Products{Layout: Layout{M: m, N: n, K: k}, shape: []int{batch}, Sa: []int{a.Step}, Sb: []int{b.Step}, Alpha: 1, Step: step, Ldy: n}
	x.Layout.A.I, x.Layout.A.P, x.Layout.B.I, x.Layout.B.P = a.Outside, a.Along, b.Outside, b.Along
	x.Y, x.A, x.B, x.C = y, Unwritten(a.Buffer), Unwritten(b.Buffer), Unwritten(b.Buffer)
	return x
}

// dispatch appends the products without splitting their operands.
func (g Products) dispatch(l *graph.Lowering) {
	trans := g.trans()
	ldb := g.Layout.B.P
	if trans {
		ldb = g.Layout.B.I
	}
	sa, sb := g.Sa, g.Sb
	var tile productTile
	if of, ok := g.cooperates(l); ok {
		tile = g.cooperativeTile(l, of, index.Elems(g.shape))
	} else {
		tile = productTileFor(l, g.M, g.N, g.K, index.Elems(g.shape), g.form())
	}
	if rows, columns := l.Limits.Groups[1]*tile.rows, l.Limits.Groups[0]*tile.columns; g.M > rows || g.N > columns {
		if g.places != nil && g.N > g.places.width {
			columns = max(1, columns/g.places.width) * g.places.width
		}
		for i := 0; i < g.M; i += rows {
			for j := 0; j < g.N; j += columns {
				part := g.strip(i, j, i*g.Layout.A.I, j*g.Layout.B.I)
				part.M, part.N = min(rows, g.M-i), min(columns, g.N-j)
				part.dispatch(l)
			}
		}
		return
	}
	kernel := tile.singles
	switch {
	case l.Limits.Addressed && tile.addresses && (tile.shared || l.Limits.Int64 && (trans || g.K <= addressedTerms)):
		kernel = addressed(tile.paired)
	case l.Limits.Int64:
		kernel = tile.paired
	}
	batch, sa, sb, sy := index.Padded(3, g.shape, 1), index.Padded(3, sa, 0), index.Padded(3, sb, 0), index.Padded(3, g.sy, 0)
	if g.sy == nil {
		sy = index.Padded(3, g.inLine(g.Step), 0)
	}
	at, lines := places{width: 1}, Unused(false)
	if g.places != nil {
		at = *g.places
	}
	if g.lines != nil {
		lines = *g.lines
	}
	bias := OneIf(g.Biased)
	if g.GoesOn {
		bias = 2
	}
	spec := []uint32{uint32(l.Limits.Subgroup), OneIf(trans), bias, 0, 0, 0, OneIf(g.lines != nil), OneIf(g.places != nil)}
	switch {
	case tile.spec != nil:
		spec = append([]uint32{OneIf(trans), bias, OneIf(g.alongI()), spec[6], spec[7]}, tile.spec...)
	case tile.shared:
		spec = []uint32{bias, tile.whole(g.M, g.N, g.K), OneIf(trans), OneIf(g.alongI())}
	case l.Limits.Int64:
		spec[3], spec[4] = g.pairsA(), OneIf(g.pairsB())
		spec[5] = OneIf(g.places == nil && g.N%2 == 0 && allEven(sy) && allEven([]int{g.Ldy, g.FromY}))
	}
	if g.batches == 0 {
		g.batches = index.Elems(g.shape)
	}
	groups := [3]int{index.CeilDiv(g.N, tile.columns), index.CeilDiv(g.M, tile.rows), g.batches}
	for done := 0; done < groups[2]; done += l.Limits.Groups[2] {
		push := Words(l, g.M, g.N, g.K, g.Layout.A.I, g.Layout.A.P, ldb, batch[1], batch[2], sa[0], sa[1], sa[2], sb[0], sb[1], sb[2], sy[0], sy[1], sy[2], g.first+done)
		push = append(push, uint32(int64(g.FromA)), uint32(int64(g.FromB)), uint32(int64(g.FromY)))
		push = append(push, Words(l, g.Ldy, g.FromC, g.Ci, g.Cj, g.CStep)...)
		push = append(push, Bits(g.Alpha), Bits(g.Beta))
		buffers := []graph.Buffer{g.Y, g.A, g.B, g.C}
		if !tile.shared || tile.spec != nil {
			push, buffers = append(push, Words(l, at.width, at.whole, at.line, at.place)...), append(buffers, lines)
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  kernel,
			Spec:    spec,
			Push:    push,
			Buffers: buffers,
			Groups:  [3]int{groups[0], groups[1], min(groups[2]-done, l.Limits.Groups[2])},
		})
	}
}

// whole says of which sides a product's tiles are whole, as producttiled.comp has it.
func (t productTile) whole(m, n, k int) uint32 {
	return OneIf(m%t.rows == 0) | OneIf(n%t.columns == 0)<<1 | OneIf(k%t.slab == 0)<<2
}

// form tells products apart by what is contiguous.
func (g Products) form() string {
	form := ""
	if g.alongI() {
		form += " TA"
	}
	if g.trans() {
		form += " TB"
	}
	return form
}

// alongI reports whether A is contiguous along its rows alone.
func (g Layout) alongI() bool { return g.A.I == 1 && g.A.P != 1 }

// trans reports whether B is contiguous along k.
func (g Layout) trans() bool { return g.B.P == 1 && g.B.I != 1 }

// pairsA is how A can be loaded in pairs: not at all (0), along k (1), along i (2).
func (g Products) pairsA() uint32 {
	switch i, p := g.Layout.A.I, g.Layout.A.P; {
	case !allEven(g.Sa) || g.FromA%2 != 0:
	case p == 1 && i%2 == 0:
		return 1
	case i == 1 && p%2 == 0 && g.M%2 == 0:
		return 2
	}
	return 0
}

// pairsB reports whether B can be loaded in pairs.
func (g Products) pairsB() bool {
	switch i, p := g.Layout.B.I, g.Layout.B.P; {
	case !allEven(g.Sb) || g.FromB%2 != 0:
		return false
	case g.lines != nil:
		return true // lines begin at even offsets
	case g.trans():
		return i%2 == 0
	default:
		return p%2 == 0 && (g.N%2 == 0 || g.roomB)
	}
}

// pagesA reports whether A is column-major with columns a multiple of a page apart, which
// evict each other from the cache. Rows that far apart do no harm: a tile has few.
func (g Products) pagesA() bool { return g.pairsA() == 2 && g.Layout.A.P%pageFloats == 0 }

// pagesB reports whether the lines of B are a multiple of a page apart.
func (g Products) pagesB() bool {
	return g.lines == nil && max(g.Layout.B.I, g.Layout.B.P)%pageFloats == 0
}

// Limits of copying a factor to another layout: spreadBytes fit a core's cache; copying pays
// if each element is used spreadUses times in spreadWork multiplications. Lines that are
// pages apart only hurt if there are at least pagesUses of them.
const (
	spreadBytes = 1 << 20
	spreadUses  = 64
	spreadWork  = 1 << 19
	pagesUses   = 256
)

// Whole appends the products. On CPU drivers, factors with lines of odd length, which cannot be
// loaded in pairs, and those whose lines evict each other from the cache are copied to work
// space in another layout, some columns of B and some rows of A at a time. The work space is
// counted on every device, so that plans do not depend on the device.
func (g Products) Whole(l *graph.Lowering) {
	const most, fewest = spreadBytes / 4, 32
	all, slots := index.Elems(g.shape), 1
	anew := struct{ a, b bool }{g.pairsA() == 0 && g.N >= spreadUses, !g.pairsB() && g.M >= spreadUses}
	if min(g.M, g.N, g.K) >= pagesUses {
		// A is copied again for every strip of B, which does not pay if strips are narrow.
		both := most/g.K-fewest >= spreadUses
		anew.a = anew.a || g.pagesA() && (both || !anew.b)
		anew.b = anew.b || g.pagesB() && (both || !anew.a)
	}
	if !g.spreads || g.M*g.N*g.K*all < spreadWork || !anew.a && !anew.b {
		g.inStrips(l, most, fewest)
		return
	}
	// How many of n lines along k, or across it, to copy at a time, the elements they take,
	// and the most elements of work space.
	along := func(n, multiple int) (part, size, room int) {
		line := roomy(g.K)
		part = partOf(n, most/line, multiple)
		return part, part * line, min(all*n*line, max(most, multiple*line))
	}
	across := func(n, multiple int) (part, size, room int) {
		part = partOf(n, most/g.K-fewest, multiple)
		return part, g.K * roomy(part), min(all*g.K*roomy(n), max(most, g.K*roomy(multiple)))
	}
	rows, columns := g.M, g.N
	var sizeA, sizeB, roomA, roomB int
	switch {
	case anew.a && g.pairsA() == 2:
		rows, sizeA, roomA = across(g.M, productTiles[0].rows)
	case anew.a:
		rows, sizeA, roomA = along(g.M, productTiles[0].rows)
	}
	switch {
	case anew.b && g.trans():
		columns, sizeB, roomB = along(g.N, fewest)
	case anew.b:
		columns, sizeB, roomB = across(g.N, fewest)
	}
	if rows == g.M && columns == g.N {
		slots = min(all, max(1, most/max(sizeA, sizeB)))
	}
	toA := Scratch(g.work, int64(4*roomA), true)
	toB := Scratch(Aligned(toA.At+toA.Bytes), int64(4*roomB), true)
	l.Scratch = max(l.Scratch, toB.At+toB.Bytes)
	toA.Bytes, toB.Bytes = int64(4*slots*sizeA), int64(4*slots*sizeB)
	if _, cooperates := g.cooperates(l); cooperates || l.Limits.Shared || !l.Limits.Int64 {
		g.dispatch(l)
		return
	}
	for first := 0; first < all; first += slots {
		for j := 0; j < g.N; j += columns {
			strip := g.strip(0, j, 0, j*g.Layout.B.I)
			strip.first, strip.batches, strip.N = first, min(slots, all-first), min(columns, g.N-j)
			if anew.b {
				strip.spreadB(l, toB)
			}
			for i := 0; i < g.M; i += rows {
				part := strip.strip(i, 0, i*g.Layout.A.I, 0)
				part.M = min(rows, g.M-i)
				if anew.a {
					part.spreadA(l, toA, j == 0 || rows < g.M)
				}
				part.dispatch(l)
			}
		}
	}
}

// inStrips appends the products in strips of columns of B, if B exceeds a core's cache: every
// row tile reads the whole strip.
func (g Products) inStrips(l *graph.Lowering, most, fewest int) {
	columns := g.N
	if !l.Limits.Shared && g.M > productTiles[0].rows && g.K <= most/fewest {
		columns = partOf(g.N, most/max(1, g.K), fewest)
	}
	for j := 0; j < g.N; j += columns {
		strip := g.strip(0, j, 0, j*g.Layout.B.I)
		strip.N = min(columns, g.N-j)
		strip.dispatch(l)
	}
}

// strip is the products from a row and a column on; a and b are the offsets in A and B. With
// places, it begins at the start of a line or lies within one.
func (g Products) strip(row, column, a, b int) Products {
	g.FromC += row*g.Ci + column*g.Cj
	if p := g.places; p != nil {
		within := column % p.width
		g.places = &places{p.width, max(0, p.whole-within), p.line, p.place}
		column = column/p.width*p.line + within*p.place
	}
	if g.lines != nil && g.trans() && column > 0 {
		at := int64(4 * column) // the table has an entry for each column of B
		g.lines, b = &graph.Buffer{Place: g.lines.Place, Index: g.lines.Index, At: g.lines.At + at, Bytes: g.lines.Bytes - at}, 0
	}
	g.FromA, g.FromB, g.FromY = g.FromA+a, g.FromB+b, g.FromY+row*g.Ldy+column
	return g
}

// partOf is n if that is at most most, else the largest multiple that is, but at least one.
func partOf(n, most, multiple int) int {
	if n <= most {
		return n
	}
	return min(n, max(1, most/multiple)*multiple)
}

// spreadA copies A to a padded layout, or with anew false only refers to the copy. The copy
// is contiguous along k, or along i if A was.
func (g *Products) spreadA(l *graph.Lowering, to graph.Buffer, anew bool) {
	a := &g.Layout.A
	s := g.spread(to, g.A, g.Sa, g.FromA, g.M, g.K, a.I, a.P)
	if g.pairsA() == 2 {
		s = g.spread(to, g.A, g.Sa, g.FromA, g.K, g.M, a.P, a.I)
		a.P = s.width
	} else {
		a.I, a.P = s.width, 1
	}
	if anew {
		s.append(l)
	}
	g.A, g.Sa, g.FromA = g.spreadTo(s)
}

// spreadB copies B to a padded layout.
func (g *Products) spreadB(l *graph.Lowering, to graph.Buffer) {
	b := &g.Layout.B
	s := g.spread(to, g.B, g.Sb, g.FromB, g.K, g.N, b.P, b.I)
	width := &b.P
	if g.trans() {
		s = g.spread(to, g.B, g.Sb, g.FromB, g.N, g.K, b.I, b.P)
		width = &b.I
	}
	s.append(l)
	*width = s.width
	g.B, g.Sb, g.FromB = g.spreadTo(s)
	g.roomB = true
}

func (g *Products) spread(to, from graph.Buffer, st []int, at, rows, elements, down, along int) spread {
	return spread{
		to: to, from: from, shape: g.shape, sx: st, first: g.first, slots: g.batches, at: at,
		channels: 1, taps: [3]int{1, 1, 1}, step: [3]int{0, 1, 1}, size: [3]int{1, rows, elements}, strides: [3]int{0, down, along},
		rows: rows, whole: elements, width: roomy(elements),
	}
}

// spreadTo returns the buffer, batch strides and offset of the copied matrices.
func (g *Products) spreadTo(s spread) (b graph.Buffer, st []int, at int) {
	size := s.rows * s.width
	return Unwritten(s.to), g.inLine(size), -g.first * size
}

func allEven(strides []int) bool {
	return !slices.ContainsFunc(strides, func(s int) bool { return s%2 != 0 })
}
