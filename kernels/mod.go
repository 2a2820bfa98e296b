package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// modForms is the remainder by attribute fmod: 0 floors the quotient (sign of the divisor), 1
// truncates it (sign of the dividend).
var modForms = [2]binary{
	{
		f: func(x, y float64) float64 {
			m := math.Mod(x, y)
			switch {
			case m == 0:
				return math.Copysign(0, y)
			case (m < 0) != (y < 0):
				return m + y
			}
			return m
		},
		i: whole(func(x, y int64) int64 {
			m := x % y
			if m != 0 && (m < 0) != (y < 0) {
				m += y
			}
			return m
		}),
		u: whole(func(x, y uint64) uint64 { return x % y }),
	},
	{
		f: math.Mod,
		i: whole(func(x, y int64) int64 { return x % y }),
		u: whole(func(x, y uint64) uint64 { return x % y }),
	},
}

func modForm(n *graph.Node) binary {
	if n.Int("fmod") == 0 {
		return modForms[0]
	}
	return modForms[1]
}

var _ = define(graph.Op{
	Name:  "Mod",
	Doc:   "the remainder of x / y, broadcast",
	In:    "A, B",
	Out:   "C",
	Attrs: "fmod int=0",
	Infer: func(n *graph.Node) {
		arithmeticIf(func(x, y graph.Dim) (graph.Dim, bool) {
			p, isNum := x.Const()
			if q, ok := y.Const(); ok && isNum && q != 0 {
				return graph.Num(modForm(n).i(p, q)), true
			}
			return x.Mod(y), atLeast(y, 1) && (n.Int("fmod") == 0 || atLeast(x, 0))
		})(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, y, z := n.Inputs[0], n.Inputs[1], n.Outputs[0]
		// z = x − q·y, where q = (x − z)/y is piecewise constant.
		q := b.Op("Div", nil, b.Op("Sub", nil, x, z), y)
		return []*graph.Value{
			sumTo(b, dy[0], x.Shape),
			b.Op("Neg", nil, sumTo(b, b.Op("Mul", nil, dy[0], q), y.Shape)),
		}
	},
	Whole:     wholeRemainder,
	Eval:      func(c *graph.Call) { modForm(c.Node).eval(c) },
	Lower:     lowerMod,
	Flops:     perElement(5),
	Tests:     graph.Tests{Work: eachOut(5)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"i64[6], i64{3,-3,2,5,-2,1}",
		"i64[6], i64{3,-3,2,5,-2,1}; fmod=1",
		"i64{7,-7}, i64{3}",
		"u64[3]>0, u64[3]>0",
		"i8[2,3], i8[3]>0",
		"f32[2,3], f32[3]; fmod=1",
		"f32[2,3], f32[3]",
		"f32[0,3], f32[3]; fmod=1",
		"f32[3], f32[2,1]>0; fmod=1",
	},
})

// lowerMod supports only integers: the quotient of two floats may exceed their precision.
var lowerMod = func() func(*graph.Lowering) {
	// GLSL leaves % undefined for negative operands.
	const cut = "(a - a / b * b)"
	return lower.Pick(map[bool]func(*graph.Lowering){
		true:  lower.Integers("b == 0 ? b : " + cut),
		false: lower.Integers("b == 0 ? b : " + cut + " != 0 && (" + cut + " < 0) != (b < 0) ? " + cut + " + b : " + cut),
	}, func(l *graph.Lowering) bool { return l.Node.Int("fmod") != 0 })
}()
