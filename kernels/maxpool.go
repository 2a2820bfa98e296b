package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

const maxPoolAttrs = windowAttrs + ", dilations ints, kernel_shape ints, ceil_mode int=0, storage_order int=0"

var _ = define(graph.Op{
	Name:  "MaxPool",
	Doc:   "the maximum of each window, and its index; one to three spatial dims",
	In:    "X",
	Out:   "Y, Indices?",
	Attrs: maxPoolAttrs,
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		inferPool(n)
		n.Set(1, graph.Int64, n.Outputs[0].Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op(own+".MaxPoolGrad", convCopy(n), dy[0], n.Inputs[0])}
	},
	Eval: maxPool,
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 || output(c, 1) != nil {
			maxPool(c)
			return
		}
		p := newPool(c.Node, c.In[0].Shape, c.Out[0].Shape)
		p.images(c.Parallel, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				x, y := p.image(i, c.In[0].F32(), c.Out[0].F32())
				f32.Fill(y, float32(math.Inf(-1)))
				p.Lines(func(out, in, _, n, step int) {
					y, x := y[out:out+n], x[in:]
					for k := range y {
						if v := x[k*step]; v > y[k] || v != v {
							y[k] = v
						}
					}
				})
			}
		})
	},
	Lower:     lowerPool(poolMax),
	Flops:     poolFlops(firstOutput),
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.out(0) * c.window() }), NoScalars: true},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,7]; kernel_shape=[3]",
		"f32[1,2,5,6]; kernel_shape=[2, 3] strides=[2, 1] pads=[1, 0, 0, 2] -> y",
		"f32[1,2,6,7]; kernel_shape=[3, 2] dilations=[2, 3]",
		"f32[1,2,6,6]; kernel_shape=[3, 3] strides=[2, 2] ceil_mode=1",
		"f32[1,1,5,4]; kernel_shape=[3, 3] strides=[2, 3] pads=[1, 1, 1, 1] ceil_mode=1 storage_order=1",
		"f32[1,2,5,5]; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f32[1,2,4,4]; kernel_shape=[2, 2] auto_pad=\"SAME_LOWER\"",
		"f32[1,1,3,4,3]; kernel_shape=[2, 2, 2] strides=[1, 2, 1]",
		"f32[1,2,3,3]; kernel_shape=[3, 3] -> y",
		"i8[1,2,5]; kernel_shape=[2]",
		"f32[0,2,5,4]; kernel_shape=[2,2] -> y",
	},
})

// better reports whether v replaces the maximum m so far (none: there is none yet). Of equal
// elements the first stays; NaN is greater than all numbers.
func better(v, m float64, none bool) bool { return none || v > m || v != v && m == m }

func maxPool(c *graph.Call) {
	x, y, indices := c.In[0], c.Out[0], output(c, 1)
	p := newPool(c.Node, x.Shape, y.Shape)
	for i := range p.N {
		base := i * f32.Volume(p.In)
		p.each(func(out int, inputs func(func(int))) {
			m, at := math.Inf(-1), -1
			inputs(func(in int) {
				if v := x.Float(base + in); better(v, m, at < 0) {
					m, at = v, in
				}
			})
			y.SetFloat(i*f32.Volume(p.Out)+out, m)
			if indices != nil {
				if c.Node.Int("storage_order") != 0 {
					at = at/p.In[2]/p.In[1] + p.In[0]*(at/p.In[2]%p.In[1]+p.In[1]*(at%p.In[2]))
				}
				indices.SetInt(i*f32.Volume(p.Out)+out, int64(base+at))
			}
		})
	}
}

