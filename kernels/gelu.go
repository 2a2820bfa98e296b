package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/gelu"
	"memopt/kernels/lower"
)

// geluForm is gelu and its derivative: exact, or by the tanh approximation.
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
		row:      f32.Gelu,
		slopeRow: f32.GeluSlope,
	},
	"tanh": {
		y: func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluInner(x))) },
		dy: func(x float64) float64 {
			t := math.Tanh(geluInner(x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*gelu.Scale*(1+3*gelu.Cubic*x*x)
		},
		row:      f32.GeluTanh,
		slopeRow: f32.GeluTanhSlope,
	},
}

func geluInner(x float64) float64 { return gelu.Scale * (x + gelu.Cubic*x*x*x) }

func geluInfer(n *graph.Node) {
	sameTypes(n)
	wantType(n, 0, isFloat, "floats")
	for _, v := range n.Inputs[1:] {
		sameDims(n, v.Shape, n.Inputs[0].Shape)
	}
	if _, ok := geluForms[n.Str("approximate")]; !ok {
		n.Fail("approximate is %q, not none or tanh", n.Str("approximate"))
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
	Fuse: fuseGelu,
	Eval: func(c *graph.Call) { unary{f: geluForms[c.Node.Str("approximate")].y}.eval(c) },
	Fast: func(c *graph.Call) {
		form := geluForms[c.Node.Str("approximate")]
		unary{f: form.y}.fast(form.row)(c)
	},
	Lower:     lowerGelu,
	Pointwise: true,
	Flops:     perElement(8),
	Tests: graph.Tests{
		Work: eachOut(8),
		Pieces: []string{
			"f32[5001]",
			"bf16[9001]",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,5]", "f32[7]; approximate=\"tanh\"", "f64[3]", "f32[0,2]", "f64[]; approximate=\"tanh\""},
})

// fuseGelu matches x·½·(1 + erf(x/√2)) and x·½·(1 + tanh(√(2/π)·(x + 0.044715·x³))), with
// the factors in any order.
func fuseGelu(m *graph.Match) []*graph.Value {
	p := pieces{m}
	if name := m.Node.Op.FullName(); name != "Mul" && name != "Div" {
		return nil
	}
	y := m.Node.Outputs[0]
	c, fs := p.factors(y)
	if len(fs) != 2 || !closeTo(y, c, 0.5) {
		return nil
	}
	for i, x := range fs {
		form := ""
		if x.Shape.Equal(y.Shape) && p.Either(
			func() bool { form = "none"; return p.onePlusErf(fs[1-i], x) },
			func() bool { form = "tanh"; return p.onePlusTanh(fs[1-i], x) }) {
			return []*graph.Value{m.Builder.Op("Gelu", graph.A{"approximate": form}, x)}
		}
	}
	return nil
}

// onePlusErf reports whether v is 1 + erf(x/√2).
func (p pieces) onePlusErf(v, x *graph.Value) bool {
	of, one := p.plus(v)
	n := p.Piece(of, "Erf")
	if n == nil || one != 1 {
		return false
	}
	inner, c := p.unscaled(n.Inputs[0])
	return inner == x && closeTo(x, c, 1/math.Sqrt2)
}

// onePlusTanh reports whether v is 1 + tanh(√(2/π)·(x + 0.044715·x³)), possibly with x
// factored out of the sum.
func (p pieces) onePlusTanh(v, x *graph.Value) bool {
	of, one := p.plus(v)
	n := p.Piece(of, "Tanh")
	if n == nil || one != 1 {
		return false
	}
	c, fs := p.factors(n.Inputs[0])
	if !closeTo(x, c, gelu.Scale) {
		return false
	}
	if len(fs) == 2 {
		for i, f := range fs {
			if f == x && p.Either(func() bool {
				square, one := p.plus(fs[1-i])
				return one == 1 && p.isCubic(square, x, 2)
			}) {
				return true
			}
		}
		return false
	}
	sum := p.Piece(fs[0], "Add")
	if len(fs) != 1 || sum == nil {
		return false
	}
	for i, f := range sum.Inputs {
		if f == x && p.Either(func() bool { return p.isCubic(sum.Inputs[1-i], x, 3) }) {
			return true
		}
	}
	return false
}

// isCubic reports whether v is 0.044715·x to a power.
func (p pieces) isCubic(v, x *graph.Value, power int) bool {
	if v == nil {
		return false
	}
	c, fs := p.factors(v)
	for _, f := range fs {
		if f != x {
			return false
		}
	}
	return len(fs) == power && closeTo(x, c, gelu.Cubic)
}

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
		c.Parallel(len(dx), f32.Grain, func(lo, hi int) { slope(dx[lo:hi], dy[lo:hi], x[lo:hi]) })
	},
	Lower:     lowerGeluGrad,
	Pointwise: true,
	Flops:     perElement(16),
	Tests:     graph.Tests{Work: eachOut(16)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   []string{"f32[2,5], f32[2,5]", "f32[7], f32[7]; approximate=\"tanh\"", "f32[0,2], f32[0,2]", "f64[], f64[]"},
})

var lowerGelu = lower.Pick(map[string]func(*graph.Lowering){
	"none": lower.Pointwise("a * normal(a)"), "tanh": lower.Pointwise("tanhGelu(a)"),
}, approximation)

var lowerGeluGrad = lower.Pick(map[string]func(*graph.Lowering){
	"none": lower.Pointwise("a * geluSlope(b)"), "tanh": lower.Pointwise("a * tanhGeluSlope(b)"),
}, approximation)

func approximation(l *graph.Lowering) string { return l.Node.Str("approximate") }
