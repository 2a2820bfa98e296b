package kernels

import (
	"slices"

	"memopt/internal/graph"
)

var _ = defineView(graph.Op{
	Name:  "Reshape",
	Doc:   "the same elements in another shape",
	In:    "data, shape",
	Out:   "reshaped",
	Attrs: "allowzero int=0",
	Known: []int{1},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		want := slices.Clone(knownDims(n, 1, "shape"))
		unknown, rest, elems := -1, graph.Num(1), x.Shape.Elems()
		for i, d := range want {
			if d.Is(0) && n.Int("allowzero") == 0 {
				if i >= x.Rank() {
					n.Fail("dim %d of shape is 0 (copy), but the input has rank %d", i, x.Rank())
				}
				want[i] = x.Shape[i]
			}
			if d.Is(-1) {
				if unknown >= 0 {
					n.Fail("shape has more than one -1")
				}
				unknown = i
				continue
			}
			rest = rest.Mul(want[i])
		}
		if unknown >= 0 {
			if rest.Is(0) {
				n.Fail("shape has both -1 and 0: the inferred dim is not determined")
			}
			want[unknown] = elems.FloorDiv(rest)
			rest = rest.Mul(want[unknown])
		}
		n.Same(elems, rest, "numbers of elements")
		n.Set(0, x.Type, want)
		// If the numbers of elements are only assumed equal, contents are not known.
		if rest.Equal(elems) {
			n.SetInts(0, x.Ints)
		}
	},
	Simplify: viewOfView,
	Samples: []string{
		"f32[2,6], i64{3,4}",
		"f32[2,6], i64{0,-1}",
		"f32[2,6], i64{-1}",
		"f32[], i64{1,1}",
		"f32[0,3], i64{3,0}; allowzero=1",
	},
})

// defineView defines an operator whose result is its first input's bytes. Its gradient is a Reshape unless it has another.
func defineView(op graph.Op) *graph.Op {
	op.View, op.Eval, op.Flops, op.Recompute = true, copyBytes, noFlops, graph.Cheap
	op.Whole, op.Tests.Work = sameNumbers(0), noWork
	if op.Grad == nil {
		op.Grad = viewGrad
	}
	return define(op)
}

// viewOfView merges a view of a view into one Reshape, or none if the shape is the original.
func viewOfView(b *graph.Builder, n *graph.Node) []*graph.Value {
	inner := n.Inputs[0].Def
	if inner == nil || !inner.Op.View {
		return nil
	}
	return []*graph.Value{reshape(b, inner.Inputs[0], n.Outputs[0].Shape)}
}

// viewGrad is the gradient of a view: a Reshape to the input's shape.
func viewGrad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx := make([]*graph.Value, len(n.Inputs))
	dx[0] = reshape(b, dy[0], n.Inputs[0].Shape)
	return dx
}

// copyBytes is the reference of every view.
func copyBytes(c *graph.Call) { copy(c.Out[0].Bytes, c.In[0].Bytes) }

func noFlops(*graph.Node) graph.Dim { return graph.Num(0) }

// picks is Reads of operators that copy some elements of input 0 to output 0.
func picks(n *graph.Node, input int) graph.Dim {
	if input == 0 {
		return n.Outputs[0].Shape.Elems()
	}
	return n.Inputs[input].Shape.Elems()
}

// readsNone is Reads of operators that need only shapes.
func readsNone(*graph.Node, int) graph.Dim { return graph.Num(0) }
