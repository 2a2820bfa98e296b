package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// Count increments the number of updates: the first update reads 1.
var _ = define(graph.Op{
	Name:   "Count",
	Domain: own,
	Doc:    "step + 1, or step if the scale is negative",
	In:     "step, scale?",
	Out:    "next",
	Infer: func(n *graph.Node) {
		wantScalar(n, 0, graph.Int64)
		wantScalar(n, 1, graph.Float32)
		sameShape(n)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		next := c.In[0].Int(0) + 1
		if skips(input(c, 1)) {
			next--
		}
		c.Out[0].SetInt(0, next)
	},
	Lower:      lowerCount,
	Flops:      noFlops,
	Tests:      graph.Tests{Work: noWork},
	Recompute:  graph.Never,
	Overwrites: []int{0},
	Role:       graph.RoleCount,
	Samples:    []string{"i64[]", "i64[]{0}", "i64[]{4}, f32[]{-1}", "i64[]{4}, f32[]{0.5}"},
})

func lowerCount(l *graph.Lowering) {
	if lower.In(l, 1) != nil {
		lowerScaledCount(l)
		return
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{Kernel: countKernel, Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0)}, Groups: [3]int{1, 1, 1}})
}

// lowerScaledCount counts an update only if the loss scale says it is applied.
func lowerScaledCount(l *graph.Lowering) {
	lowerScaleMode(l, scaleCount, 1, 0, [6]*graph.Buffer{1: new(lower.Writes(0)), 2: new(lower.Reads(1)), 3: new(lower.Reads(0))})
}

var countKernel = lower.Shader("count", "count.comp")
