package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

const convAttrs = windowAttrs + ", dilations ints, group int=1, kernel_shape ints"

var _ = define(graph.Op{
	Name:  "Conv",
	Doc:   "Y = W convolved with X, + B for each channel; one to three spatial dims",
	In:    "X, W, B?",
	Out:   "Y",
	Attrs: convAttrs,
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isFloat, "floats")
		x, w := n.Inputs[0], n.Inputs[1]
		win := convWindow(n, x.Shape, w.Shape)
		group := graph.Num(int64(n.Int("group")))
		n.Same(x.Shape[1], w.Shape[1].Mul(group), "channels of X, and of W times group")
		if m := w.Shape[0].Mod(group); !m.Is(0) {
			n.Fail("%s filters cannot be split into %s groups", w.Shape[0], group)
		}
		if b := n.In(2); b != nil {
			if b.Rank() != 1 {
				n.Fail("B must be [M], but is %s", b.Shape)
			}
			n.Same(b.Shape[0], w.Shape[0], "biases and filters")
		}
		n.Set(0, x.Type, win.shape(n, x.Shape, w.Shape[0]))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, w := n.Inputs[0], n.Inputs[1]
		attrs := convCopy(n)
		grads := []*graph.Value{
			b.Op(own+".ConvGradX", attrs, dy[0], w, shapeOf(b, x)),
			b.Op(own+".ConvGradW", attrs, dy[0], x, shapeOf(b, w)),
		}
		if n.In(2) != nil {
			grads = append(grads, channelSum(b, dy[0]))
		}
		return grads
	},
	Eval: func(c *graph.Call) {
		conv := convOf(c.Node, c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
		conv.forward(c.In[0], c.In[1], input(c, 2), c.Out[0])
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		conv := convOf(c.Node, c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
		conv.Forward(c.Parallel, c.In[0].F32(), c.In[1].F32(), biasOf(c), c.Out[0].F32())
	},
	Lower: lowerConv,
	Flops: func(n *graph.Node) graph.Dim { return convFlops(n.Outputs[0].Shape, n.Inputs[1].Shape) },
	Tests: graph.Tests{
		Work:  counted(func(c sampled) int64 { return 2 * c.out(0) * visits(c.In[1].Shape[1:]...) }),
		Large: []string{"f32[2,9,61,61], f32[13,9,3,3], f32[13]; pads=[1, 1, 1, 1]"},
	},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		"f32[2,3,7], f32[4,3,3]",
		"f32[1,2,5,6], f32[3,2,3,2], f32[3]",
		"f32[2,2,6,7], f32[4,2,3,3]; pads=[1, 1, 1, 1] strides=[2, 2]",
		"f32[1,4,6,6], f32[4,2,3,3], f32[4]; group=2 pads=[1, 0, 2, 1]",
		"f32[1,2,7,8], f32[2,1,3,2]; dilations=[2, 3] group=2",
		"f32[2,2,5,5], f32[2,2,3,3]; auto_pad=\"SAME_UPPER\" strides=[2, 2]",
		"f32[1,2,6,5], f32[2,2,2,2]; auto_pad=\"SAME_LOWER\"",
		"f32[1,2,6,5], f32[2,2,2,3]; auto_pad=\"VALID\" kernel_shape=[2, 3] strides=[1, 3]",
		"f32[1,2,4,9], f32[3,2,1,1]",
		"f32[1,1,3,4,3], f32[2,1,2,2,2]; pads=[1, 0, 0, 0, 1, 1] strides=[1, 2, 1]",
		"f32[1,2,3,40], f32[3,2,1,3]; pads=[0, 1, 0, 1]",
		"f32[1,1,3,2], f32[1,1,5,5]; pads=[4, 4, 4, 4]",
		"f16[1,2,4,4], f16[2,2,3,3]",
		"f32[0,3,7], f32[4,3,3], f32[4]",
	},
})

