package kernels

import "memopt/memopt/graph"

var addition = binary{
	f: func(x, y float64) float64 { return x + y },
	i: func(x, y int64) int64 { return x + y },
}

var _ = define(graph.Op{
	Name:  "Add",
	Doc:   "z = x + y, broadcast",
	In:    "A, B",
	Out:   "C",
	Infer: arithmetic(graph.Dim.Add),
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{sumTo(b, dy[0], n.Inputs[0].Shape), sumTo(b, dy[0], n.Inputs[1].Shape)}
	},
	Eval: addition.eval,
	Fast: addition.fast(
		func(z, x, y []float32) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = x[i] + y[i]
			}
		},
		func(z, x []float32, y float32) {
			x = x[:len(z)]
			for i := range z {
				z[i] = x[i] + y
			}
		},
		func(z []float32, x float32, y []float32) {
			y = y[:len(z)]
			for i := range z {
				z[i] = x + y[i]
			}
		}),
	Flops:     perElement(1),
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3], f32[2,3]",
		"f32[4,2,3], f32[3]",
		"f32[2,1], f32[4,1,3]",
		"f32[], f32[2]",
		"i64[3], i64[3]",
		"f32[0,3], f32[3]",
	},
})

// arithmetic infers a binary operator on numbers of one type; on integers
// that can be shapes it computes with the formulas.
func arithmetic(fold func(a, b graph.Dim) graph.Dim) func(*graph.Node) {
	return func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isNumber, "numbers")
		x, y := n.Inputs[0], n.Inputs[1]
		out := broadcast(n, x.Shape, y.Shape)
		n.Set(0, x.Type, out)
		if fold != nil && x.Type.IsInt() {
			foldPairs(n, out, fold)
		}
	}
}

// foldPairs gives output 0 its contents from those of inputs 0 and 1, where
// both are known and either one is a single number or the shapes agree.
func foldPairs(n *graph.Node, out graph.Shape, fold func(a, b graph.Dim) graph.Dim) {
	x, y := n.Inputs[0].Ints, n.Inputs[1].Ints
	size := max(len(x), len(y))
	if x == nil || y == nil || !out.Elems().Is(int64(size)) ||
		len(x) != size && len(x) != 1 || len(y) != size && len(y) != 1 {
		return
	}
	ds := make([]graph.Dim, size)
	for i := range ds {
		ds[i] = fold(x[i%len(x)], y[i%len(y)])
	}
	n.SetInts(0, ds)
}
