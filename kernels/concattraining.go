package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// ConcatTraining (ONNX Runtime) also outputs the length of each input along the axis, for
// the Split in its gradient.
var _ = define(graph.Op{
	Name:   "ConcatTraining",
	Domain: microsoft,
	Doc:    "Concat, and the length of each input along the axis",
	In:     "inputs...",
	Out:    "concat_result, per_input_length?",
	Attrs:  "axis int",
	Infer: func(n *graph.Node) {
		m := seenAs(n, "Concat", 1)
		m.Op.Infer(m)
		axis := axisOf(n, n.Int("axis"), n.Inputs[0].Rank())
		lengths := make([]graph.Dim, len(n.Inputs))
		for i, v := range n.Inputs {
			lengths[i] = v.Shape[axis]
		}
		n.Set(1, graph.Int64, graph.Dims(int64(len(lengths))))
		n.SetInts(1, lengths)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		m := seenAs(n, "Concat", 1)
		return m.Op.Grad(b, m, dy[:1])
	},
	Eval:      func(c *graph.Call) { concatTraining(c, concatenation.eval) },
	Fast:      func(c *graph.Call) { concatTraining(c, concatenation.fast) },
	Lower:     lowerConcatTraining,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3], f32[4,3]; axis=0 -> y, n",
		"f32[2,3], f32[2,1], f32[2,2]; axis=-1 -> y, n",
		"f32[3]; axis=0 -> y",
		"i64{1,2}, i64{3}; axis=0 -> y, n",
		"f32[0,3], f32[2,3]; axis=0 -> y",
	},
})

func concatTraining(c *graph.Call, concat func(*graph.Call)) {
	concat(c)
	if lengths := output(c, 1); lengths != nil {
		axis := axisOf(c.Node, c.Node.Int("axis"), len(c.In[0].Shape))
		for i, x := range c.In {
			lengths.SetInt(i, int64(x.Shape[axis]))
		}
	}
}

func lowerConcatTraining(l *graph.Lowering) {
	lower.Moves(concatenation, false)(l)
	if lower.Out(l, 1) != nil {
		lower.KnownInts(l, 1)
	}
}