// MaxPoolGrad finds the maximum in x again; of equal elements the first gets the gradient.
var _ = define(graph.Op{
	Name:   "MaxPoolGrad",
	Domain: own,
	Doc:    "dX of MaxPool: dY goes to the first greatest element of each window",
	In:     "dY, X",
	Out:    "dX",
	Attrs:  maxPoolAttrs,
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		sameTypes(n)
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
	},
	NoGrad: true,
	Shrink: taps,
	Eval:   maxPoolGrad,
	Fast: func(c *graph.Call) {
		if c.In[1].Type != graph.Float32 {
			maxPoolGrad(c)
			return
		}
		p := newPool(c.Node, c.In[1].Shape, c.In[0].Shape)
		p.images(c.Parallel, func(lo, hi int) {
			at, most := make([]int32, f32.Volume(p.Out)), make([]float32, f32.Volume(p.Out))
			for i := lo; i < hi; i++ {
				x, dy := p.image(i, c.In[1].F32(), c.In[0].F32())
				dx, _ := p.image(i, c.Out[0].F32(), c.In[0].F32())
				for k := range at {
					at[k] = -1
				}
				p.Lines(func(out, in, _, n, step int) {
					at, most, x := at[out:out+n], most[out:out+n], x[in:]
					for k, m := range most {
						if v := x[k*step]; at[k] < 0 || v > m || v != v && m == m {
							at[k], most[k] = int32(in+k*step), v
						}
					}
				})
				clear(dx)
				for k, d := range dy {
					if at[k] >= 0 {
						dx[at[k]] += d
					}
				}
			}
		})
	},
	Lower:     lowerPoolGrad(poolMaxGrad),
	Flops:     poolFlops(firstInput),
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.in(0) * c.window() })},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,5], f32[2,3,7]; kernel_shape=[3]",
		"f32[1,2,3,3], f32[1,2,5,5]; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f32[1,2,2,4], f32[1,2,6,7]; kernel_shape=[3, 2] dilations=[2, 3]",
		"f64[1,1,3], f64[1,1,4]; kernel_shape=[2]",
	},
})

func maxPoolGrad(c *graph.Call) {
	dy, x, dx := c.In[0], c.In[1], c.Out[0]
	p := newPool(c.Node, x.Shape, dy.Shape)
	for i := range p.N {
		base := i * f32.Volume(p.In)
		sum := make([]float64, f32.Volume(p.In))
		p.each(func(out int, inputs func(func(int))) {
			m, at := 0.0, -1
			inputs(func(in int) {
				if v := x.Float(base + in); better(v, m, at < 0) {
					m, at = v, in
				}
			})
			if at >= 0 {
				sum[at] += dy.Float(i*f32.Volume(p.Out) + out)
			}
		})
		for k, v := range sum {
			dx.SetFloat(base+k, v)
		}
	}
}

// ONNX Runtime's gradient reads the indices of the maxima, not X. The shape of X comes from
// the MaxPool that computed the indices.
func init() {
	for _, domain := range poolGradDomains {
		define(graph.Op{
			Name:   "MaxPoolGrad",
			Domain: domain,
			Doc:    "dX of MaxPool: dY added at the indices of the maxima",
			In:     "dY, Indices",
			Out:    "dX",
			Attrs:  maxPoolAttrs,
			Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
				dy, indices := n.Inputs[0], n.Inputs[1]
				pool := indices.Def
				if pool == nil || pool.Op.FullName() != "MaxPool" || indices.Out != 1 {
					n.Fail("Indices is not an output of a MaxPool, so the shape of X is not known")
				}
				if pool.Int("storage_order") != 0 {
					n.Fail("the MaxPool has column-major indices (storage_order 1), for which there is no gradient")
				}
				sameDims(n, dy.Shape, indices.Shape)
				x := pool.Inputs[0].Shape
				flat := graph.Shape{dy.Shape.Elems()}
				dx := b.Op("com.microsoft.GatherElementsGrad", nil, reshape(b, dy, flat), b.Ints(x.Elems()), reshape(b, indices, flat))
				return []*graph.Value{reshape(b, dx, x)}
			},
		})
	}
}

// poolGradDomains are the domains that releases of ONNX Runtime use for the gradients of pools.
var poolGradDomains = []string{"", microsoft}
