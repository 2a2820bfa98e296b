package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// BitShift is ONNX's newest form, opset 28: signed types shift their sign in, and a shift by a
// negative number, or by all bits or more, leaves nothing but that sign. Forms before are for
// unsigned types only.
var _ = define(graph.Op{
	Name:  "BitShift",
	Since: 11,
	Doc:   "z = x shifted by y bits, to the LEFT or the RIGHT, broadcast",
	In:    "X, Y",
	Out:   "Z",
	Attrs: "direction string",
	Infer: func(n *graph.Node) {
		if d := n.Str("direction"); d != "LEFT" && d != "RIGHT" {
			n.Fail("direction is %q, not LEFT or RIGHT", d)
		}
		bitsInfer(func(t graph.DType) binary { return shift(n, t) })(n)
	},
	NoGrad: true,
	Eval:   func(c *graph.Call) { shift(c.Node, c.In[0].Type).eval(c) },
	Lower: lower.Pick(map[string]func(*graph.Lowering){
		"LEFT 4":  lower.Integers("uint(b) >= 32u ? a - a : a << b"),
		"RIGHT 4": lower.Integers("uint(b) >= 32u ? a >> 31 : a >> b"),
	}, func(l *graph.Lowering) string {
		return l.Node.Str("direction") + map[bool]string{true: " 4", false: " of other than i32"}[l.In[0].Type == graph.Int32]
	}),
	Flops:       perElement(1),
	Tests:       graph.Tests{Work: eachOut(1)},
	Recompute:   graph.Cheap,
	Elementwise: true,
	InPlace:     []int{0, 1},
	Samples: []string{
		"u8[2,3], u8[2,3]<8; direction=\"LEFT\"",
		"u8{200,255,7}, u8{1,7,8}; direction=\"RIGHT\"",
		"i32[2,3], i32{0,3,40}; direction=\"LEFT\"",
		"i32[4,1], i32{-1,31,32,2}; direction=\"RIGHT\"",
		"i64[2,3], i64{-1,63,64}; direction=\"RIGHT\"",
		"u64[3], u64{1,63,64}; direction=\"RIGHT\"",
		"i8{-128,-1,127}, i8[]{1}; direction=\"LEFT\"",
		"u16[0,3], u16[3]; direction=\"LEFT\"",
	},
})

func shift(n *graph.Node, t graph.DType) binary {
	bits := 8 * t.Size()
	if n.Str("direction") == "LEFT" {
		return binary{i: func(x, y int64) int64 {
			if y < 0 || y >= bits {
				return 0
			}
			return x << y
		}}
	}
	return binary{
		i: func(x, y int64) int64 {
			if y < 0 || y >= bits {
				y = 63
			}
			return x >> y
		},
		u: func(x, y uint64) uint64 { return x >> y },
	}
}
