package kernels

import (
	"fmt"
	"math"
	"slices"

	"memopt/memopt/graph"
)

// productTile is a way to part a product: a kernel, and what a group of it owns.
type productTile struct {
	shared        bool // through memory that a group shares
	rows, columns int  // columns 0: two for each lane of a subgroup
	// What a group costs beside others of its kind: for the elements that it
	// loads, and for a row.
	begin, row      int
	singles, paired *graph.Kernel
}

// productTiles are for devices of two kinds. On a driver for the processor,
// whose lanes load one by one and where a barrier is dear, a subgroup works
// alone; there the numbers are measured. Graphics processors have the groups'
// own memory; there a tile that is larger loads less, and one that is smaller
// makes more groups.
var productTiles = func() (tiles []productTile) {
	for _, rows := range []int{12, 8, 4} {
		size := fmt.Sprintf("-DROWS=%d", rows)
		singles := halved(shader(fmt.Sprint("product-", rows), "product.comp", size))
		paired := halvedAs(shader(fmt.Sprintf("product-%d-pairs", rows), "product.comp", size, "-DPAIRS"), singles)
		tiles = append(tiles, productTile{rows: rows, begin: 6, row: 1, singles: singles, paired: paired})
	}
	for _, side := range []int{64, 32} {
		k := halved(shader(fmt.Sprint("product-tiled-", side), "producttiled.comp", fmt.Sprintf("-DTILE=%d", side)))
		tiles = append(tiles, productTile{shared: true, rows: side, columns: side, begin: 8 * side, row: side, singles: k, paired: k})
	}
	return tiles
}()

// busyGroups keep a graphics processor busy.
const busyGroups = 128

// productTileFor is the tile by which a product takes least: whole tiles count,
// and on a graphics processor too few of them.
func productTileFor(l *graph.Lowering, m, n, batch int) productTile {
	var best productTile
	least := math.Inf(1)
	for _, t := range productTiles {
		if t.shared != l.Limits.Shared {
			continue
		}
		if !t.shared {
			t.columns = 2 * l.Limits.Subgroup
		}
		groups := ceilDiv(m, t.rows) * ceilDiv(n, t.columns) * batch
		if t.shared {
			groups = max(groups, busyGroups)
		}
		if cost := float64(groups) * float64(t.begin+t.row*t.rows); cost < least {
			best, least = t, cost
		}
	}
	return best
}

func lowerProduct(of func(n *graph.Node) product) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if onlyF32(l) {
			of(l.Node).lower(l, -1, 0)
		}
	}
}

// lower appends the product of inputs 0 and 1, and beta times the input bias
// if that is not negative.
func (p product) lower(l *graph.Lowering, bias int, beta float64) {
	out := l.Out[0]
	if out.Len() == 0 {
		return
	}
	g := p.layout(l.In[0].Shape, l.In[1].Shape, out.Shape)
	batch, st := mergeStrides(g.batch, g.aBatch, g.bBatch)
	if !mustFit(l, batch, 3) {
		return
	}
	sa, sb := st[0], st[1]
	if len(batch) == 1 && batch[0] > 1 && sb[0] == 0 && sa[0] == g.m*g.a.i && bias < 0 {
		// One B for all: the rows of the whole batch are one tall matrix.
		g.m, batch, sa = g.m*batch[0], []int{1}, []int{0}
	}
	x := loweredProduct{layout: g, shape: batch, sa: sa, sb: sb, alpha: p.alpha, beta: beta, step: g.m * g.n, ldy: g.n, y: writes(0), a: reads(0), b: reads(1), c: reads(1)}
	if bias >= 0 {
		x.c, x.biased = reads(bias), true
		c := broadcastStrides(l.In[bias].Shape, out.Shape)
		x.ci, x.cj = c[0], c[1]
	}
	x.append(l)
}

// loweredProduct is products of matrices that lie anywhere: alpha·A·B, and beta·C
// if that is biased.
type loweredProduct struct {
	layout
	shape, sa, sb []int // the batch, and strides under it
	alpha, beta   float64
	step, ldy     int // from a matrix of Y to the next, from a row to the next
	y, a, b, c    graph.Buffer
	biased        bool
	goesOn        bool // C is what the sums begin with; alpha is 1
	ci, cj, cStep int  // strides of C, and from a matrix of it to the next
}

