package kernels

import "memopt/memopt/graph"

var (
	productKernel = halved(shader("product", "product.comp"))
	productPairs  = halvedAs(shader("product-pairs", "product.comp", "-DPAIRS"), productKernel)
)

// productRows is the rows that a subgroup owns.
const productRows = 12

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
	trans := g.b.p == 1 && g.b.i != 1
	ldb := g.b.p
	if trans {
		ldb = g.b.i
	}
	even := ldb%2 == 0
	for _, s := range sb {
		even = even && s%2 == 0
	}
	kernel, pairsA := productKernel, false
	if even && l.Limits.Int64 && (trans || g.n%2 == 0) {
		kernel = productPairs
		pairsA = g.pairsA(sa)
	}
	buffers := []graph.Buffer{writes(0), reads(0), reads(1), reads(1)}
	ci, cj := 0, 0
	if bias >= 0 {
		buffers[3] = reads(bias)
		c := broadcastStrides(l.In[bias].Shape, out.Shape)
		ci, cj = c[0], c[1]
	}
	groups := [3]int{ceilDiv(g.n, 2*l.Limits.Subgroup), ceilDiv(g.m, productRows), elems(batch)}
	if groups[0] > l.Limits.Groups[0] || groups[1] > l.Limits.Groups[1] {
		l.Refuse("%d × %d tiles are more than the device takes", groups[0], groups[1])
		return
	}
	batch, sa, sb = frontFilled(3, batch, 1), frontFilled(3, sa, 0), frontFilled(3, sb, 0)
	for first := 0; first < groups[2]; first += l.Limits.Groups[2] {
		push := words(l, g.m, g.n, g.k, g.a.i, g.a.p, ldb, batch[1], batch[2], sa[0], sa[1], sa[2], sb[0], sb[1], sb[2], first, ci, cj)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  kernel,
			Spec:    []uint32{uint32(l.Limits.Subgroup), oneIf(trans), oneIf(bias >= 0), oneIf(g.n%2 == 0), oneIf(pairsA)},
			Push:    append(push, bits(p.alpha), bits(beta)),
			Buffers: buffers,
			Groups:  [3]int{groups[0], groups[1], min(groups[2]-first, l.Limits.Groups[2])},
		})
	}
}

// pairsA reports whether A can be loaded by pairs along i.
func (g layout) pairsA(batch []int) bool {
	for _, s := range batch {
		if s%2 != 0 {
			return false
		}
	}
	return g.a.i == 1 && g.a.p%2 == 0 && g.m%2 == 0
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
