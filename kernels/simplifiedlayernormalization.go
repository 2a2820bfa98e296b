package kernels

import "memopt/internal/graph"

// SimplifiedLayerNormalization is ONNX Runtime's RMSNormalization, older than ONNX's.
var _ = define(graph.Op{
	Name:  "SimplifiedLayerNormalization",
	Doc:   "RMSNormalization under ONNX Runtime's older name, with 1/√(mean(x²) + ε) of each row",
	In:    "X, scale",
	Out:   "Y, inv_std_var?",
	Attrs: "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		wantType(n, 1, isFloat, "floats")
		inferRowNorm(n, n.Inputs[0], 1)
		n.Set(0, n.Inputs[1].Type, n.Inputs[0].Shape)
	},
	// The gradient needs only x: inv_std is computed again from it.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		if len(dy) > 1 && dy[1] != nil {
			n.Fail("output inv_std_var has no gradient")
		}
		return b.Ops(own+".RMSNormalizationGrad", rowNormAttrs(n), 2, dy[0], n.Inputs[0], n.Inputs[1])
	},
	Eval: func(c *graph.Call) {
		newRowNorm(c.Node, c.In[0].Shape, false).eval(c.In[0], c.In[1], nil, c.Out[0], nil, output(c, 1))
	},
	Fast: func(c *graph.Call) {
		if !newRowNorm(c.Node, c.In[0].Shape, false).fast(c, c.In[0], c.In[1], nil, c.Out[0], nil, output(c, 1)) {
			c.Node.Op.Eval(c)
		}
	},
	Lower:     simplifiedNorm.forward,
	Flops:     perElement(5),
	Tests:     graph.Tests{Work: eachOut(5)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[3,7], f32[7] -> y",
		"f32[2,3,4], f32[3,4]; axis=1 epsilon=0.1 -> y",
		"f32[2,300], f32[300] -> y",
		"f32[3,5], f32[5]; stash_type=1",
		"f16[3,5], f16[5]",
		"f32[0,4], f32[4] -> y",
	},
})

var _ = define(graph.Op{
	Name:   "SimplifiedLayerNormalizationGrad",
	Domain: microsoft,
	Doc:    "dX and dscale of SimplifiedLayerNormalization, from X and its kept inv_std",
	In:     "Y_grad, X, scale, inv_std_var",
	Out:    "X_grad?, scale_grad?",
	Attrs:  "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		x, scale := n.Inputs[1], n.Inputs[2]
		inferKeptRows(n, x, 3)
		n.Set(0, x.Type, x.Shape)
		n.Set(1, scale.Type, scale.Shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { keptRowNorm(c, false, 0, 3).keptGrad(c, nil) },
	Fast:      func(c *graph.Call) { keptRowNorm(c, false, 0, 3).keptGrad(c, c.Parallel) },
	Scratch:   keptScratch,
	Lower:     keptRMSGrad.backward,
	Flops:     scoresFlops(1, 10),
	Tests:     graph.Tests{Work: eachIn(1, 10)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[3,7], f32[3,7], f32[7], f32[3,1]",
		"f32[2,3,4], f32[2,3,4], f32[3,4], f32[2,1,1]; axis=1",
		"f32[2,300], f32[2,300], f32[300], f32[2,1] -> _, s",
		"f16[3,4], f16[3,4], f16[4], f32[3,1]",
	},
})
