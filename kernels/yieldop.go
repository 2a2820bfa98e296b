package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// YieldOp separates the passes of ONNX Runtime's training graphs: the forward pass returns its
// results to the user, who returns their gradients. In a whole step the gradients are those of
// the loss, which is the first result with one element: 1 for it and 0 for the other results.
// If no result has one element, the loss is the sum of all, and all gradients are 1. A device
// that runs the passes separately (planner.Part) stores the user's gradients here instead, which
// is why the node is never recomputed.
var _ = define(graph.Op{
	Name:   "YieldOp",
	Domain: microsoft,
	Doc:    "ends the forward pass; the gradient of the loss with respect to each result, 1 or 0",
	In:     "module_outputs...",
	Out:    "module_outputs_grad...?",
	Attrs:  "full_shape_outputs ints, non_differentiable_outputs ints",
	Infer: func(n *graph.Node) {
		results := yielded(n)
		if len(n.Outputs) > len(results) {
			n.Fail("there are %d outputs, but %d inputs with gradients", len(n.Outputs), len(results))
		}
		for i := range n.Outputs {
			if !results[i].Type.IsFloat() {
				n.Fail("output %d is the gradient of %s, which is not a float", i, results[i])
			}
			n.Set(i, results[i].Type, results[i].Shape)
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		loss := slices.IndexFunc(c.Out, func(y *graph.Tensor) bool { return y != nil && y.Len() == 1 })
		for i, y := range c.Out {
			if y == nil {
				continue
			}
			seed := 0.0
			if loss < 0 || i == loss {
				seed = 1
			}
			for k := range y.Len() {
				y.SetFloat(k, seed)
			}
		}
	},
	Lower:     lowerYield,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Never,
	Border:    true,
	Role:      graph.RoleBorder,
	Samples: []string{
		"f32[] -> dloss",
		"f32[], f32[2,3], i64[2]; non_differentiable_outputs=[2] full_shape_outputs=[0, 1] -> dloss, dx",
		"f32[2,3], i64[4], f16[0,2]; non_differentiable_outputs=[1] -> dx, dy",
	},
})

// yielded lists the inputs that have gradients.
func yielded(n *graph.Node) []*graph.Value {
	var out []*graph.Value
	for i, v := range n.Inputs {
		if !slices.Contains(n.Ints("non_differentiable_outputs"), int64(i)) {
			out = append(out, v)
		}
	}
	return out
}

func lowerYield(l *graph.Lowering) {
	loss := slices.IndexFunc(l.Out, func(y *graph.Operand) bool { return y != nil && y.Len() == 1 })
	for i, y := range l.Out {
		if y == nil {
			continue
		}
		seed := graph.NewTensor(y.Type, 1)
		if loss < 0 || i == loss {
			seed.SetFloat(0, 1)
		}
		lower.Fill(l, i, lower.BitsOf(seed))
	}
}
