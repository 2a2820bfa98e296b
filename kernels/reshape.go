package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

var _ = define(graph.Op{
	Name:  "Reshape",
	Doc:   "the same elements under another shape",
	In:    "data, shape",
	Out:   "reshaped",
	Attrs: "allowzero int=0",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		want := slices.Clone(knownDims(n, 1, "shape"))
		unknown, rest, elems := -1, graph.Num(1), x.Shape.Elems()
		for i, d := range want {
			if d.Is(0) && n.Int("allowzero") == 0 {
				if i >= x.Rank() {
					n.Fail("shape says 0 (copy) at %d, but the input has rank %d", i, x.Rank())
				}
				want[i] = x.Shape[i]
			}
			if d.Is(-1) {
				if unknown >= 0 {
					n.Fail("shape has two -1")
				}
				unknown = i
				continue
			}
			rest = rest.Mul(want[i])
		}
		if unknown >= 0 {
			if rest.Is(0) {
				n.Fail("shape has a -1 beside a 0")
			}
			want[unknown] = elems.FloorDiv(rest)
			rest = rest.Mul(want[unknown])
		}
		n.Same(elems, rest, "element counts")
		n.Set(0, x.Type, want)
		// An equation between counts that is only assumed knows no contents.
		if rest.Equal(elems) {
			n.SetInts(0, x.Ints)
		}
	},
	Grad:      viewGrad,
	Simplify:  viewOfView,
	Whole:     sameNumbers(0),
	Eval:      copyBytes,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	View:      true,
	Samples: []string{
		"f32[2,6], i64{3,4}",
		"f32[2,6], i64{0,-1}",
		"f32[2,6], i64{-1}",
		"f32[], i64{1,1}",
		"f32[0,3], i64{3,0}; allowzero=1",
	},
})

// viewOfView: a view of a view is one of what that is of, or nothing at all.
func viewOfView(b *graph.Builder, n *graph.Node) []*graph.Value {
	inner := n.Inputs[0].Def
	if inner == nil || !inner.Op.View {
		return nil
	}
	return []*graph.Value{reshape(b, inner.Inputs[0], n.Outputs[0].Shape)}
}

// viewGrad: the gradient of a view is the view back.
func viewGrad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx := make([]*graph.Value, len(n.Inputs))
	dx[0] = reshape(b, dy[0], n.Inputs[0].Shape)
	return dx
}

// copyBytes is the reference of every view: the bytes are the same.
func copyBytes(c *graph.Call) { copy(c.Out[0].Bytes, c.In[0].Bytes) }

func noFlops(*graph.Node) graph.Dim { return graph.Num(0) }

// picks is Reads of what copies elements of input 0 to output 0 and leaves the
// others alone.
func picks(n *graph.Node, input int) graph.Dim {
	if input == 0 {
		return n.Outputs[0].Shape.Elems()
	}
	return n.Inputs[input].Shape.Elems()
}

// readsNone is Reads of what asks for a shape only.
func readsNone(*graph.Node, int) graph.Dim { return graph.Num(0) }
