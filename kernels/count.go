package kernels

import "memopt/memopt/graph"

// Count numbers the updates: what a step reads is the number of its own
// update, from 1.
var _ = define(graph.Op{
	Name:   "Count",
	Domain: own,
	Doc:    "step + 1",
	In:     "step",
	Out:    "next",
	Infer: func(n *graph.Node) {
		wantScalar(n, 0, graph.Int64)
		sameShape(n)
	},
	NoGrad:     true,
	Eval:       func(c *graph.Call) { c.Out[0].SetInt(0, c.In[0].Int(0)+1) },
	Lower:      lowerCount,
	Flops:      noFlops,
	Recompute:  graph.Never,
	Overwrites: []int{0},
	Role:       graph.RoleCount,
	Samples:    []string{"i64[]", "i64[]{0}"},
})
