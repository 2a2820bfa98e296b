package kernels

import "memopt/memopt/graph"

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
	Eval:      func(c *graph.Call) { averagePool(c, serial) },
	Fast:      func(c *graph.Call) { averagePool(c, c.Parallel) },
	Flops:     poolFlops(firstOutput),
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
	},
})

// share is what each element of a window counts.
func (p *pool) share(n *graph.Node) func(padded, seen int) float64 {
	if n.Int("count_include_pad") != 0 {
		return func(padded, _ int) float64 { return 1 / float64(padded) }
	}
	return func(_, seen int) float64 { return 1 / float64(seen) }
}

func averagePool(c *graph.Call, par parallel) {
	x, y := c.In[0], c.Out[0]
	p := newPool(c.Node, x.Shape, y.Shape)
	share := p.share(c.Node)
	p.images(par, func(i int) {
		p.each(func(out, padded int, inputs func(func(int))) {
			sum, seen := 0.0, 0
			inputs(func(in int) {
				sum += x.Float(i*volume(p.in) + in)
				seen++
			})
			y.SetFloat(i*volume(p.out)+out, sum*share(padded, seen))
		})
	})
}

var _ = define(graph.Op{
	Name:   "AveragePoolGrad",
	Domain: own,
	Doc:    "dX of AveragePool: each element of a window gets its share of dY",
	In:     "dY, shape",
	Out:    "dX",
	Attrs:  averagePoolAttrs,
	Infer: func(n *graph.Node) {
		n.Set(0, n.Inputs[0].Type, knownDims(n, 1, "shape"))
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { averagePoolGrad(c, serial) },
	Fast:      func(c *graph.Call) { averagePoolGrad(c, c.Parallel) },
	Flops:     poolFlops(firstInput),
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,5], i64{2,3,7}; kernel_shape=[3]",
		"f32[1,2,3,3], i64{1,2,5,5}; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f64[1,1,3], i64{1,1,4}; kernel_shape=[2]",
	},
})

func averagePoolGrad(c *graph.Call, par parallel) {
	dy, dx := c.In[0], c.Out[0]
	p := newPool(c.Node, dx.Shape, dy.Shape)
	share := p.share(c.Node)
	p.images(par, func(i int) {
		sum := make([]float64, volume(p.in))
		p.each(func(out, padded int, inputs func(func(int))) {
			seen := 0
			inputs(func(int) { seen++ })
			d := dy.Float(i*volume(p.out)+out) * share(padded, seen)
			inputs(func(in int) { sum[in] += d })
		})
		for k, v := range sum {
			dx.SetFloat(i*volume(p.in)+k, v)
		}
	})
}
