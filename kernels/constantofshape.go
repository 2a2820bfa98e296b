package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "ConstantOfShape",
	Doc:   "a tensor of one number, everywhere the same",
	In:    "input",
	Out:   "output",
	Attrs: "value tensor",
	Known: []int{0},
	Infer: func(n *graph.Node) {
		wantType(n, 0, func(t graph.DType) bool { return t == graph.Int64 }, "int64")
		if n.Inputs[0].Rank() != 1 {
			n.Fail("the shape has rank %d; a list expected", n.Inputs[0].Rank())
		}
		value := fillValue(n)
		if value.Len() != 1 {
			n.Fail("value has %d elements; one expected", value.Len())
		}
		shape := graph.Shape(knownDims(n, 0, "the shape"))
		n.Set(0, value.Type, shape)
		if size, ok := shape.Elems().Const(); ok && 0 <= size && size <= graph.MaxInts && !value.Type.IsReal() {
			foldEach(n, int(size), func(int) (graph.Dim, bool) { return graph.IntsOf(value)[0], true })
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		y := c.Out[0].Bytes
		for done := copy(y, fillValue(c.Node).Bytes); 0 < done && done < len(y); done *= 2 {
			copy(y[done:], y[:done])
		}
	},
	Lower:     lowerConstant,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"i64{2,3}",
		"i64{}",
		"i64{0,3}",
	},
})

// fillValue is attribute value; a float32 0 without it.
func fillValue(n *graph.Node) *graph.Tensor {
	if v, ok := n.Attr("value").(*graph.Tensor); ok {
		return v
	}
	return graph.NewTensor(graph.Float32, 1)
}

func lowerConstant(l *graph.Lowering) { lower.Fill(l, 0, lower.BitsOf(fillValue(l.Node))) }
