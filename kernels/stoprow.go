package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// StopRow is PyTorch's padding_idx of an embedding: looking up the padding does not train its row.
var _ = defineView(graph.Op{
	Name:   "StopRow",
	Domain: own,
	Doc:    "y = x, without a gradient for one row of x",
	In:     "x",
	Out:    "y",
	Attrs:  "row int",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		if x.Rank() == 0 {
			n.Fail("x is a scalar and has no rows")
		}
		rows, known := x.Shape[0].Const()
		if row := n.Int("row"); !known || row < 0 || int64(row) >= rows {
			n.Fail("row %d is not one of %s", row, x.Shape[0])
		}
		n.Set(0, x.Type, x.Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		rows, _ := x.Shape[0].Const()
		shape := slices.Repeat([]int{1}, x.Rank())
		shape[0] = int(rows)
		keep := graph.NewTensor(x.Type, shape...)
		for i := range keep.Len() {
			keep.SetFloat(i, 1)
		}
		keep.SetFloat(n.Int("row"), 0)
		mask, err := b.Const(b.Fresh(n.Name+"/rows"), keep)
		if err != nil {
			n.Fail("%v", err)
		}
		return []*graph.Value{b.Op("Mul", nil, dy[0], mask)}
	},
	OwnGrad: true,
	Tests:   graph.Tests{NoScalars: true},
	Samples: []string{"f32[4,3]; row=2", "f64[3]; row=0", "f32[2,2,2]; row=1", "f32[3,0]; row=1"},
})
