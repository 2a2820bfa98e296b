package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:  "RMSNormalization",
	Since: 23,
	Doc:   "y = x / √(mean(x²) + ε)·scale over the dims from axis on",
	In:    "X, scale",
	Out:   "Y",
	Attrs: "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		wantType(n, 1, isFloat, "floats")
		inferRowNorm(n, n.Inputs[0])
		n.Set(0, n.Inputs[1].Type, n.Inputs[0].Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return b.Ops(own+".RMSNormalizationGrad", rowNormAttrs(n), 2, dy[0], n.Inputs[0], n.Inputs[1])
	},
	Fuse: fuseRMSNormalization,
	Eval: func(c *graph.Call) {
		newRowNorm(c.Node, c.In[0].Shape, false).eval(c.In[0], c.In[1], nil, c.Out[0], nil, nil)
	},
	Fast: func(c *graph.Call) {
		if !newRowNorm(c.Node, c.In[0].Shape, false).fast(c, c.In[0], c.In[1], nil, c.Out[0], nil, nil) {
			c.Node.Op.Eval(c)
		}
	},
	Lower:     rmsNorm.forward,
	Flops:     perElement(5),
	Tests:     graph.Tests{Work: eachOut(5)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[3,7], f32[7]",
		"f32[2,3,4], f32[3,4]; axis=1 epsilon=0.1",
		"f32[2,3,4], f32[2,3,4]; axis=-3",
		"f32[2,3,4], f32[]; axis=1",
		"f32[2,3,4], f32[3,1]; axis=1",
		"f32[2,300], f32[300]",
		"f64[3,5], f64[5]; stash_type=11",
		"f16[3,5], f32[5]",
		"f32[0,4], f32[4]",
	},
})

// fuseRMSNormalization fuses the decomposition into square, mean, square root and scale.
func fuseRMSNormalization(m *graph.Match) []*graph.Value {
	r, scale := pieces{m}.scaledRow(false)
	if scale == nil {
		return nil
	}
	return []*graph.Value{m.Builder.Op("RMSNormalization", r.attrs(), r.x, scale)}
}

var _ = define(graph.Op{
	Name:   "RMSNormalizationGrad",
	Domain: own,
	Doc:    "dX and dscale of RMSNormalization, from X alone",
	In:     "dY, X, scale",
	Out:    "dX, dscale?",
	Attrs:  "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		inferRowNorm(n, n.Inputs[1])
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
		n.Set(1, n.Inputs[2].Type, n.Inputs[2].Shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		newRowNorm(c.Node, c.In[1].Shape, false).evalGrad(c.In[0], c.In[1], c.In[2], nil, nil, c.Out[0], output(c, 1), nil)
	},
	Fast: func(c *graph.Call) {
		if !newRowNorm(c.Node, c.In[1].Shape, false).fastGrad(c, c.In[0], c.In[1], c.In[2], c.Out[0], output(c, 1), nil) {
			c.Node.Op.Eval(c)
		}
	},
	Scratch:   rowStats(1),
	Lower:     rmsNormGrad.backward,
	Flops:     perElement(14),
	Tests:     graph.Tests{Work: eachIn(1, 14)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[3,7], f32[3,7], f32[7]",
		"f32[2,3,4], f32[2,3,4], f32[3,4]; axis=1",
		"f32[2,3,4], f32[2,3,4], f32[3,1]; axis=1",
		"f32[2,300], f32[2,300], f32[300] -> x",
		"f64[3,4], f64[3,4], f64[4]",
		"f32[3,4], f16[3,4], f32[4]",
	},
})
