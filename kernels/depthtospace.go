package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "DepthToSpace",
	Doc:   "moves channels into blocks of height and width",
	In:    "input",
	Out:   "output",
	Attrs: "blocksize int, mode string=DCR",
	Infer: func(n *graph.Node) {
		s, b := n.Inputs[0].Shape, depthBlock(n)
		c := s[1].FloorDiv(b.Mul(b))
		n.Same(c.Mul(b).Mul(b), s[1], "the channels are not a multiple of blocksize²")
		n.Set(0, n.Inputs[0].Type, graph.Shape{s[0], c, s[2].Mul(b), s[3].Mul(b)})
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("SpaceToDepth", graph.A{"blocksize": n.Int("blocksize"), "mode": n.Str("mode")}, dy[0])}
	},
	Eval:      deepToWide.eval,
	Fast:      deepToWide.fast,
	Lower:     lower.Moves(deepToWide, false),
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,8,2,3]; blocksize=2",
		"f32[2,8,2,3]; blocksize=2 mode=\"CRD\"",
		"f32[1,9,1,2]; blocksize=3",
		"f32[1,2,3,3]; blocksize=1",
		"u8[1,4,1,1]; blocksize=2",
		"f32[0,4,2,3]; blocksize=2",
	},
})

var _ = define(graph.Op{
	Name:  "SpaceToDepth",
	Doc:   "moves blocks of height and width into channels",
	In:    "input",
	Out:   "output",
	Attrs: "blocksize int, mode string=DCR",
	Infer: func(n *graph.Node) {
		s, b := n.Inputs[0].Shape, depthBlock(n)
		h, w := s[2].FloorDiv(b), s[3].FloorDiv(b)
		n.Same(h.Mul(b), s[2], "the height is not a multiple of blocksize")
		n.Same(w.Mul(b), s[3], "the width is not a multiple of blocksize")
		n.Set(0, n.Inputs[0].Type, graph.Shape{s[0], s[1].Mul(b).Mul(b), h, w})
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("DepthToSpace", graph.A{"blocksize": n.Int("blocksize"), "mode": n.Str("mode")}, dy[0])}
	},
	Eval:      wideToDeep.eval,
	Fast:      wideToDeep.fast,
	Lower:     lower.Moves(wideToDeep, false),
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,2,4,6]; blocksize=2",
		"f32[2,2,4,6]; blocksize=2 mode=\"CRD\"",
		"f32[1,1,3,6]; blocksize=3",
		"u8[1,1,2,2]; blocksize=2",
		"f32[0,4,2,4]; blocksize=2",
	},
})

func depthBlock(n *graph.Node) graph.Dim {
	if n.Inputs[0].Rank() != 4 {
		n.Fail("input has rank %d; [N, C, H, W] expected", n.Inputs[0].Rank())
	}
	if n.Int("blocksize") < 1 {
		n.Fail("blocksize is %d; at least 1 expected", n.Int("blocksize"))
	}
	if m := n.Str("mode"); m != "DCR" && m != "CRD" {
		n.Fail("mode is %q, not DCR or CRD", m)
	}
	return graph.Num(int64(n.Int("blocksize")))
}

// depthBox is the box [N, block row, block column, C, H, W] with its strides in the deep
// tensor (many channels) and in the wide one (large height and width).
func depthBox(n *graph.Node, deep, wide []int) (shape, inDeep, inWide []int) {
	b := n.Int("blocksize")
	sd, sw := index.Strides(deep), index.Strides(wide)
	shape = []int{deep[0], b, b, wide[1], deep[2], deep[3]}
	// The channels of deep are [block row, block column, C] (DCR) or [C, block row, block column] (CRD).
	row, column, c := b*wide[1], wide[1], 1
	if n.Str("mode") == "CRD" {
		row, column, c = b, 1, b*b
	}
	inDeep = []int{sd[0], row * sd[1], column * sd[1], c * sd[1], sd[2], sd[3]}
	inWide = []int{sw[0], sw[2], sw[3], sw[1], b * sw[2], b * sw[3]}
	return shape, inDeep, inWide
}

var deepToWide mover = func(c *graph.Call) []lower.Move {
	shape, from, to := depthBox(c.Node, c.In[0].Shape, c.Out[0].Shape)
	return []lower.Move{{Shape: shape, From: from, To: to}}
}

var wideToDeep mover = func(c *graph.Call) []lower.Move {
	shape, to, from := depthBox(c.Node, c.Out[0].Shape, c.In[0].Shape)
	return []lower.Move{{Shape: shape, From: from, To: to}}
}