// convWindow checks ranks and reads the window. The filters' spatial dims must be constant.
func convWindow(n *graph.Node, x, w graph.Shape) window {
	rank := len(w) - 2
	if rank < 1 || rank > 3 || len(x) != len(w) {
		n.Fail("X and W must have one to three spatial dims, but are %s and %s", x, w)
	}
	kernel := make([]int, rank)
	given := n.Ints("kernel_shape")
	for i := range kernel {
		k, ok := w[2+i].Const()
		if !ok || k < 1 {
			n.Fail("the filters' spatial dims must be constant, but W is %s", w)
		}
		if given != nil && (len(given) != rank || given[i] != k) {
			n.Fail("kernel_shape is %d, but W is %s", given, w)
		}
		kernel[i] = int(k)
	}
	if n.Int("group") < 1 {
		n.Fail("group is %d", n.Int("group"))
	}
	return newWindow(n, kernel)
}

// convOf is the geometry of a Conv or one of its gradients, from the shapes of a call.
func convOf(n *graph.Node, x, w, y []int) *convolution {
	c := newConvolution(newWindow(n, w[2:]), n.Int("group"), x, w, y)
	return &c
}

// convCopy copies the attributes for a gradient operator.
func convCopy(n *graph.Node) graph.A {
	attrs := graph.A{}
	for _, a := range n.Attrs {
		attrs[a.Name] = a.Value
	}
	return attrs
}

func convFlops(y, w graph.Shape) graph.Dim {
	return y.Elems().Mul(w[1:].Elems()).Mul(graph.Num(2))
}

// biasOf returns input 2 as float32, or nil if it is omitted.
func biasOf(c *graph.Call) []float32 {
	if b := input(c, 2); b != nil {
		return b.F32()
	}
	return nil
}

// channelSum is the gradient of a bias [C] added to [N, C, …].
func channelSum(b *graph.Builder, dy *graph.Value) *graph.Value {
	axes := []graph.Dim{graph.Num(0)}
	for i := 2; i < dy.Rank(); i++ {
		axes = append(axes, graph.Num(int64(i)))
	}
	return b.Op("ReduceSum", graph.A{"keepdims": 0}, dy, b.Ints(axes...))
}

var _ = define(graph.Op{
	Name:   "ConvGradX",
	Domain: own,
	Doc:    "dX of Conv, from its filters",
	In:     "dY, W, shape",
	Out:    "dX",
	Attrs:  convAttrs,
	Known:  []int{2},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		convWindow(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
		n.Set(0, n.Inputs[0].Type, knownDims(n, 2, "shape"))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dx []*graph.Value) []*graph.Value {
		attrs := convCopy(n)
		return []*graph.Value{
			b.Op("Conv", attrs, dx[0], n.Inputs[1]),
			b.Op(own+".ConvGradW", attrs, n.Inputs[0], dx[0], shapeOf(b, n.Inputs[1])),
			nil,
		}
	},
	Eval: func(c *graph.Call) {
		conv := convOf(c.Node, c.Out[0].Shape, c.In[1].Shape, c.In[0].Shape)
		conv.backward(c.In[0], c.In[1], nil, c.Out[0])
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		conv := convOf(c.Node, c.Out[0].Shape, c.In[1].Shape, c.In[0].Shape)
		conv.Backward(c.Parallel, c.In[0].F32(), c.In[1].F32(), nil, c.Out[0].F32())
	},
	Lower:     lowerConvGradX,
	Flops:     func(n *graph.Node) graph.Dim { return convFlops(n.Inputs[0].Shape, n.Inputs[1].Shape) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return 2 * c.in(0) * visits(c.In[1].Shape[1:]...) })},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		"f32[2,4,5], f32[4,3,3], i64{2,3,7}",
		"f32[2,4,3,4], f32[4,2,3,3], i64{2,2,6,7}; pads=[1, 1, 1, 1] strides=[2, 2]",
		"f32[1,4,7,5], f32[4,2,3,3], i64{1,4,6,6}; group=2 pads=[1, 0, 2, 1]",
		"f32[1,2,3,5], f32[2,1,3,2], i64{1,2,7,8}; dilations=[2, 3] group=2",
		"f32[2,2,3,3], f32[2,2,3,3], i64{2,2,5,5}; auto_pad=\"SAME_UPPER\" strides=[2, 2]",
		"f32[1,3,3,40], f32[3,2,1,3], i64{1,2,3,40}; pads=[0, 1, 0, 1]",
		"f32[0,4,5], f32[4,3,3], i64{0,3,7}",
	},
})

