package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:        "Where",
	Doc:         "x where the condition holds, else y, broadcast",
	In:          "condition, X, Y",
	Elementwise: true,
	Out:         "output",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isBool, "bools")
		cond, x, y := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		if x.Type != y.Type {
			n.Fail("X is %s, but Y is %s", x.Type, y.Type)
		}
		out := broadcast(n, cond.Shape, x.Shape, y.Shape)
		n.Set(0, x.Type, out)
		size := max(len(cond.Ints), len(x.Ints), len(y.Ints))
		for _, v := range n.Inputs {
			if v.Ints == nil || len(v.Ints) != 1 && len(v.Ints) != size || !out.Elems().Is(int64(size)) {
				return
			}
		}
		foldEach(n, size, func(i int) (graph.Dim, bool) {
			a, b := x.Ints[i%len(x.Ints)], y.Ints[i%len(y.Ints)]
			holds, known := cond.Ints[i%len(cond.Ints)].Const()
			if holds != 0 {
				return a, known
			}
			return b, known || a.Equal(b)
		})
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		cond, x, y := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		zero := num(b, dy[0], 0)
		return []*graph.Value{
			nil,
			sumTo(b, b.Op("Where", nil, cond, dy[0], zero), x.Shape),
			sumTo(b, b.Op("Where", nil, cond, zero, dy[0]), y.Shape),
		}
	},
	Whole: sameNumbers(1, 2),
	Eval: func(c *graph.Call) {
		cond, x, y, z := c.In[0], c.In[1], c.In[2], c.Out[0]
		size := int(z.Type.Size())
		index.Walk(z.Shape, 0, z.Len(), func(i int, at []int) {
			from, k := y, at[2]
			if cond.Bytes[at[0]] != 0 {
				from, k = x, at[1]
			}
			copy(z.Bytes[i*size:(i+1)*size], from.Bytes[k*size:])
		}, index.Broadcast(cond.Shape, z.Shape), index.Broadcast(x.Shape, z.Shape), index.Broadcast(y.Shape, z.Shape))
	},
	Fast: func(c *graph.Call) {
		switch c.Out[0].Type.Size() {
		case 4:
			whereRows[uint32](c)
		case 8:
			whereRows[uint64](c)
		default:
			c.Node.Op.Eval(c)
		}
	},
	Lower: lowerWhere,
	Flops: perElement(1),
	Tests: graph.Tests{
		Work: eachOut(1),
		Pieces: []string{
			"bool[400,16], f32[400,16], f32[16]",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{1, 2},
	Samples: []string{
		"bool[2,3], f32[2,3], f32[2,3]",
		"bool[3], f32[4,2,3], f32[]",
		"bool[4,1,3], f32[], f32[2,1]",
		"bool[2,1], f64[3], f64[2,3]",
		"bool[], i64[2], i64[2]",
		"bool{1,0}, i64{1,2}, i64[]{3}",
		"bool[3], bool[3], bool[3]",
		"bool[3], f16[3], f16[1]",
		"bool[0,3], f32[3], f32[]",
	},
})

// whereRows selects elements of 4 or 8 bytes of any type.
func whereRows[E uint32 | uint64](c *graph.Call) {
	cond, x, y, z := c.In[0].Bytes, graph.View[E](c.In[1]), graph.View[E](c.In[2]), graph.View[E](c.Out[0])
	eachRow(c, func(lo, width int, at, step []int) {
		h, i, j := at[0], at[1], at[2]
		for n := range z[lo : lo+width] {
			a, b := x[i], y[j] // load both: conditional moves instead of branches
			if cond[h] != 0 {
				b = a
			}
			z[lo+n] = b
			h, i, j = h+step[0], i+step[1], j+step[2]
		}
	})
}

var lowerWhere = lower.Pick(map[graph.DType]func(*graph.Lowering){
	graph.Float32: lower.PointwiseOf("a != 0 ? b : c", nil, graph.Float32, graph.Bool, graph.Float32, graph.Float32),
	graph.Int64:   lower.PointwiseOf("a != 0 ? b : c", nil, graph.Int64, graph.Bool, graph.Int64, graph.Int64),
	graph.Int32:   lower.PointwiseOf("a != 0 ? b : c", nil, graph.Int32, graph.Bool, graph.Int32, graph.Int32),
	graph.Bool:    lower.PointwiseOf("a != 0 ? b : c", nil, graph.Bool, graph.Bool, graph.Bool, graph.Bool),
}, func(l *graph.Lowering) graph.DType { return l.In[1].Type })
