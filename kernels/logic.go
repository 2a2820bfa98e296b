package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = [...]*graph.Op{
	defineLogic("And", "z = x and y, broadcast", func(x, y int64) int64 { return x & y }),
	defineLogic("Or", "z = x or y, broadcast", func(x, y int64) int64 { return x | y }),
	defineLogic("Xor", "z = x xor y, broadcast", func(x, y int64) int64 { return x ^ y }),
}

func defineLogic(name, doc string, f func(x, y int64) int64) *graph.Op {
	// The row loops look results up in a truth table, so all three operators share them.
	table := [4]bool{f(0, 0) != 0, f(0, 1) != 0, f(1, 0) != 0, f(1, 1) != 0}
	alignAt(name)
	return define(graph.Op{
		Name:  name,
		Since: 7,
		Doc:   doc,
		In:    "A, B",
		Out:   "C",
		Infer: func(n *graph.Node) {
			wantType(n, 0, isBool, "bools")
			wantType(n, 1, isBool, "bools")
			out := broadcast(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
			n.Set(0, graph.Bool, out)
			foldPairs(n, out, func(a, b graph.Dim) (graph.Dim, bool) {
				x, isNum := a.Const()
				y, ok := b.Const()
				return graph.Num(f(x, y)), isNum && ok
			})
		},
		NoGrad: true,
		Eval:   binary{i: f}.eval,
		Fast: func(c *graph.Call) {
			x, y, z := c.In[0].Bytes, c.In[1].Bytes, graph.View[bool](c.Out[0])
			eachRow(c, func(lo, width int, at, step []int) {
				i, j := at[0], at[1]
				for n := range z[lo : lo+width] {
					z[lo+n] = table[x[i]&1<<1|y[j]&1]
					i, j = i+step[0], j+step[1]
				}
			})
		},
		Lower:       lowerLogic(table),
		Flops:       perElement(1),
		Tests:       graph.Tests{Work: eachOut(1)},
		Recompute:   graph.Cheap,
		Elementwise: true,
		InPlace:     []int{0, 1},
		Samples: []string{
			"bool[2,3], bool[2,3]",
			"bool[4,2,3], bool[3]",
			"bool[2,1], bool[4,1,3]",
			"bool[], bool[2]",
			"bool{0,0,1,1}, bool{0,1,0,1}",
			"bool[0,3], bool[3]",
		},
	})
}

// lowerLogic lowers the operator with the given truth table.
func lowerLogic(table [4]bool) func(*graph.Lowering) {
	expr := map[[4]bool]string{
		{false, false, false, true}: "a & b", {false, true, true, true}: "a | b", {false, true, true, false}: "a ^ b",
	}[table]
	return lower.PointwiseOf(expr, nil, graph.Bool, graph.Bool, graph.Bool, graph.Bool)
}
