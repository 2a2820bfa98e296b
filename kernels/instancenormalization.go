package kernels

import "memopt/memopt/graph"

// InstanceNormalization is GroupNormalization with groups of one channel.
var _ = define(graph.Op{
	Name:  "InstanceNormalization",
	Doc:   "normalises and scales each channel of each instance",
	In:    "input, scale, B",
	Out:   "output",
	Attrs: "epsilon float=1e-5",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return groupNorm(b, n, 0, false)
	},
})
