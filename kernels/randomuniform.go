package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:  "RandomUniform",
	Doc:   "random numbers, uniform in [low, high)",
	Out:   "output",
	Attrs: "dtype int=1, high float=1, low float=0, seed float, shape ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return randomOf(b, n, shapeAttr(b, n), graph.Float32, 0, n.Float("low"), n.Float("high")-n.Float("low"))
	},
	Samples: []string{"; shape=[2, 3]", "; shape=[5] low=-1.0 high=2.0 dtype=11 seed=3.0"},
})

var _ = define(graph.Op{
	Name:  "RandomUniformLike",
	Doc:   "random numbers, uniform in [low, high), in the shape of another tensor",
	In:    "input",
	Out:   "output",
	Attrs: "dtype int, high float=1, low float=0, seed float",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return randomOf(b, n, shapeOf(b, n.Inputs[0]), likeType(n), 0, n.Float("low"), n.Float("high")-n.Float("low"))
	},
	Samples: []string{"f32[2,3]", "i64[5]; dtype=1 low=-1.0 seed=2.0"},
})
