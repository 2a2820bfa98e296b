package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

var _ = define(graph.Op{
	Name:  "Transpose",
	Doc:   "the dims in another order",
	In:    "data",
	Out:   "transposed",
	Attrs: "perm ints",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		perm := permOf(n, x.Rank())
		out := make(graph.Shape, len(perm))
		for i, p := range perm {
			out[i] = x.Shape[p]
		}
		n.Set(0, x.Type, out)
		foldMoved(n, 0)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		perm := permOf(n, n.Inputs[0].Rank())
		back := make([]int64, len(perm))
		for i, p := range perm {
			back[p] = int64(i)
		}
		return []*graph.Value{transpose(b, dy[0], back...)}
	},
	Eval:      transposition.eval,
	Fast:      transposition.fast,
	Flops:     noFlops,
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3]",
		"f32[35,70]; perm=[1,0]",
		"f32[2,3,4,5]; perm=[0,2,1,3]",
		"f32[2,3,2,2]; perm=[0,3,1,2]",
		"f32[2,1,3]; perm=[1,0,2]",
		"f32[2,9,33]; perm=[0,2,1]",
		"f32[3,4,5]; perm=[2,0,1]",
		"f32[]",
		"f32[4]",
		"f32[0,3]",
		"bool[2,3]; perm=[1,0]",
		"f16[5,7]; perm=[1,0]",
		"i64{2,3}",
	},
})

var transposition mover = func(c *graph.Call) []move {
	x, y := c.In[0], c.Out[0]
	own := strides(x.Shape)
	from := make([]int, len(own))
	for i, p := range permOf(c.Node, len(own)) {
		from[i] = own[p]
	}
	return []move{{shape: y.Shape, from: from, to: strides(y.Shape)}}
}

// permOf is the order of dims: reversed unless the node says another.
func permOf(n *graph.Node, rank int) []int {
	perm := make([]int, rank)
	if !n.Has("perm") {
		for i := range perm {
			perm[i] = rank - 1 - i
		}
		return perm
	}
	given := n.Ints("perm")
	if sorted := axesOf(n, given, rank); len(sorted) != rank {
		n.Fail("perm %v has not one entry for each of %d dims", given, rank)
	}
	for i, p := range given {
		perm[i] = axisOf(n, int(p), rank)
	}
	return perm
}

// transpose is b's Transpose, and no node if the order stays.
func transpose(b *graph.Builder, v *graph.Value, perm ...int64) *graph.Value {
	if slices.IsSorted(perm) {
		return v
	}
	return b.Op("Transpose", graph.A{"perm": perm}, v)
}
