package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// YieldOp is where ONNX Runtime cuts a training graph: the forward pass hands
// its results to the user and gets their gradients back. Here the user asks
// for the gradient of the loss, the first result that is one number: 1 for it,
// 0 for the results beside it. If none is one number, the loss is their sum.
// A device that runs the passes one by one (planner.Part) puts there what the user
// gives instead. The values cannot be had again from the user, so nothing is
// computed twice.
var _ = define(graph.Op{
	Name:   "YieldOp",
	Domain: microsoft,
	Doc:    "ends the forward pass: the gradient of the loss by each result, which is 1 or 0",
	In:     "module_outputs...",
	Out:    "module_outputs_grad...?",
	Attrs:  "full_shape_outputs ints, non_differentiable_outputs ints",
	Infer: func(n *graph.Node) {
		results := yielded(n)
		if len(n.Outputs) > len(results) {
			n.Fail("%d outputs, but %d inputs have gradients", len(n.Outputs), len(results))
		}
		for i := range n.Outputs {
			if !results[i].Type.IsFloat() {
				n.Fail("output %d would be the gradient of %s, which is no float", i, results[i])
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

// yielded lists the inputs that gradients come back for.
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
		lowerFill(l, i, bitsOf(seed))
	}
}
