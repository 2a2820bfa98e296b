package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Trilu",
	Doc:   "the upper or lower triangle of matrices, from diagonal k; zeros elsewhere",
	In:    "input, k?",
	Out:   "output",
	Attrs: "upper int=1",
	Infer: func(n *graph.Node) {
		if n.Inputs[0].Rank() < 2 {
			n.Fail("input has rank %d; matrices expected", n.Inputs[0].Rank())
		}
		wantType(n, 1, isIndex, "int64")
		if k := n.In(1); k != nil {
			n.Same(k.Shape.Elems(), graph.Num(1), "k must have one element")
		}
		sameShape(n)
		foldMoved(n, 0)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op("Trilu", graph.A{"upper": n.Int("upper")}, dy[0], n.In(1))
		return dx
	},
	Eval:      func(c *graph.Call) { trilu(c, f32.Serial) },
	Fast:      func(c *graph.Call) { trilu(c, c.Parallel) },
	Lower:     lowerTrilu,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[3,4]",
		"f32[3,4]; upper=0",
		"f32[2,4,3], i64[]{1}",
		"f32[2,4,3], i64[]{-1}; upper=0",
		"f32[3,3], i64[]{5}",
		"f32[3,3], i64[]{-7}",
		"f32[3,3], i64{2}; upper=0",
		"f32[0,3]",
		"bool[3,3]",
		"i64[2,2]{1,2,3,4}",
	},
})

func trilu(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	x, y := c.In[0], c.Out[0]
	rank := len(x.Shape)
	height, width, size := x.Shape[rank-2], x.Shape[rank-1], int(x.Type.Size())
	k := 0
	if v := input(c, 1); v != nil {
		k = int(max(-int64(height), min(v.Int(0), int64(width))))
	}
	upper := c.Node.Int("upper") != 0
	parallel(index.Elems(x.Shape[:rank-1]), max(1, f32.Grain/max(1, width)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			// Columns [from, to) are copied.
			edge := r%height + k
			from, to := 0, max(0, min(edge+1, width))
			if upper {
				from, to = max(0, min(edge, width)), width
			}
			row := y.Bytes[r*width*size : (r+1)*width*size]
			copy(row[from*size:to*size], x.Bytes[(r*width+from)*size:])
			clear(row[:from*size])
			clear(row[to*size:])
		}
	})
}

// Trilu of com.microsoft is older than ONNX's, and the same.
var _ = define(graph.Op{
	Name:    "Trilu",
	Domain:  microsoft,
	Doc:     "the upper or lower triangle of matrices; ONNX's Trilu",
	In:      "X, k?",
	Out:     "Y",
	Attrs:   "upper int=1",
	Samples: []string{"f32[3,4], i64[]{1}", "i64[2,3,3]; upper=0"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Op("Trilu", graph.A{"upper": n.Int("upper")}, n.Inputs...)}
	},
})

func lowerTrilu(l *graph.Lowering) {
	x := l.In[0]
	kernel := triluKernels[x.Type.Size()]
	if kernel == nil || x.Type.Size() == 1 && !l.Limits.Int8 {
		l.Refuse("there is no kernel for %s", x.Type)
		return
	}
	rank := len(x.Shape)
	height, width, k := x.Shape[rank-2], x.Shape[rank-1], int64(0)
	if lower.In(l, 1) != nil {
		ks, known := l.Ints(1)
		if !known {
			l.Refuse("k is only known when the step runs")
			return
		}
		k = max(-int64(height), min(ks[0], int64(width)))
	}
	if n := x.Len(); n > 0 {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{lower.OneIf(l.Node.Int("upper") != 0)}, Push: append(lower.Words(l, n, height, width), uint32(int32(k))),
			Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0)}, Groups: lower.InLine(l, index.CeilDiv(n, 256)),
		})
	}
}

var triluKernels = map[int64]*graph.Kernel{
	1: lower.Shader("trilu-1", "trilu.comp", "-DELEMENT=uint8_t"),
	4: lower.Shader("trilu-4", "trilu.comp", "-DELEMENT=uint"),
	8: lower.Shader("trilu-8", "trilu.comp", "-DELEMENT=uvec2"),
}
