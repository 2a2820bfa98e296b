package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

const averagePoolAttrs = windowAttrs + ", dilations ints, kernel_shape ints, ceil_mode int=0, count_include_pad int=0"

var _ = define(graph.Op{
	Name:  "AveragePool",
	Doc:   "the mean of each window, with or without the padding; one to three spatial dims",
	In:    "X",
	Out:   "Y",
	Attrs: averagePoolAttrs,
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		inferPool(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op(own+".AveragePoolGrad", convCopy(n), dy[0], shapeOf(b, n.Inputs[0]))}
	},
	Eval: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		p := newPool(c.Node, x.Shape, y.Shape)
		share := p.share(c.Node)
		for i := range p.N {
			p.each(func(out int, inputs func(func(int))) {
				sum := 0.0
				inputs(func(in int) { sum += x.Float(i*f32.Volume(p.In) + in) })
				y.SetFloat(i*f32.Volume(p.Out)+out, sum*share[out])
			})
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		p := newPool(c.Node, c.In[0].Shape, c.Out[0].Shape)
		share := p.share(c.Node)
		p.images(c.Parallel, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				x, y := p.image(i, c.In[0].F32(), c.Out[0].F32())
				clear(y)
				p.Lines(func(out, in, _, n, step int) {
					y, x := y[out:out+n], x[in:]
					for k := range y {
						y[k] += x[k*step]
					}
				})
				for k := range y {
					y[k] *= float32(share[k])
				}
			}
		})
	},
	Lower:     lowerPool(poolMean),
	Flops:     poolFlops(firstOutput),
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.out(0) * c.window() }), NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,7]; kernel_shape=[3]",
		"f32[1,2,5,6]; kernel_shape=[2, 3] strides=[2, 1] pads=[1, 0, 0, 2]",
		"f32[1,2,5,6]; kernel_shape=[2, 3] strides=[2, 1] pads=[1, 0, 0, 2] count_include_pad=1",
		"f32[1,2,6,7]; kernel_shape=[3, 2] dilations=[2, 3]",
		"f32[1,2,6,6]; kernel_shape=[3, 3] strides=[2, 2] ceil_mode=1",
		"f32[1,1,5,4]; kernel_shape=[3, 3] strides=[2, 3] pads=[1, 1, 1, 1] ceil_mode=1 count_include_pad=1",
		"f32[1,2,5,5]; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f32[1,2,4,4]; kernel_shape=[2, 2] auto_pad=\"SAME_LOWER\" count_include_pad=1",
		"f32[1,1,3,4,3]; kernel_shape=[2, 2, 2] strides=[1, 2, 1]",
		"f16[1,1,5]; kernel_shape=[2]",
		"f32[0,2,5,4]; kernel_shape=[2,2]",
	},
})

// share returns, for each output, the weight of an element of its window: 1/count.
func (p *pool) share(n *graph.Node) []float64 {
	all := n.Int("count_include_pad") != 0
	share := make([]float64, f32.Volume(p.Out))
	for o := range share {
		count := 1
		for axis, at := range [3]int{o / p.Out[2] / p.Out[1], o / p.Out[2] % p.Out[1], o % p.Out[2]} {
			_, seen, padded := p.span(axis, at)
			if all {
				seen = padded
			}
			count *= seen
		}
		share[o] = 1 / float64(count)
	}
	return share
}

var _ = define(graph.Op{
	Name:   "AveragePoolGrad",
	Domain: own,
	Doc:    "dX of AveragePool: each element of a window gets its share of dY",
	In:     "dY, shape",
	Out:    "dX",
	Attrs:  averagePoolAttrs,
	Known:  []int{1},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		n.Set(0, n.Inputs[0].Type, knownDims(n, 1, "shape"))
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, dx := c.In[0], c.Out[0]
		p := newPool(c.Node, dx.Shape, dy.Shape)
		share := p.share(c.Node)
		for i := range p.N {
			sum := make([]float64, f32.Volume(p.In))
			p.each(func(out int, inputs func(func(int))) {
				d := dy.Float(i*f32.Volume(p.Out)+out) * share[out]
				inputs(func(in int) { sum[in] += d })
			})
			for k, v := range sum {
				dx.SetFloat(i*f32.Volume(p.In)+k, v)
			}
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		p := newPool(c.Node, c.Out[0].Shape, c.In[0].Shape)
		share := p.share(c.Node)
		p.images(c.Parallel, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				dx, dy := p.image(i, c.Out[0].F32(), c.In[0].F32())
				clear(dx)
				p.Lines(func(out, in, _, n, step int) {
					dy, share, dx := dy[out:out+n], share[out:], dx[in:]
					for k, d := range dy {
						dx[k*step] += d * float32(share[k])
					}
				})
			}
		})
	},
	Lower:     lowerPoolGrad(poolMeanGrad),
	Flops:     poolFlops(firstInput),
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.in(0) * c.window() })},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,5], i64{2,3,7}; kernel_shape=[3]",
		"f32[1,2,3,3], i64{1,2,5,5}; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f64[1,1,3], i64{1,1,4}; kernel_shape=[2]",
	},
})

// ONNX Runtime's gradient may come without X. X is then assumed to end where the last
// window ends, which is wrong if the strides left trailing elements uncovered.
func init() {
	for _, domain := range poolGradDomains {
		define(graph.Op{
			Name:    "AveragePoolGrad",
			Domain:  domain,
			Doc:     "dX of AveragePool: each element of a window gets its share of dY",
			In:      "dY, X?, Y?",
			Out:     "dX",
			Attrs:   averagePoolAttrs,
			Samples: []string{"f32[2,3,5]; kernel_shape=[3]", "f32[2,3,5], f32[2,3,8]; kernel_shape=[4]"},
			Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
				dy := n.Inputs[0]
				if dy.Rank() < 3 {
					n.Fail("dY must be [N, C, …], but is %s", dy.Shape)
				}
				var shape *graph.Value
				if x := n.In(1); x != nil {
					shape = shapeOf(b, x)
				} else {
					w := poolWindow(n, dy.Rank())
					if w.same() {
						n.Fail("auto_pad is %s, and without X its shape is not known", w.auto)
					}
					dims := append(graph.Shape{}, dy.Shape[:2]...)
					for i, d := range dy.Shape[2:] {
						strided := d.Sub(graph.Num(1)).Mul(graph.Num(int64(w.strides[i])))
						dims = append(dims, strided.Add(graph.Num(int64(w.reach(i)-w.pads[i]-w.pads[len(w.kernel)+i]))))
					}
					shape = b.Ints(dims...)
				}
				return []*graph.Value{b.Op(own+".AveragePoolGrad", convCopy(n), dy, shape)}
			},
		})
	}
}
