package kernels

import "memopt/internal/graph"

// GroupNormalization is rewritten into LayerNormalization over x viewed as [N, groups,
// C/groups, …], with one scale for each channel.
var _ = define(graph.Op{
	Name:    "GroupNormalization",
	Since:   21,
	Doc:     "normalizes each group of channels, then scales each channel",
	In:      "X, scale, bias",
	Out:     "Y",
	Attrs:   "epsilon float=1e-5, num_groups int, stash_type int=1",
	Samples: []string{"f32[2,4,3], f32[4], f32[4]; num_groups=2"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return groupNorm(b, n, n.Int("num_groups"), false)
	},
})

// Before opset 21, scale and bias have one element for each group.
var _ = define(graph.Op{
	Name:  "GroupNormalization",
	Doc:   "normalizes and scales each group of channels",
	In:    "X, scale, bias",
	Out:   "Y",
	Attrs: "epsilon float=1e-5, num_groups int",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return groupNorm(b, n, n.Int("num_groups"), true)
	},
})

// groupNorm builds the normalization; groups 0 means one for each channel. With perGroup,
// scale and bias are [groups], not [C].
func groupNorm(b *graph.Builder, n *graph.Node, groups int, perGroup bool) []*graph.Value {
	x := n.Inputs[0]
	if x.Rank() < 2 {
		n.Fail("the input must be [N, C, …], but is %s", x.Shape)
	}
	g := graph.Num(int64(groups))
	if groups == 0 {
		g = x.Shape[1]
	} else if groups < 0 || !x.Shape[1].Mod(g).Is(0) {
		n.Fail("%s channels cannot be split into %d groups", x.Shape[1], groups)
	}
	one, each := graph.Num(1), x.Shape[1].FloorDiv(g)
	view := graph.Shape{x.Shape[0], g, each, x.Shape[2:].Elems()}
	affine := graph.Shape{g, each, one}
	if perGroup {
		affine = graph.Shape{g, one, one}
	}
	attrs := graph.A{"axis": 2, "epsilon": n.Float("epsilon")}
	y := b.Op("LayerNormalization", attrs, reshape(b, x, view), reshape(b, n.Inputs[1], affine), reshape(b, n.Inputs[2], affine))
	return []*graph.Value{reshape(b, y, x.Shape)}
}
