package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Transpose",
	Doc:   "permutes the dims",
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
	Simplify: plainTranspose,
	Fuse:     fuseTranspose,
	Whole:    sameNumbers(0),
	Eval:     transposition.eval,
	Fast:     transposition.fast,
	Lower:    lower.Moves(transposition, false),
	Flops:    noFlops,
	Tests: graph.Tests{
		Work: noWork,
		Pieces: []string{
			"f32[40,4,8]; perm=[0,2,1]",
		},
	},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3]",
		"f32[35,70]; perm=[1,0]",
		"f32[2,3,4,5]; perm=[0,2,1,3]",
		"f32[2,3,2,2]; perm=[0,3,1,2]",
		"f32[2,1,3]; perm=[1,0,2]",
		"f32[2,9,33]; perm=[0,2,1]",
		"f32[3,4,5]; perm=[2,0,1]",
		"f32[2,12,3,8]; perm=[0,3,2,1]",
		"f32[8,3,2,4]; perm=[3,1,2,0]",
		"f32[]",
		"f32[4]",
		"f32[0,3]",
		"bool[2,3]; perm=[1,0]",
		"f16[5,7]; perm=[1,0]",
		"i64{2,3}",
	},
})

// plainTranspose removes a Transpose that undoes another, and turns one that moves only dims of
// 1 into a view.
func plainTranspose(b *graph.Builder, n *graph.Node) []*graph.Value {
	x := n.Inputs[0]
	perm := permOf(n, x.Rank())
	if inner := x.Def; inner != nil && inner.Op == n.Op {
		first, undone := permOf(inner, x.Rank()), true
		for i, p := range perm {
			undone = undone && first[p] == i
		}
		if undone {
			return []*graph.Value{inner.Inputs[0]}
		}
	}
	last := -1
	for _, p := range perm {
		if x.Shape[p].Is(1) {
			continue
		}
		if p < last {
			return nil
		}
		last = p
	}
	return []*graph.Value{reshape(b, x, n.Outputs[0].Shape)}
}

// fuseTranspose matches a Transpose of the last two dims between Reshapes that merge the
// leading dims and split them again.
func fuseTranspose(m *graph.Match) []*graph.Value {
	n := m.Node
	if n.Op.FullName() != "Reshape" {
		return nil
	}
	swap := m.Inner(n.Inputs[0], "Transpose")
	if swap == nil || !swapsLast(swap) {
		return nil
	}
	merge := m.Inner(swap.Inputs[0], "Reshape")
	if merge == nil {
		return nil
	}
	x, merged, r := merge.Inputs[0], swap.Inputs[0].Shape, merge.Inputs[0].Rank()
	if r < 2 || !x.Shape[r-2:].Equal(merged[len(merged)-2:]) {
		return nil
	}
	perm := make([]int64, r)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[r-2], perm[r-1] = perm[r-1], perm[r-2]
	return []*graph.Value{transpose(m.Builder, x, perm...)}
}

// swapsLast reports whether a Transpose swaps the last two dims and no others.
func swapsLast(n *graph.Node) bool {
	perm := permOf(n, n.Inputs[0].Rank())
	r := len(perm)
	return r >= 2 && perm[r-1] == r-2 && perm[r-2] == r-1 && slices.IsSorted(perm[:r-2])
}

var transposition mover = func(c *graph.Call) []lower.Move {
	x, y := c.In[0], c.Out[0]
	own := index.Strides(x.Shape)
	from := make([]int, len(own))
	for i, p := range permOf(c.Node, len(own)) {
		from[i] = own[p]
	}
	return []lower.Move{{Shape: y.Shape, From: from, To: index.Strides(y.Shape)}}
}

// permOf is the permutation: attribute perm, or reversed dims without it.
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
		n.Fail("perm %v is not a permutation of %d dims", given, rank)
	}
	for i, p := range given {
		perm[i] = axisOf(n, int(p), rank)
	}
	return perm
}

// transpose builds a Transpose of v, or returns v if perm is the identity.
func transpose(b *graph.Builder, v *graph.Value, perm ...int64) *graph.Value {
	if slices.IsSorted(perm) {
		return v
	}
	return b.Op("Transpose", graph.A{"perm": perm}, v)
}
