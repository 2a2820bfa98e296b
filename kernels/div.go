package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Div",
	Since: 7,
	Doc:   "z = x / y, broadcast; integers truncate toward zero",
	In:    "A, B",
	Out:   "C",
	Infer: arithmeticIf(func(x, y graph.Dim) (graph.Dim, bool) {
		p, isNum := x.Const()
		if q, ok := y.Const(); ok && isNum && q != 0 {
			return graph.Num(p / q), true
		}
		// FloorDiv truncates where x ≥ 0 and y > 0, or where there is no remainder.
		z := x.FloorDiv(y)
		return z, atLeast(y, 1) && (atLeast(x, 0) || z.Mul(y).Equal(x))
	}),
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, y, z := n.Inputs[0], n.Inputs[1], n.Outputs[0]
		dx := b.Op("Div", nil, dy[0], y)
		// −dy·x/y² = −(dy/y)·z, so x need not be kept.
		return []*graph.Value{
			sumTo(b, dx, x.Shape),
			b.Op("Neg", nil, sumTo(b, b.Op("Mul", nil, dx, z), y.Shape)),
		}
	},
	NoOp: timesOne,
	Eval: division.eval,
	Fast: division.fast(
		func(z, x, y []float32) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = x[i] / y[i]
			}
		},
		func(z, x []float32, y float32) {
			x = x[:len(z)]
			for i := range z {
				z[i] = x[i] / y
			}
		},
		func(z []float32, x float32, y []float32) {
			y = y[:len(z)]
			for i := range z {
				z[i] = x / y[i]
			}
		}),
	Lower:     lowerDiv,
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3], f32[2,3]>0",
		"f32[4,2,3], f32[3]>0",
		"f32[2,1], f32[4,1,3]>0",
		"f32[], f32[2]>0",
		"i64[5], i64[5]>0",
		"i32[5], i32{-3}",
		"u64[3], u64[3]>0",
		"f32[0,3], f32[3]",
	},
})

var _ = alignAt("Div")

var division = binary{
	f: func(x, y float64) float64 { return x / y },
	i: whole(func(x, y int64) int64 { return x / y }),
	u: whole(func(x, y uint64) uint64 { return x / y }),
}

// whole makes integer division by 0 give 0: ONNX leaves it undefined, and it must not panic.
func whole[N int64 | uint64](f func(x, y N) N) func(x, y N) N {
	return func(x, y N) N {
		if y == 0 {
			return 0
		}
		return f(x, y)
	}
}

var lowerDiv = lower.Pick(map[bool]func(*graph.Lowering){
	true: lower.Pointwise("a / b"), false: lower.Integers("b == 0 ? b : a / b"),
}, func(l *graph.Lowering) bool { return l.In[0].Type.IsFloat() })
