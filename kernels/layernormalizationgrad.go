package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// LayerNormalizationGrad of ONNX Runtime reads the mean and inv_std of the forward pass.
var _ = define(graph.Op{
	Name:   "LayerNormalizationGrad",
	Domain: microsoft,
	Doc:    "dX, dScale and dB of LayerNormalization, from X and its kept statistics",
	In:     "Y_grad, X, scale, mean, inv_std_var",
	Out:    "X_grad?, scale_grad?, bias_grad?",
	Attrs:  "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		x, scale := n.Inputs[1], n.Inputs[2]
		inferKeptRows(n, x, 3, 4)
		n.Set(0, x.Type, x.Shape)
		n.Set(1, scale.Type, scale.Shape)
		n.Set(2, scale.Type, scale.Shape)
	},
	NoGrad:  true,
	Eval:    func(c *graph.Call) { keptRowNorm(c, true, 3, 4).keptGrad(c, nil) },
	Fast:    func(c *graph.Call) { keptRowNorm(c, true, 3, 4).keptGrad(c, c.Parallel) },
	Scratch: keptScratch,
	Lower:   keptNormGrad.backward,
	Flops:   scoresFlops(1, 12),
	Tests: graph.Tests{
		Work: eachIn(1, 12),
		Pieces: []string{
			"f32[320,16], f32[320,16], f32[16], f32[320,1], f32[320,1]",
			"f32[130,31], f32[130,31], f32[31], f32[130,1], f32[130,1] -> x",
		},
	},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[3,7], f32[3,7], f32[7], f32[3,1], f32[3,1]",
		"f32[2,3,4], f32[2,3,4], f32[3,4], f32[2,1,1], f32[2,1,1]; axis=1",
		"f32[2,300], f32[2,300], f32[300], f32[2,1], f32[2,1] -> x, s",
		"f32[2,3,4], f32[2,3,4], f32[4], f32[2,3,1], f32[2,3,1] -> _, s, b",
		"f16[3,4], f16[3,4], f16[4], f32[3,1], f32[3,1]",
		"f64[3,4], f64[3,4], f64[4], f64[3,1], f64[3,1]",
	},
})

// inferKeptRows checks the shapes of a gradient that reads statistics.
func inferKeptRows(n *graph.Node, x *graph.Value, stats ...int) {
	inferRowNorm(n, x)
	sameDims(n, n.Inputs[0].Shape, x.Shape)
	axis := axisOf(n, n.Int("axis"), x.Rank())
	for i, v := range n.Inputs {
		wantType(n, i, isFloat, "floats")
		for _, s := range stats {
			if s == i {
				n.Same(v.Shape.Elems(), x.Shape[:axis].Elems(), "statistics and rows")
			}
		}
	}
}

// keptRowNorm is the node's geometry, with the statistics from inputs mean (if centred) and
// inv; x is input 1.
func keptRowNorm(c *graph.Call, centred bool, mean, inv int) rowNorm {
	r := newRowNorm(c.Node, c.In[1].Shape, centred)
	if r.inv = c.In[inv]; centred {
		r.mean = c.In[mean]
	}
	return r
}

// keptScratch is the work space for the statistics, and for dX if it is not an output.
func keptScratch(n *graph.Node) graph.Dim {
	bytes := rowStats(1)(n)
	if n.Output(0) == nil {
		bytes = bytes.Add(n.Inputs[1].Bytes())
	}
	return bytes
}

// keptGrad computes dx, dscale and dbias from the given statistics, as Eval does if par is nil.
func (r rowNorm) keptGrad(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	dy, x, scale := c.In[0], c.In[1], c.In[2]
	dx := c.Out[0]
	if dx == nil {
		dx = &graph.Tensor{Type: x.Type, Shape: x.Shape}
		if par == nil {
			dx.Bytes = make([]byte, len(x.Bytes))
		} else {
			dx.Bytes = c.Scratch[len(c.Scratch)-len(x.Bytes):]
		}
	}
	if par == nil || !r.fastGrad(c, dy, x, scale, dx, output(c, 1), output(c, 2)) {
		r.evalGrad(dy, x, scale, nil, nil, dx, output(c, 1), output(c, 2))
	}
}

