package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// Split has the sizes of input split, or else equal sizes with a smaller last part. num_outputs
// only repeats the node's number of outputs.
var _ = define(graph.Op{
	Name:  "Split",
	Since: 13,
	Doc:   "consecutive parts along an axis",
	In:    "input, split?",
	Out:   "outputs...",
	Attrs: "axis int=0, num_outputs int",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		axis := axisOf(n, n.Int("axis"), x.Rank())
		for i, d := range splitSizes(n, x.Shape[axis]) {
			s := slices.Clone(x.Shape)
			s[axis] = d
			n.Set(i, x.Type, s)
		}
		foldMoved(n, 0)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x := n.Inputs[0]
		axis := axisOf(n, n.Int("axis"), x.Rank())
		flows := func(v *graph.Value) bool { return v != nil }
		dx := make([]*graph.Value, len(n.Inputs))
		if i := slices.IndexFunc(dy, flows); i >= 0 && !slices.ContainsFunc(dy[i+1:], flows) {
			at := graph.Num(0)
			for _, v := range n.Outputs[:i] {
				at = at.Add(v.Shape[axis])
			}
			end := at.Add(n.Outputs[i].Shape[axis])
			dx[0] = b.Op("com.microsoft.SliceGrad", nil, dy[i], shapeOf(b, x), b.Ints(at), b.Ints(end), b.Ints(graph.Num(int64(axis))))
			return dx
		}
		parts := slices.Clone(dy)
		for i, v := range parts {
			if v == nil {
				parts[i] = zerosLike(b, n.Outputs[i])
			}
		}
		dx[0] = b.Op("Concat", graph.A{"axis": axis}, parts...)
		return dx
	},
	Whole:     sameNumbers(0),
	Eval:      splitting.eval,
	Fast:      splitting.fast,
	Lower:     lower.Moves(splitting, false, 1),
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[6]; num_outputs=3 -> a, b, c",
		"f32[2,6]; axis=1 -> a, b",
		"f32[2,5,2]; axis=-2 -> a, b",
		"f32[7]; num_outputs=4 -> a, b, c, d",
		"f32[2,6], i64{2,4}; axis=1 -> a, b",
		"f32[3], i64{3,0} -> a, b",
		"f32[0,2]; num_outputs=2 -> a, b",
		"f32[3]; -> a",
		"i64{2,3}; num_outputs=2 -> a, b",
	},
})

func splitSizes(n *graph.Node, d graph.Dim) []graph.Dim {
	k := len(n.Outputs)
	if k == 0 {
		n.Fail("no outputs")
	}
	if n.Has("num_outputs") && n.Int("num_outputs") != k {
		n.Fail("num_outputs is %d, but there are %d outputs", n.Int("num_outputs"), k)
	}
	if n.In(1) != nil {
		sizes, sum := knownDims(n, 1, "split"), graph.Num(0)
		if len(sizes) != k {
			n.Fail("split has %d sizes for %d outputs", len(sizes), k)
		}
		for _, s := range sizes {
			sum = sum.Add(s)
		}
		n.Same(d, sum, "the sizes must add up to the dim")
		return sizes
	}
	each := d.CeilDiv(graph.Num(int64(k)))
	sizes := slices.Repeat([]graph.Dim{each}, k)
	sizes[k-1] = d.Sub(each.Mul(graph.Num(int64(k - 1))))
	return sizes
}

var splitting mover = func(c *graph.Call) []lower.Move {
	x := c.In[0]
	axis := axisOf(c.Node, c.Node.Int("axis"), len(x.Shape))
	from := index.Strides(x.Shape)
	ms := make([]lower.Move, len(c.Out))
	at := 0
	for i, y := range c.Out {
		ms[i] = lower.Move{Out: i, Shape: y.Shape, From: from, To: index.Strides(y.Shape), FromAt: at * from[axis]}
		at += y.Shape[axis]
	}
	return ms
}

// Before opset 13 the sizes are an attribute.
var _ = define(graph.Op{
	Name:  "Split",
	Doc:   "the form before opset 13, with sizes as an attribute",
	In:    "input",
	Out:   "outputs...",
	Attrs: "axis int=0, split ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		in := []*graph.Value{n.Inputs[0]}
		if n.Has("split") {
			in = append(in, b.Ints(graph.Dims(n.Ints("split")...)...))
		}
		return b.Ops("Split", graph.A{"axis": n.Int("axis")}, len(n.Outputs), in...)
	},
})
