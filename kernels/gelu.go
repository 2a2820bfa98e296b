package kernels

import (
	"math"

	"memopt/memopt/graph"
)

// gelu and its derivative, exact and by tanh.
type geluForm struct {
	y, dy    func(x float64) float64
	row      func(y, x []float32)
	slopeRow func(dx, dy, x []float32)
}

var geluForms = map[string]geluForm{
	"none": {
		y: func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
		dy: func(x float64) float64 {
			return 0.5*math.Erfc(-x/math.Sqrt2) + x*math.Exp(-0.5*x*x)/math.Sqrt(2*math.Pi)
		},
		row:      geluRow,
		slopeRow: geluSlopeRow,
	},
	"tanh": {
		y: func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluInner(x))) },
		dy: func(x float64) float64 {
			t := math.Tanh(geluInner(x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*geluScale*(1+3*geluCubic*x*x)
		},
		row:      geluTanhRow,
		slopeRow: geluTanhSlopeRow,
	},
}

const (
	geluScale = 0.7978845608028654 // √(2/π)
	geluCubic = 0.044715
)

func geluInner(x float64) float64 { return geluScale * (x + geluCubic*x*x*x) }

func geluInfer(n *graph.Node) {
	sameTypes(n)
	wantType(n, 0, isFloat, "floats")
	for _, v := range n.Inputs[1:] {
		sameDims(n, v.Shape, n.Inputs[0].Shape)
	}
	if _, ok := geluForms[n.Str("approximate")]; !ok {
		n.Fail("approximate is %q; there are none and tanh", n.Str("approximate"))
	}
	sameShape(n)
}

var _ = define(graph.Op{
	Name:  "Gelu",
	Since: 20,
	Doc:   "y = x·Φ(x)",
	In:    "X",
	Out:   "Y",
	Attrs: "approximate string=none",
	Infer: geluInfer,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("memopt.GeluGrad", graph.A{"approximate": n.Str("approximate")}, dy[0], n.Inputs[0])}
	},
	Eval: func(c *graph.Call) { unary{f: geluForms[c.Node.Str("approximate")].y}.eval(c) },
	Fast: func(c *graph.Call) {
		form := geluForms[c.Node.Str("approximate")]
		unary{f: form.y}.fast(form.row)(c)
	},
	Flops:     perElement(8),
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,5]", "f32[7]; approximate=\"tanh\"", "f64[3]"},
})

var _ = define(graph.Op{
	Name:   "GeluGrad",
	Domain: own,
	Doc:    "dx = dy·(Φ(x) + x·φ(x))",
	In:     "dY, X",
	Out:    "dX",
	Attrs:  "approximate string=none",
	Infer:  geluInfer,
	NoGrad: true,
	Eval: func(c *graph.Call) {
		d := geluForms[c.Node.Str("approximate")].dy
		binary{f: func(dy, x float64) float64 { return dy * d(x) }}.eval(c)
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		slope := geluForms[c.Node.Str("approximate")].slopeRow
		dy, x, dx := c.In[0].F32(), c.In[1].F32(), c.Out[0].F32()
		c.Parallel(len(dx), grain, func(lo, hi int) { slope(dx[lo:hi], dy[lo:hi], x[lo:hi]) })
	},
	Flops:     perElement(16),
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   []string{"f32[2,5], f32[2,5]", "f32[7], f32[7]; approximate=\"tanh\""},
})
