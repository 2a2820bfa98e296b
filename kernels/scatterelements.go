package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "ScatterElements",
	Doc:   "data with updates written, each at its index along the axis",
	In:    "data, indices, updates",
	Out:   "output",
	Attrs: "axis int=0, reduction string=none",
	Infer: func(n *graph.Node) {
		scatterType(n)
		elementIndices(n, n.Inputs[0].Shape, n.Inputs[1])
		likeIndices(n, n.Inputs[2], n.Inputs[1])
		sameShape(n)
		if n.Str("reduction") == "none" {
			foldMoved(n, 0, 2)
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		axis, idx := n.Int("axis"), n.Inputs[1]
		return scatterGrad(b, n, dy[0],
			func(v *graph.Value) *graph.Value { return b.Op("GatherElements", graph.A{"axis": axis}, v, idx) },
			func(reduction string, data, updates *graph.Value) *graph.Value {
				return b.Op("ScatterElements", graph.A{"axis": axis, "reduction": reduction}, data, idx, updates)
			})
	},
	Eval: func(c *graph.Call) {
		copyBytes(c)
		scatterElements(c, c.In[1], c.In[2], c.Node.Str("reduction"), f32.Serial)
	},
	Fast: func(c *graph.Call) {
		copyFast(c, c.Out[0].Bytes, c.In[0].Bytes)
		scatterElements(c, c.In[1], c.In[2], c.Node.Str("reduction"), c.Parallel)
	},
	Lower: lower.Scatter(func(l *graph.Lowering) lower.Indexed {
		data := l.Out[0].Shape
		return lower.IndexedElements(axisOf(l.Node, l.Node.Int("axis"), len(data)), l.In[1].Shape, data)
	}),
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[2].Shape.Elems() },
	Tests:     graph.Tests{Places: graph.PlaceEach, Work: eachIn(2, 1)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[3,3], i64[2,3]{0,1,2,2,0,1}, f32[2,3]",
		"f32[1,5], i64[1,2]{1,-2}, f32[1,2]; axis=1",
		"f32[3,4], i64[5,4]<3, f32[5,4]; reduction=\"add\"",
		"f32[2,3,2], i32[2,4,1]<-3, f32[2,4,1]; axis=-2 reduction=\"add\"",
		"f32[3,2], i64[4,2]<3, f32[4,2]; reduction=\"mul\"",
		"f32[3,2], i64[4,2]<3, f32[4,2]; reduction=\"max\"",
		"f32[3,2], i64[4,2]<3, f32[4,2]; reduction=\"min\"",
		"f16[3], i64[4]<3, f16[4]; reduction=\"add\"",
		"u64[3], i64[4]<3, u64[4]; reduction=\"max\"",
		"i64[3], i64[4]<3, i64[4]; reduction=\"mul\"",
		"i64{5,6,7}, i64{2,-3}, i64{1,2}",
		"f32[3], i64{}, f32[0]",
	},
})

// copyFast copies bytes with all workers, unless they share memory.
func copyFast(c *graph.Call, to, from []byte) {
	if len(to) > 0 && &to[0] == &from[0] {
		return
	}
	c.Parallel(len(to), 8*f32.Grain, func(lo, hi int) { copy(to[lo:hi], from[lo:hi]) })
}

// scatterElements applies updates to output 0, in order along each line.
func scatterElements(c *graph.Call, idx, updates *graph.Tensor, reduction string, parallel func(n, grain int, f func(lo, hi int))) {
	y := c.Out[0]
	axis := axisOf(c.Node, c.Node.Int("axis"), len(y.Shape))
	meet := put(y, updates, reduction)
	lines(parallel, idx.Shape, y.Shape, axis, func(n, i, iStep, at, atStep int) {
		for range n {
			meet(at+indexAt(c, idx, i, y.Shape[axis])*atStep, i)
			i += iStep
		}
	})
}

// Scatter is the name of ScatterElements before opset 11.
var _ = define(graph.Op{
	Name:    "Scatter",
	Since:   9,
	Doc:     "the old name of ScatterElements",
	In:      "data, indices, updates",
	Out:     "output",
	Attrs:   "axis int=0",
	Samples: []string{"f32[3,4], i64[2,4]<3, f32[2,4]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Op("ScatterElements", graph.A{"axis": n.Int("axis")}, n.Inputs...)}
	},
})
