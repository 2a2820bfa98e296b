package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Shape",
	Doc:   "the dims from start to end, as int64",
	In:    "data",
	Out:   "shape",
	Attrs: "start int=0, end int",
	Infer: func(n *graph.Node) {
		lo, hi := shapeRange(n, n.Inputs[0].Rank())
		n.Set(0, graph.Int64, graph.Dims(int64(hi-lo)))
		n.SetInts(0, n.Inputs[0].Shape[lo:hi])
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		lo, hi := shapeRange(c.Node, len(c.In[0].Shape))
		for i, d := range c.In[0].Shape[lo:hi] {
			c.Out[0].SetInt(i, int64(d))
		}
	},
	Lower:     lower.Known,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Reads:     readsNone,
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,4]",
		"f32[2,3,4]; start=1",
		"f32[2,3,4]; start=-2 end=-1",
		"f32[2,3,4]; start=-9 end=9",
		"f32[2,3]; start=1 end=0",
		"bool[]",
	},
})

// shapeRange clamps start and end to [0, rank].
func shapeRange(n *graph.Node, rank int) (lo, hi int) {
	clamp := func(i int) int {
		if i < 0 {
			i += rank
		}
		return min(max(i, 0), rank)
	}
	lo, hi = clamp(n.Int("start")), rank
	if n.Has("end") {
		hi = clamp(n.Int("end"))
	}
	return lo, max(lo, hi)
}