// InvertibleLayerNormalizationGrad reads y instead of x: the normalized rows are
// (y − bias)/scale.
var _ = define(graph.Op{
	Name:   "InvertibleLayerNormalizationGrad",
	Domain: microsoft,
	Doc:    "dX, dScale and dB of LayerNormalization, from Y and the kept inv_std: x's normal form is (y − bias)/scale",
	In:     "Y_grad, Y, scale, bias, inv_std_var",
	Out:    "X_grad, scale_grad?, bias_grad?",
	Attrs:  "axis int=-1, epsilon float=1e-5, stash_type int=1",
	Infer: func(n *graph.Node) {
		y, scale, bias := n.Inputs[1], n.Inputs[2], n.Inputs[3]
		inferKeptRows(n, y, 4)
		n.Set(0, y.Type, y.Shape)
		n.Set(1, scale.Type, scale.Shape)
		n.Set(2, bias.Type, bias.Shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, y, scale, bias, inv, dx := c.In[0], c.In[1], c.In[2], c.In[3], c.In[4], c.Out[0]
		r := newRowNorm(c.Node, y.Shape, true)
		ws, bs := index.Broadcast(scale.Shape, y.Shape), index.Broadcast(bias.Shape, y.Shape)
		ds, db := make([]float64, scale.Len()), make([]float64, bias.Len())
		for row := range r.rows {
			from, to := row*r.width, (row+1)*r.width
			var sumG, sumGN float64
			index.Walk(y.Shape, from, to, func(i int, at []int) {
				w := scale.Float(at[0])
				d, n := dy.Float(i), (y.Float(i)-bias.Float(at[1]))/w
				sumG += d * w
				sumGN += d * w * n
				ds[at[0]] += d * n
				db[at[1]] += d
			}, ws, bs)
			s, width := inv.Float(row), float64(r.width)
			index.Walk(y.Shape, from, to, func(i int, at []int) {
				w := scale.Float(at[0])
				n := (y.Float(i) - bias.Float(at[1])) / w
				dx.SetFloat(i, s*(dy.Float(i)*w-sumG/width-n*sumGN/width))
			}, ws, bs)
		}
		for o, sums := range [][]float64{1: ds, 2: db} {
			if out := output(c, o); o > 0 && out != nil {
				for i, v := range sums {
					out.SetFloat(i, v)
				}
			}
		}
	},
	Lower:     lowerInvertible,
	Flops:     scoresFlops(1, 14),
	Tests:     graph.Tests{Work: eachIn(1, 14)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[3,7], f32[3,7], f32[7]>0, f32[7], f32[3,1]",
		"f32[2,3,4], f32[2,3,4], f32[3,4]>0, f32[3,4], f32[2,1,1]; axis=1",
		"f64[3,4], f64[3,4], f64[4]>0, f64[4], f64[3,1] -> x, _, b",
	},
})

// lowerInvertible reconstructs x up to its mean, (y − bias)/scale/inv_std, in work space, and
// runs the gradient's kernel on it with mean 0.
func lowerInvertible(l *graph.Lowering) {
	f := graph.Float32
	r, ok := invertibleGrad.geometry(l)
	if !ok {
		return
	}
	y, rows := l.In[1], int64(4*r.rows)
	x := lower.Scratch(lower.Aligned(r.work()), int64(4*y.Len()), true)
	zeros := lower.Scratch(x.At+lower.Aligned(x.Bytes), rows, true)
	lower.Box(l, 4, []graph.Buffer{zeros, lower.Unused(false)}, new(uint64), []int{r.rows}, []int{0}, []int{1}, 0, 0)
	from := lower.Reads(1)
	for _, step := range []struct {
		expr string
		in   int
	}{{"a - b", 3}, {"a / b", 2}, {"a / b", 4}} {
		lower.FormOf(f, f, f, f).Append(l, step.expr, y, []*graph.Operand{y, l.In[step.in]}, []graph.Buffer{x, from, lower.Reads(step.in)})
		from = lower.Unwritten(x)
	}
	l.Scratch = zeros.At + lower.Aligned(rows)
	invertibleGrad.gradient(l, r, from, lower.Unwritten(zeros))
}
