package kernels

import "memopt/internal/graph"

var _ = define(graph.Op{
	Name:  "LayerNormalization",
	Doc:   "y = (x − mean)·inv_std·scale + bias over the dims from axis on",
	In:    "X, Scale, B?",
	Out:   "Y, Mean?, InvStdDev?",
	Attrs: "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		sameTypes(n)
		inferRowNorm(n, n.Inputs[0], 1, 2)
		sameShape(n)
	},
	// Mean and inv_std are computed again from x, which the gradient reads anyway, so
	// only x is kept.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dY := dy[0]
		if dY == nil {
			dY = zerosLike(b, n.Outputs[0])
		}
		in := append([]*graph.Value{dY, n.Inputs[0], n.Inputs[1], n.In(2)}, dy[1:]...)
		return b.Ops(own+".LayerNormalizationGrad", rowNormAttrs(n), len(n.Inputs), in...)
	},
	Fuse: fuseLayerNormalization,
	Eval: func(c *graph.Call) {
		newRowNorm(c.Node, c.In[0].Shape, true).eval(c.In[0], c.In[1], input(c, 2), c.Out[0], output(c, 1), output(c, 2))
	},
	Fast: func(c *graph.Call) {
		r := newRowNorm(c.Node, c.In[0].Shape, true)
		if !r.fast(c, c.In[0], c.In[1], input(c, 2), c.Out[0], output(c, 1), output(c, 2)) {
			c.Node.Op.Eval(c)
		}
	},
	Lower: layerNorm.forward,
	Flops: perElement(8),
	Tests: graph.Tests{
		Work: eachOut(8),
		Pieces: []string{
			"f32[70,32], f32[32], f32[32]; axis=-1",
			"f32[33,60], f32[60], f32[60]; axis=-1 -> y, m, i",
			"f16[140,32], f16[32]",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[3,7], f32[7], f32[7] -> y",
		"f32[2,3,4], f32[4] -> y",
		"f32[2,3,4], f32[3,4], f32[3,4]; axis=1 epsilon=0.1 -> y",
		"f32[2,3,4], f32[2,3,4], f32[4]; axis=-3 -> y",
		"f32[2,3,4], f32[], f32[1]; axis=1 -> y",
		"f32[2,3,4], f32[3,1], f32[3,1]; axis=1 -> y",
		"f32[2,3,4,2], f32[3,4,1], f32[3,4,1]; axis=2 -> y",
		"f32[3,7], f32[7], f32[7]; stash_type=11",
		"f32[3,7], f32[7]; stash_type=11 -> y, _, s",
		"f32[2,300], f32[300], f32[300]",
		"f64[3,5], f64[5]",
		"f16[3,5], f16[5], f16[5]",
		"f32[0,4], f32[4], f32[4]",
		"f32[3,0], f32[0], f32[0] -> y",
	},
})

// fuseLayerNormalization fuses the decomposition up to the scale (mean, difference, variance,
// square root, scale), then the bias.
func fuseLayerNormalization(m *graph.Match) []*graph.Value {
	p, n := pieces{m}, m.Node
	if r, scale := p.scaledRow(true); scale != nil {
		return []*graph.Value{m.Builder.Op("LayerNormalization", r.attrs(), r.x, scale)}
	}
	if n.Op.FullName() != "Add" {
		return nil
	}
	for i, v := range n.Inputs {
		norm, bias := p.Maker(v, "LayerNormalization"), n.Inputs[1-i]
		if norm == nil || norm.In(2) != nil || !bias.Shape.Equal(norm.Inputs[1].Shape) || bias.Rank() == v.Rank() {
			continue
		}
		if norm = p.Inner(v, "LayerNormalization"); norm != nil {
			a := rowNormAttrs(norm)
			a["stash_type"] = norm.Int("stash_type")
			return []*graph.Value{m.Builder.Op("LayerNormalization", a, norm.Inputs[0], norm.Inputs[1], bias)}
		}
	}
	return nil
}

func rowNormAttrs(n *graph.Node) graph.A {
	return graph.A{"axis": n.Int("axis"), "epsilon": n.Float("epsilon")}
}

var _ = define(graph.Op{
	Name:   "LayerNormalizationGrad",
	Domain: own,
	Doc:    "dX, dScale and dB of LayerNormalization, from X alone",
	In:     "dY, X, Scale, B?, dMean?, dInvStdDev?",
	Out:    "dX, dScale?, dB?",
	Attrs:  "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		x := n.Inputs[1]
		inferRowNorm(n, x)
		n.Set(0, x.Type, x.Shape)
		n.Set(1, n.Inputs[2].Type, n.Inputs[2].Shape)
		if b := n.In(3); b != nil {
			n.Set(2, b.Type, b.Shape)
		} else if n.Output(2) != nil {
			n.Fail("output dB needs input B")
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		newRowNorm(c.Node, c.In[1].Shape, true).evalGrad(c.In[0], c.In[1], c.In[2], input(c, 4), input(c, 5), c.Out[0], output(c, 1), output(c, 2))
	},
	Fast: func(c *graph.Call) {
		r := newRowNorm(c.Node, c.In[1].Shape, true)
		if input(c, 4) != nil || input(c, 5) != nil ||
			!r.fastGrad(c, c.In[0], c.In[1], c.In[2], c.Out[0], output(c, 1), output(c, 2)) {
			c.Node.Op.Eval(c)
		}
	},
	Scratch: rowStats(1),
	Lower:   layerNormGrad.backward,
	Flops:   perElement(20),
	Tests: graph.Tests{
		Work: eachIn(1, 20),
		Pieces: []string{
			"f32[320,16], f32[320,16], f32[16], f32[16]",
			"f32[130,31], f32[130,31], f32[31], f32[31] -> x",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[3,7], f32[3,7], f32[7], f32[7]",
		"f32[2,3,4], f32[2,3,4], f32[3,4], f32[3,4]; axis=1",
		"f32[2,3,4], f32[2,3,4], f32[3,1], f32[3,1]; axis=1",
		"f32[2,3,4,2], f32[2,3,4,2], f32[3,4,1], f32[3,4,1]; axis=2",
		"f32[2,3,4], f32[2,3,4], f32[]; axis=1 -> x, s",
		"f32[2,3,4], f32[2,3,4], f32[2,3,4], f32[4] -> x, s, b",
		"f32[2,300], f32[2,300], f32[300], _ -> x, s",
		"f32[3,4], f32[3,4], f32[4], f32[4], f32[3,1], f32[3,1]",
		"f64[3,4], f64[3,4], f64[4] -> x",
	},
})

// rowStats is the work space for mean and inv_std of each row of an input.
func rowStats(input int) func(*graph.Node) graph.Dim {
	return func(n *graph.Node) graph.Dim {
		s := n.Inputs[input].Shape
		return s[:axisOf(n, n.Int("axis"), len(s))].Elems().Mul(graph.Num(16))
	}
}
