package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var gatherOp = define(graph.Op{
	Name:  "Gather",
	Doc:   "rows of data along an axis, picked by indices",
	In:    "data, indices",
	Out:   "output",
	Attrs: "axis int=0",
	Infer: func(n *graph.Node) {
		x, idx := n.Inputs[0], n.Inputs[1]
		wantType(n, 1, isIndex, "int32 or int64")
		axis := axisOf(n, n.Int("axis"), x.Rank())
		n.Set(0, x.Type, slices.Concat(x.Shape[:axis], idx.Shape, x.Shape[axis+1:]))
		foldMoved(n, 0)
	},
	Ragged: raggedGather,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		return []*graph.Value{b.Op("com.microsoft.GatherGrad", graph.A{"axis": n.Int("axis")}, shapeOf(b, x), n.Inputs[1], dy[0]), nil}
	},
	Whole: sameNumbers(0),
	Index: indexInto(1, func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape[axisOf(n, n.Int("axis"), n.Inputs[0].Rank())] }),
	Eval:  func(c *graph.Call) { gatherRows(c, 0, c.In[1].Len()*gatherOuter(c)) },
	Fast: func(c *graph.Call) {
		rows := c.In[1].Len() * gatherOuter(c)
		c.Parallel(rows, max(1, f32.Grain*rows/max(1, c.Out[0].Len())), func(lo, hi int) { gatherRows(c, lo, hi) })
	},
	Lower:     lowerGather,
	Flops:     noFlops,
	Tests:     graph.Tests{Places: graph.PlaceEach, Work: noWork},
	Reads:     picks,
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[5,3], i64[4]<5",
		"f32[5,3], i64[2,2]<-5",
		"f32[2,4,3], i32[3]<4; axis=1",
		"f32[2,4], i64[2,1]<-4; axis=-1",
		"f32[4], i64[]<4",
		"f32[4,2], i64[0]<4",
		"bool[4,2], i64[3]<4",
		"i64{5,6,7}, i64[]{-1}",
		"i64{5,6,7}, i64{2,0}",
	},
})

// gatherOuter is the product of the dims before the axis: how often the indices are used.
func gatherOuter(c *graph.Call) int {
	before, _, _ := index.Around(c.In[0].Shape, axisOf(c.Node, c.Node.Int("axis"), len(c.In[0].Shape)))
	return before
}

// gatherRows copies output rows [lo, hi), numbered over before × indices.
func gatherRows(c *graph.Call, lo, hi int) {
	x, idx, y := c.In[0], c.In[1], c.Out[0]
	_, n, after := index.Around(x.Shape, axisOf(c.Node, c.Node.Int("axis"), len(x.Shape)))
	bytes, k := after*int(y.Type.Size()), idx.Len()
	for r := lo; r < hi; r++ {
		from := (r/k*n + indexAt(c, idx, r%k, n)) * bytes
		copy(y.Bytes[r*bytes:(r+1)*bytes], x.Bytes[from:])
	}
}

// GatherGrad is ONNX Runtime's. Rows with the same index are added in the order of the
// indices. Workers divide the columns, not the rows: some rows of an embedding are picked
// far more often than others.
var _ = define(graph.Op{
	Name:   "GatherGrad",
	Domain: microsoft,
	Doc:    "the gradient of Gather: rows of dy added at their indices in zeros",
	In:     "shape, indices, dY",
	Out:    "dX",
	Attrs:  "axis int=0",
	Known:  []int{0},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isIndex, "int32 or int64")
		wantType(n, 1, isIndex, "int32 or int64")
		wantType(n, 2, isFloat, "floats")
		shape := graph.Shape(knownDims(n, 0, "shape"))
		axis := axisOf(n, n.Int("axis"), len(shape))
		want := slices.Concat(shape[:axis], n.Inputs[1].Shape, shape[axis+1:])
		if n.Inputs[2].Rank() != len(want) {
			n.Fail("dY has rank %d, not %d", n.Inputs[2].Rank(), len(want))
		}
		for i, d := range want {
			n.Same(n.Inputs[2].Shape[i], d, "dims of dY and of what was gathered")
		}
		n.Set(0, n.Inputs[2].Type, shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		idx, dy, dx := c.In[1], c.In[2], c.Out[0]
		before, n, after := index.Around(dx.Shape, axisOf(c.Node, c.Node.Int("axis"), len(dx.Shape)))
		sums := make([]float64, n)
		for col := range before * after {
			b, a := col/after, col%after
			clear(sums)
			for i := range idx.Len() {
				sums[indexAt(c, idx, i, n)] += dy.Float((b*idx.Len()+i)*after + a)
			}
			for r, s := range sums {
				dx.SetFloat((b*n+r)*after+a, s)
			}
		}
	},
	Fast: func(c *graph.Call) {
		if c.Out[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		idx, dy, dx := c.In[1], c.In[2].F32(), c.Out[0].F32()
		before, n, after := index.Around(c.Out[0].Shape, axisOf(c.Node, c.Node.Int("axis"), len(c.Out[0].Shape)))
		k := idx.Len()
		clearFast(c, c.Out[0].Bytes)
		c.Parallel(before*after, max(16, f32.Grain/max(1, k)), func(lo, hi int) {
			for lo < hi {
				b, a := lo/after, lo%after
				width := min(after-a, hi-lo)
				for i := range k {
					row := dx[(b*n+indexAt(c, idx, i, n))*after+a:][:width]
					for j, d := range dy[(b*k+i)*after+a:][:width] {
						row[j] += d
					}
				}
				lo += width
			}
		})
	},
	Lower:     lowerGatherGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[2].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(2, 1)},
	Recompute: graph.Cheap,
	Samples: []string{
		"i64{5,3}, i64[6]<5, f32[6,3]",
		"i64{5,3}, i64[2,2]<-5, f32[2,2,3]",
		"i64{2,4,3}, i32[3]<4, f32[2,3,3]; axis=1",
		"i64{4}, i64[]<4, f32[]",
		"i64{4,2}, i64[0]<4, f32[0,2]",
		"i64{7,8}, i64[40]<7, f32[40,8]",
		"i64{2,4,8}, i32[9]<4, f32[2,9,8]; axis=1",
		"i64{3,2}, i64[5]<3, f16[5,2]",
	},
})