var _ = define(graph.Op{
	Name:   "ConvGradW",
	Domain: own,
	Doc:    "dW of Conv, summed over the batch in order",
	In:     "dY, X, shape",
	Out:    "dW",
	Attrs:  convAttrs,
	Known:  []int{2},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		w := graph.Shape(knownDims(n, 2, "shape"))
		convWindow(n, n.Inputs[1].Shape, w)
		n.Set(0, n.Inputs[0].Type, w)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dw []*graph.Value) []*graph.Value {
		attrs := convCopy(n)
		return []*graph.Value{
			b.Op("Conv", attrs, n.Inputs[1], dw[0]),
			b.Op(own+".ConvGradX", attrs, n.Inputs[0], dw[0], shapeOf(b, n.Inputs[1])),
			nil,
		}
	},
	Eval: func(c *graph.Call) {
		conv := convOf(c.Node, c.In[1].Shape, c.Out[0].Shape, c.In[0].Shape)
		conv.filters(c.In[1], c.In[0], c.Out[0])
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		conv := convOf(c.Node, c.In[1].Shape, c.Out[0].Shape, c.In[0].Shape)
		conv.Filters(c.Parallel, c.In[1].F32(), c.In[0].F32(), c.Out[0].F32())
	},
	Lower:     lowerConvGradW,
	Flops:     func(n *graph.Node) graph.Dim { return convFlops(n.Inputs[0].Shape, n.Outputs[0].Shape) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return 2 * c.in(0) * visits(c.outs(0)[1:]...) })},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		"f32[2,4,5], f32[2,3,7], i64{4,3,3}",
		"f32[2,4,3,4], f32[2,2,6,7], i64{4,2,3,3}; pads=[1, 1, 1, 1] strides=[2, 2]",
		"f32[1,4,7,5], f32[1,4,6,6], i64{4,2,3,3}; group=2 pads=[1, 0, 2, 1]",
		"f32[1,2,3,5], f32[1,2,7,8], i64{2,1,3,2}; dilations=[2, 3] group=2",
		"f32[2,2,3,3], f32[2,2,5,5], i64{2,2,3,3}; auto_pad=\"SAME_UPPER\" strides=[2, 2]",
		"f32[3,3,3,40], f32[3,2,3,40], i64{3,2,1,3}; pads=[0, 1, 0, 1]",
		"f32[0,4,5], f32[0,3,7], i64{4,3,3}",
	},
})

func lowerConv(l *graph.Lowering) {
	if !lower.OnlyF32AndInts(l) {
		return
	}
	convOf(l.Node, l.In[0].Shape, l.In[1].Shape, l.Out[0].Shape).Append(l, lower.ConvOut, 0, lower.Reads(0), lower.Reads(1), lower.Present(l, 2))
}

func lowerConvGradX(l *graph.Lowering) {
	if lower.OnlyF32AndInts(l) {
		convOf(l.Node, l.Out[0].Shape, l.In[1].Shape, l.In[0].Shape).Append(l, lower.ConvIn, 0, lower.Reads(0), lower.Reads(1), -1)
	}
}

func lowerConvGradW(l *graph.Lowering) {
	if lower.OnlyF32AndInts(l) {
		convOf(l.Node, l.In[1].Shape, l.Out[0].Shape, l.In[0].Shape).Append(l, lower.ConvFilters, 0, lower.Reads(1), lower.Reads(0), -1)
	}
}
