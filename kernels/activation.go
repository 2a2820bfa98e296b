package kernels

import (
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// activation describes an elementwise y = f(x) and its gradient dx = dy·f′. The
// gradient is one operator, so it needs one pass over memory and keeps only x or y.
type activation struct {
	name, doc string
	domain    string // of y
	since     int
	attrs     string
	f, slope  func(n *graph.Node) func(float64) float64
	// fromY says that slope is a function of y, so that x need not be kept.
	fromY bool
	// sign: dx is dy where y > 0, else 0, so one bit of y an element is enough.
	sign bool
	// ofOrt: ONNX Runtime has the gradient operator too (domain com.microsoft).
	ofOrt bool
	// fast is f over rows, fastSlope is dx = dy·slope(at); nil applies f or slope by element.
	fast      func(n *graph.Node) func(y, x []float32)
	fastSlope func(n *graph.Node) func(dx, dy, at []float32)
	ints      func(x int64) int64 // nil: floats only
	// shader is f as a pointwise expression of a, shaderSlope the slope as an expression
	// of b; numbers gives their constants p and q. "": no kernel.
	shader, shaderSlope string
	numbers             func(n *graph.Node) []float64
	// fused: ONNX Runtime's fused operators (FusedConv, FusedGemm…) accept it. They carry
	// no attributes for it, and its gradient needs only y.
	fused   bool
	flops   int64
	samples []string
	// kinks are arguments of slope at which it jumps. Samples drawn at random never hit them,
	// and devices must agree there.
	kinks string
}

// plain adapts a function that depends on no attribute.
func plain[F any](f F) func(*graph.Node) F { return func(*graph.Node) F { return f } }

// defineActivation defines the operator and its gradient operator, named with suffix Grad.
func defineActivation(a activation) *graph.Op {
	if a.fast == nil {
		a.fast = func(n *graph.Node) func(y, x []float32) { return scalarRows(a.f(n)) }
	}
	if a.fastSlope == nil {
		a.fastSlope = func(n *graph.Node) func(dx, dy, at []float32) {
			slope := a.slope(n)
			return func(dx, dy, at []float32) {
				for i, v := range at {
					dx[i] = float32(float64(dy[i]) * slope(float64(v)))
				}
			}
		}
	}
	domain, at := own, "X"
	if a.ofOrt {
		domain = microsoft
	}
	if a.fromY {
		at = "Y"
	}
	grad := graph.Op{
		Name:   a.name + "Grad",
		Domain: domain,
		Doc:    "dX = dY·slope of " + a.name + ", by its " + map[bool]string{true: "output", false: "input"}[a.fromY],
		In:     "dY, " + at,
		Out:    "dX",
		Attrs:  a.attrs,
		Infer: func(n *graph.Node) {
			sameTypes(n)
			sameDims(n, n.Inputs[1].Shape, n.Inputs[0].Shape)
			floatMap(n)
		},
		NoGrad: true,
		Eval: func(c *graph.Call) {
			slope := a.slope(c.Node)
			binary{f: func(dy, at float64) float64 { return dy * slope(at) }}.eval(c)
		},
		Fast: func(c *graph.Call) {
			if c.In[0].Type != graph.Float32 {
				c.Node.Op.Eval(c)
				return
			}
			dy, at, dx := c.In[0].F32(), c.In[1].F32(), c.Out[0].F32()
			f := a.fastSlope(c.Node)
			c.Parallel(len(dx), f32.Grain, func(lo, hi int) { f(dx[lo:hi], dy[lo:hi], at[lo:hi]) })
		},
		Flops:     perElement(a.flops + 2),
		Tests:     graph.Tests{Work: eachOut(a.flops + 2)},
		Recompute: graph.Cheap,
		InPlace:   []int{0, 1},
	}
	if a.sign {
		grad.Shrink = signs
	}
	for _, s := range a.samples {
		input, attrs, _ := strings.Cut(s, ";")
		if strings.HasPrefix(input, "f") {
			grad.Samples = append(grad.Samples, input+", "+input+"; "+attrs)
		}
	}
	if a.kinks != "" {
		ones := strings.Repeat(",1", strings.Count(a.kinks, ","))
		grad.Samples = append(grad.Samples, "f32{1"+ones+"}, f32{"+a.kinks+"}")
	}
	if a.shaderSlope != "" {
		grad.Lower = lower.PointwiseBy("a * ("+a.shaderSlope+")", a.numbers)
		grad.Pointwise = true
	}
	if a.fused {
		fusedActivations[a.name] = a.shader
		activationForm.Exprs = append(activationForm.Exprs, a.shader)
	}
	gradient := define(grad)
	var lowering func(*graph.Lowering)
	if a.shader != "" {
		lowering = lower.PointwiseBy(a.shader, a.numbers)
	}
	return define(graph.Op{
		Name:   a.name,
		Domain: a.domain,
		Since:  a.since,
		Doc:    a.doc,
		In:     "X",
		Out:    "Y",
		Attrs:  a.attrs,
		Infer: func(n *graph.Node) {
			if a.ints == nil {
				wantType(n, 0, isFloat, "floats")
			}
			wantType(n, 0, isNumber, "numbers")
			sameShape(n)
		},
		Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
			at := n.Inputs[0]
			if a.fromY {
				at = n.Outputs[0]
			}
			attrs := graph.A{}
			for _, x := range n.Attrs {
				attrs[x.Name] = x.Value
			}
			return b.Apply(gradient, attrs, 1, dy[0], at)
		},
		Eval:      func(c *graph.Call) { unary{f: a.f(c.Node), i: a.ints}.eval(c) },
		Fast:      func(c *graph.Call) { unary{f: a.f(c.Node), i: a.ints}.fast(a.fast(c.Node))(c) },
		Lower:     lowering,
		Pointwise: a.shader != "",
		Flops:     perElement(a.flops),
		Tests:     graph.Tests{Work: eachOut(a.flops)},
		Recompute: graph.Cheap,
		InPlace:   []int{0},
		Samples:   a.samples,
	})
}
