package kernels

import (
	"iter"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = defineReduce(reduction{
	name:  "ReduceProd",
	doc:   "the product along axes",
	since: 18,
	of: func(xs iter.Seq[float64], _ int) float64 {
		product := 1.0
		for x := range xs {
			product *= x
		}
		return product
	},
	ints: func(xs iter.Seq[int64], _ graph.DType) int64 {
		product := int64(1)
		for x := range xs {
			product *= x
		}
		return product
	},
	fold: foldDims(graph.Dim.Mul),
	grad: func(b *graph.Builder, x, _, dy *graph.Value, axes []int) *graph.Value {
		list := make([]int64, len(axes))
		for i, a := range axes {
			list[i] = int64(a)
		}
		return b.Op("memopt.ReduceProdGrad", graph.A{"axes": list}, dy, x)
	},
	lowered: &lower.Reduction{Fold: lower.FoldProduct},
})

var _ = define(graph.Op{
	Name:   "ReduceProdGrad",
	Domain: own,
	Doc:    "dx = dy · (product of the other elements along axes)",
	In:     "dY, X",
	Out:    "dX",
	Attrs:  "axes ints",
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isFloat, "floats")
		axes := axesOf(n, n.Ints("axes"), n.Inputs[1].Rank())
		sameDims(n, n.Inputs[0].Shape, keptShape(n.Inputs[1].Shape, axes))
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, x, dx := c.In[0], c.In[1], c.Out[0]
		stay, stayAt, gone, goneAt := index.Split(x.Shape, axesOf(c.Node, c.Node.Ints("axes"), len(x.Shape)))
		index.Walk(stay, 0, index.Elems(stay), func(i int, at []int) {
			product, zeros := 1.0, 0
			each(gone, goneAt, func(k int) bool {
				if v := x.Float(at[0] + k); v != 0 {
					product *= v
				} else {
					zeros++
				}
				return true
			})
			each(gone, goneAt, func(k int) bool {
				others, v := product, x.Float(at[0]+k)
				switch {
				case zeros > 1 || zeros == 1 && v != 0:
					others = 0
				case v != 0:
					others /= v
				}
				dx.SetFloat(at[0]+k, dy.Float(i)*others)
				return true
			})
		}, stayAt)
	},
	Lower:     lowerProductGrad,
	Flops:     perElement(3),
	Tests:     graph.Tests{Work: eachIn(1, 3)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,1,4], f32[2,3,4]; axes=[1]",
		"f32[1], f32{1,0,2}; axes=[0]",
		"f32[1], f32{0,0,2}; axes=[0]",
		"f32[2,1], f32[2,0]; axes=[1]",
	},
})

var productGradKernel = lower.Halved(lower.Shader("prodgrad", "prodgrad.comp"))

func lowerProductGrad(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	shape := l.In[1].Shape
	stay, stayAt, gone, goneAt := index.Split(index.MergeDims(shape, axesOf(l.Node, l.Node.Ints("axes"), len(shape))))
	results, terms := index.Elems(stay), index.Elems(gone)
	if results*terms == 0 || !lower.MustFit(l, stay, 3) || !lower.MustFit(l, gone, 3) {
		return
	}
	push := lower.Words(l, results, terms)
	for i, list := range [][]int{stay, stayAt, gone, goneAt} {
		push = append(push, lower.Words(l, index.Padded(3, list, 1-i%2)...)...)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: productGradKernel, Push: push, Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0), lower.Reads(1)}, Groups: lower.InLine(l, index.CeilDiv(results, 64)),
	})
}
