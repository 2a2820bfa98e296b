package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Pow",
	Since: 7,
	Doc:   "z = xʸ, broadcast, in the type of x",
	In:    "X, Y",
	Out:   "Z",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		wantType(n, 1, isNumber, "numbers")
		out := broadcast(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
		n.Set(0, n.Inputs[0].Type, out)
		foldPairs(n, out, func(x, y graph.Dim) (graph.Dim, bool) {
			e, ok := y.Const()
			if !ok || e < 0 || e > 8 {
				return graph.Dim{}, false
			}
			z := graph.Num(1)
			for range e {
				z = z.Mul(x)
			}
			return z, true
		})
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, y, z := n.Inputs[0], n.Inputs[1], n.Outputs[0]
		dx := []*graph.Value{sumTo(b, b.Op("memopt.PowGrad", nil, dy[0], x, y), x.Shape), nil}
		if y.Type.IsFloat() && y.Kind != graph.Const {
			// z·ln x; 0 where x ≤ 0, as ln x is undefined.
			slope := b.Op("Mul", nil, b.Op("Mul", nil, dy[0], z), b.Op("Log", nil, x))
			zero := num(b, x, 0)
			dx[1] = cast(b, sumTo(b, b.Op("Where", nil, b.Op("Greater", nil, x, zero), slope, zero), y.Shape), y.Type)
		}
		return dx
	},
	Eval: func(c *graph.Call) {
		x, y, z := c.In[0], c.In[1], c.Out[0]
		index.Walk(z.Shape, 0, z.Len(), func(i int, at []int) {
			switch {
			case x.Type.IsFloat():
				z.SetFloat(i, math.Pow(x.Float(at[0]), y.Float(at[1])))
			case y.Type.IsFloat() || y.Int(at[1]) < 0:
				z.SetInt(i, toInt(z.Type, math.Pow(x.Float(at[0]), y.Float(at[1]))))
			default:
				z.SetInt(i, wholePower(x.Int(at[0]), y.Int(at[1])))
			}
		}, index.Broadcast(x.Shape, z.Shape), index.Broadcast(y.Shape, z.Shape))
	},
	Fast: func(c *graph.Call) {
		row, ok := powerRows[exponent(c.In[1])]
		if !ok || c.In[0].Type != graph.Float32 || c.In[0].Len() != c.Out[0].Len() {
			c.Node.Op.Eval(c)
			return
		}
		x, z := c.In[0].F32(), c.Out[0].F32()
		c.Parallel(len(z), f32.Grain, func(lo, hi int) { row(z[lo:hi], x[lo:hi]) })
	},
	Lower:     lowerPow,
	Pointwise: true,
	Flops:     perElement(10),
	Tests:     graph.Tests{Work: eachOut(10)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3]>0, f32[2,3]",
		"f32[4,2,3]>0, f32[3]",
		"f32[2,1]>0, f32[4,1,3]",
		"f32[2,3], f32[]{2}",
		"f32[2,3], f32[]{3}",
		"f32[2,3], f32[1]{-1}",
		"f32[2,3]>0, f32[]{0.5}",
		"f32[2,3]>0, f32[]{-0.5}",
		"f32[2,3]>0, f32[]{1.7}",
		"f32[2,3], i64[]{2}",
		"f32[]>0, f32[2]",
		"i64[3], i64[3]>0",
		"i64{2,3}, i64[]{2}",
		"i32[3], f32[3]>0",
		"f32[0,3], f32[3]",
	},
})

var _ = alignAt("Pow")

// exponent is the only element of y, or NaN if it has several.
func exponent(y *graph.Tensor) float64 {
	if y.Len() != 1 {
		return math.NaN()
	}
	return y.Float(0)
}

// powerRows has the common exponents of normalizations and losses.
var powerRows = map[float64]func(z, x []float32){
	2: func(z, x []float32) {
		for i, v := range x {
			z[i] = v * v
		}
	},
	3: func(z, x []float32) {
		for i, v := range x {
			z[i] = v * v * v
		}
	},
	0.5: func(z, x []float32) {
		for i, v := range x {
			z[i] = float32(math.Sqrt(float64(v)))
		}
	},
	-0.5: func(z, x []float32) {
		for i, v := range x {
			z[i] = float32(1 / math.Sqrt(float64(v)))
		}
	},
	-1: func(z, x []float32) {
		for i, v := range x {
			z[i] = 1 / v
		}
	},
}

// wholePower is xⁿ by repeated squaring, wrapping around on overflow.
func wholePower(x, n int64) int64 {
	z := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			z *= x
		}
		x *= x
	}
	return z
}

var _ = define(graph.Op{
	Name:   "PowGrad",
	Domain: own,
	Doc:    "dz·y·xʸ⁻¹, broadcast: the gradient of X in Pow before broadcasting is undone",
	In:     "dZ, X, Y",
	Out:    "dX",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		sameDims(n, broadcast(n, inputShapes(n)...), n.Inputs[0].Shape)
		sameShape(n)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dz, x, y, dx := c.In[0], c.In[1], c.In[2], c.Out[0]
		index.Walk(dx.Shape, 0, dx.Len(), func(i int, at []int) {
			slope := 0.0
			if e := y.Float(at[1]); e != 0 {
				slope = e * math.Pow(x.Float(at[0]), e-1)
			}
			dx.SetFloat(i, dz.Float(i)*slope)
		}, index.Broadcast(x.Shape, dx.Shape), index.Broadcast(y.Shape, dx.Shape))
	},
	Fast: func(c *graph.Call) {
		e := exponent(c.In[2])
		if c.In[0].Type != graph.Float32 || c.In[1].Len() != c.Out[0].Len() || e != 2 && e != 3 {
			c.Node.Op.Eval(c)
			return
		}
		dz, x, dx := c.In[0].F32(), c.In[1].F32(), c.Out[0].F32()
		c.Parallel(len(dx), f32.Grain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				slope := 2 * x[i]
				if e == 3 {
					slope = 3 * x[i] * x[i]
				}
				dx[i] = dz[i] * slope
			}
		})
	},
	Lower:     lowerPowGrad,
	Pointwise: true,
	Flops:     perElement(12),
	Tests:     graph.Tests{Work: eachIn(0, 12)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3], f32[2,3]>0, f32[3]",
		"f32[2,3], f32[2,3], f32[]{2}",
		"f32[2,3], f32[2,3], i64[]{3}",
		"f32[2,3], f32[2,3], f32[]{0}",
		"f32[2,3], f32[3], f32[2,1]{2,3}",
	},
})

var lowerPow = lower.Pick(map[graph.DType]func(*graph.Lowering){
	graph.Float32: lower.Pointwise("powOf(a, b)"),
	graph.Int64:   lower.PointwiseOf("powOf(a, float(b))", nil, graph.Float32, graph.Float32, graph.Int64, graph.Int64),
}, func(l *graph.Lowering) graph.DType { return l.In[1].Type })

var lowerPowGrad = lower.Pick(map[graph.DType]func(*graph.Lowering){
	graph.Float32: lower.Pointwise("choose(eq(c, T(0)), T(0), a * c * powOf(b, c - T(1)))"),
	graph.Int64:   lower.PointwiseOf("c == 0 ? 0.0 : a * float(c) * powOf(b, float(c) - 1.0)", nil, graph.Float32, graph.Float32, graph.Float32, graph.Int64),
}, func(l *graph.Lowering) graph.DType { return l.In[2].Type })