// factor is the matrices of one factor: where they are, from one to the next, and
// the strides outside (rows of A, columns of B) and along k.
type factor struct {
	graph.Buffer
	step, outside, along int
}

// productOf is products of so many matrices, to be written one behind the other.
func productOf(m, n, k, batch int, a, b factor, y graph.Buffer, step int) loweredProduct {
	x := loweredProduct{layout: layout{m: m, n: n, k: k}, shape: []int{batch}, sa: []int{a.step}, sb: []int{b.step}, alpha: 1, step: step, ldy: n}
	x.layout.a.i, x.layout.a.p, x.layout.b.i, x.layout.b.p = a.outside, a.along, b.outside, b.along
	x.y, x.a, x.b, x.c = y, unwritten(a.Buffer), unwritten(b.Buffer), unwritten(b.Buffer)
	return x
}

// whole appends the products by dispatches that see all of them.
func (g loweredProduct) whole(l *graph.Lowering) {
	trans := g.layout.b.p == 1 && g.layout.b.i != 1
	ldb := g.layout.b.p
	if trans {
		ldb = g.layout.b.i
	}
	sa, sb := g.sa, g.sb
	pairsB := ldb%2 == 0 && (trans || g.n%2 == 0) && allEven(sb)
	tile := productTileFor(l, g.m, g.n, elems(g.shape))
	kernel := tile.singles
	if l.Limits.Int64 {
		kernel = tile.paired
	}
	bias := oneIf(g.biased)
	if g.goesOn {
		bias = 2
	}
	spec := []uint32{uint32(l.Limits.Subgroup), oneIf(trans), bias, 0, 0, 0}
	switch {
	case tile.shared:
		spec = []uint32{oneIf(trans), bias, oneIf(g.layout.a.i == 1 && g.layout.a.p != 1)}
	case l.Limits.Int64:
		spec[3], spec[4], spec[5] = g.pairsA(sa), oneIf(pairsB), oneIf(g.n%2 == 0 && g.step%2 == 0 && g.ldy%2 == 0)
	}
	groups := [3]int{ceilDiv(g.n, tile.columns), ceilDiv(g.m, tile.rows), elems(g.shape)}
	if groups[0] > l.Limits.Groups[0] || groups[1] > l.Limits.Groups[1] {
		l.Refuse("%d × %d tiles are more than the device takes", groups[0], groups[1])
		return
	}
	batch, sa, sb := frontFilled(3, g.shape, 1), frontFilled(3, sa, 0), frontFilled(3, sb, 0)
	for first := 0; first < groups[2]; first += l.Limits.Groups[2] {
		push := words(l, g.m, g.n, g.k, g.layout.a.i, g.layout.a.p, ldb, batch[1], batch[2], sa[0], sa[1], sa[2], sb[0], sb[1], sb[2], first, g.step, g.ldy, g.ci, g.cj, g.cStep)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  kernel,
			Spec:    spec,
			Push:    append(push, bits(g.alpha), bits(g.beta)),
			Buffers: []graph.Buffer{g.y, g.a, g.b, g.c},
			Groups:  [3]int{groups[0], groups[1], min(groups[2]-first, l.Limits.Groups[2])},
		})
	}
}

// pairsA says how A can be loaded by pairs: not (0), along k (1), along i (2).
func (g layout) pairsA(batch []int) uint32 {
	switch {
	case !allEven(batch):
	case g.a.p == 1 && g.a.i%2 == 0:
		return 1
	case g.a.i == 1 && g.a.p%2 == 0 && g.m%2 == 0:
		return 2
	}
	return 0
}

func allEven(strides []int) bool {
	return !slices.ContainsFunc(strides, func(s int) bool { return s%2 != 0 })
}

func lowerGemm(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	bias := -1
	if loweredIn(l, 2) != nil {
		bias = 2
	}
	fusedProduct(l.Node).lower(l, bias, l.Node.Float("beta"))
}

// lowerFusedGemm is Gemm, then the activation in place.
func lowerFusedGemm(l *graph.Lowering) {
	lowerGemm(l)
	lowerActivation(l)
}
