package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// Random is what ONNX's random operators are rewritten into. Its numbers depend on the seed,
// the step and the node's identity, so a recomputed node draws the same numbers.
var _ = define(graph.Op{
	Name:   "Random",
	Domain: own,
	Doc:    "random numbers, uniform in [0, 1), or normal with mean 0 and deviation 1",
	In:     "shape",
	Out:    "output",
	Attrs:  "to int=1, normal int=0, seed int",
	Known:  []int{0},
	Infer: func(n *graph.Node) {
		wantType(n, 0, func(t graph.DType) bool { return t == graph.Int64 }, "int64")
		to := graph.DType(n.Int("to"))
		if !to.IsFloat() {
			n.Fail("random numbers are floats, not %s", to)
		}
		n.Set(0, to, graph.Shape(knownDims(n, 0, "the shape")))
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { random(c, f32.Serial) },
	Fast:      func(c *graph.Call) { random(c, c.Parallel) },
	Flops:     func(n *graph.Node) graph.Dim { return n.Outputs[0].Shape.Elems().Mul(graph.Num(16)) },
	Tests:     graph.Tests{Work: eachOut(16)},
	Recompute: graph.Cheap,
	Random:    true,
	Samples:   []string{"i64{5,7}", "i64{3,3}; normal=1", "i64{130}; normal=1 seed=3", "i64{9}; to=10", "i64{}; to=11", "i64{0,3}"},
})

// random draws four elements at a time. Normal numbers use the Box–Muller transform: one word
// gives the radius of a pair, another its angle.
func random(c *graph.Call, parallel func(n, grain int, f func(lo, hi int))) {
	y, words, normal := c.Out[0], newStream(c, c.Node.Identity()), c.Node.Int("normal") != 0
	n := y.Len()
	even := func(w uint32) float64 { return float64(w>>8) / (1 << 24) }
	parallel((n+3)/4, f32.Grain/16, func(lo, hi int) {
		var draws [4]uint32
		var drawn [4]float64
		for ; lo < hi; lo++ {
			words.fill(draws[:], lo)
			for i, w := range draws {
				drawn[i] = even(w)
			}
			if normal {
				for i := 0; i < 4; i += 2 {
					radius, angle := math.Sqrt(-2*math.Log(1-drawn[i])), 2*math.Pi*drawn[i+1]
					drawn[i], drawn[i+1] = radius*math.Cos(angle), radius*math.Sin(angle)
				}
			}
			for i := range min(4, n-4*lo) {
				y.SetFloat(4*lo+i, drawn[i])
			}
		}
	})
}

// randomOf rewrites a random operator of ONNX into offset + factor·Random, in the type of
// attribute dtype or otherwise.
func randomOf(b *graph.Builder, n *graph.Node, shape *graph.Value, otherwise graph.DType, normal int, offset, factor float64) []*graph.Value {
	to := otherwise
	if n.Has("dtype") {
		to = graph.DType(n.Int("dtype"))
	}
	y := draw(b, n, shape, to, normal)
	if factor != 1 {
		y = b.Op("Mul", nil, y, num(b, y, factor))
	}
	if offset != 0 {
		y = b.Op("Add", nil, y, num(b, y, offset))
	}
	return []*graph.Value{y}
}

// draw builds a Random with the seed of node n.
func draw(b *graph.Builder, n *graph.Node, shape *graph.Value, to graph.DType, normal int) *graph.Value {
	attrs := graph.A{"to": int64(to), "normal": normal}
	if n.Has("seed") {
		attrs["seed"] = int64(math.Float64bits(n.Float("seed")))
	}
	return b.Op(own+".Random", attrs, shape)
}

// shapeAttr is attribute shape as a constant.
func shapeAttr(b *graph.Builder, n *graph.Node) *graph.Value {
	dims := []graph.Dim{}
	for _, d := range n.Ints("shape") {
		dims = append(dims, graph.Num(d))
	}
	return b.Ints(dims...)
}

// likeType is the output type of a RandomNormalLike or RandomUniformLike without dtype: its
// input's.
func likeType(n *graph.Node) graph.DType {
	if t := n.Inputs[0].Type; t.IsFloat() || n.Has("dtype") {
		return t
	}
	n.Fail("the input is %s and dtype is missing; random numbers must be floats", n.Inputs[0].Type)
	return 0
}
