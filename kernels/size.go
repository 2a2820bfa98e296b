package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name: "Size",
	Doc:  "the number of elements",
	In:   "data",
	Out:  "size",
	Infer: func(n *graph.Node) {
		n.Set(0, graph.Int64, graph.Shape{})
		n.SetInts(0, []graph.Dim{n.Inputs[0].Shape.Elems()})
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { c.Out[0].SetInt(0, int64(c.In[0].Len())) },
	Lower:     lower.Known,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Reads:     readsNone,
	Recompute: graph.Cheap,
	Samples:   []string{"f32[2,3]", "i64[]", "bool[0,4]"},
})
