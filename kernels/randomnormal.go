package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:  "RandomNormal",
	Doc:   "normal random numbers with a mean and scale",
	Out:   "output",
	Attrs: "dtype int=1, mean float=0, scale float=1, seed float, shape ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return randomOf(b, n, shapeAttr(b, n), graph.Float32, 1, n.Float("mean"), n.Float("scale"))
	},
	Samples: []string{"; shape=[2, 3]", "; shape=[5] mean=-1.0 scale=2.0 dtype=11 seed=3.0"},
})

var _ = define(graph.Op{
	Name:  "RandomNormalLike",
	Doc:   "normal random numbers with a mean and scale, in the shape of another tensor",
	In:    "input",
	Out:   "output",
	Attrs: "dtype int, mean float=0, scale float=1, seed float",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return randomOf(b, n, shapeOf(b, n.Inputs[0]), likeType(n), 1, n.Float("mean"), n.Float("scale"))
	},
	Samples: []string{"f32[2,3]", "i64[5]; dtype=1 mean=-1.0 seed=2.0"},
})
