package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = [...]*graph.Op{
	defineBitwise("BitwiseAnd", "z = the bits that x and y both have, broadcast", "a & b", func(x, y int64) int64 { return x & y }),
	defineBitwise("BitwiseOr", "z = the bits that x or y has, broadcast", "a | b", func(x, y int64) int64 { return x | y }),
	defineBitwise("BitwiseXor", "z = the bits that one of x and y has, broadcast", "a ^ b", func(x, y int64) int64 { return x ^ y }),
}

func defineBitwise(name, doc, expr string, f func(x, y int64) int64) *graph.Op {
	return define(graph.Op{
		Name:        name,
		Since:       18,
		Doc:         doc,
		In:          "A, B",
		Out:         "C",
		Infer:       bitsInfer(func(t graph.DType) binary { return binary{i: f} }),
		NoGrad:      true,
		Eval:        binary{i: f}.eval,
		Lower:       lower.Integers(expr),
		Flops:       perElement(1),
		Tests:       graph.Tests{Work: eachOut(1)},
		Recompute:   graph.Cheap,
		Elementwise: true,
		InPlace:     []int{0, 1},
		Samples: []string{
			"i64[2,3], i64[2,3]",
			"i32[2,1], i32[4,1,3]",
			"u64[3], u64[]",
			"i8{-1,5,-128}, i8{7,3,127}",
			"u16[2,3], u16[3]",
			"i64[0,3], i64[3]",
		},
	})
}

// bitsInfer infers an operator on two tensors of integers, and folds it.
func bitsInfer(of func(t graph.DType) binary) func(*graph.Node) {
	return func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, graph.DType.IsInt, "integers")
		out := broadcast(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
		n.Set(0, n.Inputs[0].Type, out)
		foldPairs(n, out, func(a, b graph.Dim) (graph.Dim, bool) {
			x, isNum := a.Const()
			y, ok := b.Const()
			if !isNum || !ok || n.Inputs[0].Type == graph.Uint64 {
				return a, false
			}
			z := graph.NewTensor(n.Inputs[0].Type, 1)
			z.SetInt(0, of(z.Type).i(x, y))
			return graph.Num(z.Int(0)), true
		})
	}
}

var _ = define(graph.Op{
	Name:  "BitwiseNot",
	Since: 18,
	Doc:   "y = x with each bit inverted",
	In:    "X",
	Out:   "Y",
	Infer: func(n *graph.Node) {
		wantType(n, 0, graph.DType.IsInt, "integers")
		sameShape(n)
		if t := n.Inputs[0].Type; t == graph.Int64 || t == graph.Int32 {
			foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d.Neg().Sub(graph.Num(1)), true })
		}
	},
	NoGrad:      true,
	Eval:        unary{i: func(x int64) int64 { return ^x }}.eval,
	Lower:       lower.Integers("~a"),
	Flops:       perElement(1),
	Tests:       graph.Tests{Work: eachOut(1)},
	Recompute:   graph.Cheap,
	Elementwise: true,
	InPlace:     []int{0},
	Samples:     []string{"i64[2,3]", "i32[5]", "u8[2,3]", "u64[3]", "i16{-1,0,5}", "i64[0,3]"},
})
