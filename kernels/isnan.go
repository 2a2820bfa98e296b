package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:      "IsNaN",
	Doc:       "whether x is NaN",
	In:        "X",
	Out:       "Y",
	Infer:     question,
	NoGrad:    true,
	Eval:      func(c *graph.Call) { answer(c, math.IsNaN) },
	Lower:     lower.PointwiseOf("uint(isnan(a))", nil, graph.Bool, graph.Float32, graph.Float32, graph.Float32),
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	Samples:   []string{"f32[2,3]", "f64[]", "f16[3]", "f32[0]"},
})

// question infers a predicate: a bool for each float.
func question(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	n.Set(0, graph.Bool, n.Inputs[0].Shape)
}

func answer(c *graph.Call, f func(x float64) bool) {
	x, y := c.In[0], graph.View[bool](c.Out[0])
	for i := range y {
		y[i] = f(x.Float(i))
	}
}
