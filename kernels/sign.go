package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name: "Sign",
	Doc:  "y = −1, 0 or 1, the sign of x",
	In:   "input",
	Out:  "Y",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		sameShape(n)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) {
			order, known := d.Compare(graph.Num(0))
			return graph.Num(int64(order)), known
		})
	},
	NoGrad:    true,
	Eval:      unary{f: sign[float64], i: sign[int64]}.eval,
	Lower:     lower.Numberwise("sign(a)"),
	Pointwise: true,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples:   []string{"f32[2,3]", "f64[]", "f16[4]", "f32[0,2]", "i64[4]", "u8[3]>0"},
})

// sign keeps NaN and ±0.
func sign[N int64 | float64](x N) N {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}
