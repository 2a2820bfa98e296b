package kernels

import "memopt/internal/graph"

// InstanceNormalization is GroupNormalization with groups of one channel.
var _ = define(graph.Op{
	Name:    "InstanceNormalization",
	Doc:     "normalizes and scales each channel of each instance",
	In:      "input, scale, B",
	Out:     "output",
	Attrs:   "epsilon float=1e-5",
	Samples: []string{"f32[2,3,4], f32[3], f32[3]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return groupNorm(b, n, 0, false)
	},
})
