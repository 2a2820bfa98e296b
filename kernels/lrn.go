package kernels

import "memopt/internal/graph"

// LRN's mean square over a window of channels is rewritten into an AveragePool over the
// channels, with count_include_pad as in ONNX's definition.
var _ = define(graph.Op{
	Name:    "LRN",
	Doc:     "y = x/(bias + alpha·m)^beta, m the mean square over a window of size channels",
	In:      "X",
	Out:     "Y",
	Attrs:   "alpha float=0.0001, beta float=0.75, bias float=1, size int",
	Samples: []string{"f32[2,5,3,2]; size=3", "f32[1,4,2]; size=2 alpha=0.5 beta=0.5 bias=2.0"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x, size := n.Inputs[0], n.Int("size")
		wantType(n, 0, isFloat, "floats")
		if x.Rank() < 2 {
			n.Fail("the input must be [N, C, …], but is %s", x.Shape)
		}
		if size < 1 {
			n.Fail("size is %d; the window needs at least 1 channel", size)
		}
		images := graph.Shape{x.Shape[0], graph.Num(1), x.Shape[1], x.Shape[2:].Elems()}
		squares := reshape(b, b.Op("Mul", nil, x, x), images)
		before := int64((size - 1) / 2)
		mean := b.Op("AveragePool", graph.A{"kernel_shape": []int64{int64(size), 1}, "pads": []int64{before, 0, int64(size) - 1 - before, 0},
			"count_include_pad": 1}, squares)
		scale := b.Op("Add", nil, b.Op("Mul", nil, reshape(b, mean, x.Shape), num(b, x, n.Float("alpha"))), num(b, x, n.Float("bias")))
		return []*graph.Value{b.Op("Mul", nil, x, b.Op("Pow", nil, scale, num(b, x, -n.Float("beta"))))}
	},
})

var _ = define(graph.Op{
	Name:    "LpNormalization",
	Doc:     "x/‖x‖ along an axis, by the sum of magnitudes (p=1) or the root of squares (p=2); 0 where the norm is 0",
	In:      "input",
	Out:     "output",
	Attrs:   "axis int=-1, p int=2",
	Samples: []string{"f32[2,3]", "f32[2,3]; axis=0 p=1"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x, reduce := n.Inputs[0], map[int]string{1: "ReduceL1", 2: "ReduceL2"}[n.Int("p")]
		wantType(n, 0, isFloat, "floats")
		if reduce == "" {
			n.Fail("p is %d; only 1 and 2 are supported", n.Int("p"))
		}
		axis := axisOf(n, n.Int("axis"), x.Rank())
		norm := b.Op(reduce, graph.A{"keepdims": 1}, x, b.Ints(graph.Num(int64(axis))))
		zero := b.Op("Equal", nil, norm, num(b, x, 0))
		return []*graph.Value{b.Op("Div", nil, x, b.Op("Where", nil, zero, num(b, x, 1), norm))}
	},
})

var _ = define(graph.Op{
	Name:    "MeanVarianceNormalization",
	Doc:     "(x − mean)/√(var + 1e-9) over the axes",
	In:      "X",
	Out:     "Y",
	Attrs:   "axes ints",
	Samples: []string{"f32[2,3,2,2]", "f32[2,3]; axes=[1]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x, axes := n.Inputs[0], n.Ints("axes")
		wantType(n, 0, isFloat, "floats")
		if axes == nil {
			axes = []int64{0, 2, 3}
		}
		var dims []graph.Dim
		for _, a := range axesOf(n, axes, x.Rank()) {
			dims = append(dims, graph.Num(int64(a)))
		}
		mean := func(v *graph.Value) *graph.Value {
			return b.Op("ReduceMean", graph.A{"keepdims": 1}, v, b.Ints(dims...))
		}
		d := b.Op("Sub", nil, x, mean(x))
		spread := b.Op("Sqrt", nil, b.Op("Add", nil, mean(b.Op("Mul", nil, d, d)), num(b, x, 1e-9)))
		return []*graph.Value{b.Op("Div", nil, d, spread)}
	},
})
