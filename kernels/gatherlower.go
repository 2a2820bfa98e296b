package kernels

import "memopt/memopt/graph"

var (
	gatherKernel = shader("gather", "gather.comp")
	gatherSums   = halved(shader("gather-sums", "gather.comp", "-DSUMS"))
)

// The passes of the kernel.
const (
	gatherPick, gatherClear, gatherChain, gatherAdd = 0, 1, 2, 3
)

// rowsPicked are rows of [before, n, after] by indices, which are an input.
type rowsPicked struct {
	before, n, after, picked int
	indices                  int
	dropped                  int // an index that counts as outside, or −1
}

func (g rowsPicked) pass(l *graph.Lowering, pass uint32, wide bool, local, groups int, buffers ...graph.Buffer) {
	step, kernel := uint32(1), gatherKernel
	if l.In[g.indices].Type == graph.Int64 {
		step = 2
	}
	if pass != gatherPick {
		kernel = gatherSums
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{uint32(local), pass, step, oneIf(wide)}, Push: append(words(l, g.before, g.n, g.after, g.picked), uint32(int32(g.dropped))),
		Buffers: buffers, Groups: inLine(l, groups),
	})
}

func rowsAlong(l *graph.Lowering, data []int, indices int) rowsPicked {
	before, n, after := around(data, axisOf(l.Node, l.Node.Int("axis"), len(data)))
	return rowsPicked{before, n, after, l.In[indices].Len(), indices, -1}
}

func lowerGather(l *graph.Lowering) { rowsAlong(l, l.In[0].Shape, 1).pick(l) }

// pick carries rows of input 0, by words.
func (g rowsPicked) pick(l *graph.Lowering) {
	bytes := g.after * int(l.Out[0].Type.Size())
	if g.after = bytes / 4; bytes%4 != 0 {
		l.Refuse("a row has %d bytes; words are picked", bytes)
		return
	}
	if total := g.before * g.picked * g.after; total > 0 {
		g.pass(l, gatherPick, false, 256, ceilDiv(total, 256), writes(0), reads(0), reads(g.indices), unused(true))
	}
}

func lowerGatherGrad(l *graph.Lowering) { rowsAlong(l, l.Out[0].Shape, 1).add(l, 2) }

// chainOwners share out the rows on a graphics processor. On others a subgroup is best:
// each of them goes through all indices.
const chainOwners = 256

// add chains the indices of each row, and adds up the chains of rows of input dy.
func (g rowsPicked) add(l *graph.Lowering, dy int) {
	if l.Out[0].Type != graph.Float32 || l.In[dy].Type != graph.Float32 {
		l.Refuse("dX is %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	if g.before*g.n*g.after*g.picked == 0 {
		lowerFill(l, 0, 0)
		return
	}
	l.Scratch = int64(4 * (g.n + g.picked))
	work, none := scratch(0, l.Scratch, true), unused(true)
	const local = 256
	owners := l.Limits.Subgroup
	if l.Limits.Shared {
		owners = chainOwners
	}
	g.pass(l, gatherClear, false, local, ceilDiv(g.n, local), none, reads(dy), reads(g.indices), work)
	g.pass(l, gatherChain, false, l.Limits.Subgroup, ceilDiv(owners, l.Limits.Subgroup), none, reads(dy), reads(g.indices), work)
	wide, each := g.after%4 == 0, g.after
	if wide {
		each /= 4
	}
	g.pass(l, gatherAdd, wide, local, ceilDiv(g.before*g.n*each, local), writes(0), reads(dy), reads(g.indices), unwritten(work))
}

func lowerEmbedding(l *graph.Lowering) {
	w := l.In[0].Shape
	rowsPicked{1, w[0], elems(w[1:]), l.In[1].Len(), 1, -1}.pick(l)
}

// lowerEmbeddingGrad drops the rows of the index that stands for padding.
func lowerEmbeddingGrad(l *graph.Lowering) {
	g := rowsPicked{1, l.Out[0].Shape[0], elems(l.Out[0].Shape[1:]), l.In[1].Len(), 1, -1}
	for _, i := range []int{3, 4} {
		if loweredIn(l, i) == nil {
			continue
		}
		v, known := l.Ints(i)
		switch {
		case !known:
			l.Refuse("argument %d is only known when the step runs", i)
			return
		case i == 3:
			g.dropped = int(max(-1, min(v[0], 1<<31-1)))
		case v[0] != 0:
			l.Refuse("gradients are scaled by how often an index is used")
			return
		}
	}
	g.add(l, 0)
}

func lowerFlattenAndUnpad(l *graph.Lowering) {
	x := l.In[0].Shape
	rowsPicked{1, x[0] * x[1], elems(x[2:]), l.In[1].Len(), 1, -1}.pick(l)
	if loweredOut(l, 1) != nil {
		lowerKnownInts(l, 1)
	}
}

func lowerPadAndUnflatten(l *graph.Lowering) {
	lowerFill(l, 0, 0)
	y := l.Out[0].Shape
	indexedRows(l, []int{l.In[1].Len(), 1}, []int{y[0] * y[1], elems(y[2:])}, 0).append(l, indexedBring["none"], reads(0), 1)
}