func rowsAlong(l *graph.Lowering, data []int, indices int) rowsPicked {
	before, n, after := index.Around(data, axisOf(l.Node, l.Node.Int("axis"), len(data)))
	return rowsPicked{before, n, after, l.In[indices].Len(), indices, -1}
}

func lowerGather(l *graph.Lowering) { rowsAlong(l, l.In[0].Shape, 1).pick(l) }

func lowerGatherGrad(l *graph.Lowering) { rowsAlong(l, l.Out[0].Shape, 1).add(l, 2) }

var (
	gatherKernel = lower.Shader("gather", "gather.comp")
	gatherSums   = lower.Halved(lower.Shader("gather-sums", "gather.comp", "-DSUMS"))
)

// The passes of gather.comp.
const (
	gatherPick, gatherClear, gatherChain, gatherAdd = 0, 1, 2, 3
)

// rowsPicked gathers or scatter-adds rows of [before, n, after] by an input of indices.
type rowsPicked struct {
	before, n, after, picked int
	indices                  int // input number
	dropped                  int // an index whose rows are ignored, or −1
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
		Kernel: kernel, Spec: []uint32{uint32(local), pass, step, lower.OneIf(wide)}, Push: append(lower.Words(l, g.before, g.n, g.after, g.picked), uint32(int32(g.dropped))),
		Buffers: buffers, Groups: lower.InLine(l, groups),
	})
}

// pick copies rows of input 0, in 32-bit words.
func (g rowsPicked) pick(l *graph.Lowering) {
	bytes := g.after * int(l.Out[0].Type.Size())
	if g.after = bytes / 4; bytes%4 != 0 {
		l.Refuse("a row has %d bytes; the kernel needs a multiple of 4", bytes)
		return
	}
	if total := g.before * g.picked * g.after; total > 0 {
		g.pass(l, gatherPick, false, 256, index.CeilDiv(total, 256), lower.Writes(0), lower.Reads(0), lower.Reads(g.indices), lower.Unused(true))
	}
}

// chainOwners is the number of invocations that divide the rows on a GPU. Each of them reads
// all indices, so on a CPU driver a subgroup is enough.
const chainOwners = 256

// add links equal indices into a list for each row, then sums the rows of input dy along
// each list: a deterministic scatter-add without atomics.
func (g rowsPicked) add(l *graph.Lowering, dy int) {
	if l.Out[0].Type != graph.Float32 || l.In[dy].Type != graph.Float32 {
		l.Refuse("dX is %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	if g.before*g.n*g.after*g.picked == 0 {
		lower.Fill(l, 0, 0)
		return
	}
	l.Scratch = int64(4 * (g.n + g.picked))
	work, none := lower.Scratch(0, l.Scratch, true), lower.Unused(true)
	const local = 256
	owners := l.Limits.Subgroup
	if l.Limits.Shared {
		owners = chainOwners
	}
	g.pass(l, gatherClear, false, local, index.CeilDiv(g.n, local), none, lower.Reads(dy), lower.Reads(g.indices), work)
	g.pass(l, gatherChain, false, l.Limits.Subgroup, index.CeilDiv(owners, l.Limits.Subgroup), none, lower.Reads(dy), lower.Reads(g.indices), work)
	wide, each := g.after%4 == 0, g.after
	if wide {
		each /= 4
	}
	g.pass(l, gatherAdd, wide, local, index.CeilDiv(g.before*g.n*each, local), lower.Writes(0), lower.Reads(dy), lower.Reads(g.indices), lower.Unwritten(work))
}
