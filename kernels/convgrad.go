package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// ConvGrad is ONNX Runtime's gradient of Conv for all three inputs.
var _ = define(graph.Op{
	Name:   "ConvGrad",
	Domain: microsoft,
	Doc:    "dX, dW and dB of Conv",
	In:     "dY, X, W",
	Out:    "dX?, dW?, dB?",
	Attrs:  convAttrs,
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isFloat, "floats")
		dy, x, w := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		win := convWindow(n, x.Shape, w.Shape)
		n.Same(x.Shape[1], w.Shape[1].Mul(graph.Num(int64(n.Int("group")))), "channels of X, and of W times group")
		sameDims(n, dy.Shape, win.shape(n, x.Shape, w.Shape[0]))
		n.Set(0, x.Type, x.Shape)
		n.Set(1, w.Type, w.Shape)
		n.Set(2, w.Type, w.Shape[:1:1])
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, x, w := c.In[0], c.In[1], c.In[2]
		conv := convOf(c.Node, x.Shape, w.Shape, dy.Shape)
		if dx := output(c, 0); dx != nil {
			conv.backward(dy, w, nil, dx)
		}
		if dw := output(c, 1); dw != nil {
			conv.filters(x, dy, dw)
		}
		channelSums(dy, output(c, 2))
	},
	Fast: func(c *graph.Call) {
		dy, x, w := c.In[0], c.In[1], c.In[2]
		if x.Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		conv := convOf(c.Node, x.Shape, w.Shape, dy.Shape)
		if dx := output(c, 0); dx != nil {
			conv.Backward(c.Parallel, dy.F32(), w.F32(), nil, dx.F32())
		}
		if dw := output(c, 1); dw != nil {
			conv.Filters(c.Parallel, x.F32(), dy.F32(), dw.F32())
		}
		channelSums(dy, output(c, 2))
	},
	Lower: lowerConvGrad,
	Flops: func(n *graph.Node) graph.Dim {
		sum, each := graph.Num(0), convFlops(n.Inputs[0].Shape, n.Inputs[2].Shape)
		for i := range 2 {
			if n.Output(i) != nil {
				sum = sum.Add(each)
			}
		}
		return sum
	},
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 {
			wanted := int64(0) // of dX and dW; dB only adds
			for i := range 2 {
				if c.Node.Output(i) != nil {
					wanted++
				}
			}
			return 2 * wanted * c.in(0) * visits(c.In[2].Shape[1:]...)
		}),
		Large: []string{"f32[3,31,61,61], f32[3,10,61,61], f32[31,10,3,3]; pads=[1, 1, 1, 1] -> x, w, b"},
		Pieces: []string{
			"f32[20,4,8,8], f32[20,2,8,8], f32[4,2,3,3]; pads=[1, 1, 1, 1] -> x, w",
		},
	},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		"f32[2,4,5], f32[2,3,7], f32[4,3,3]",
		"f32[2,4,3,4], f32[2,2,6,7], f32[4,2,3,3]; pads=[1, 1, 1, 1] strides=[2, 2] -> x, w",
		"f32[1,4,7,5], f32[1,4,6,6], f32[4,2,3,3]; group=2 pads=[1, 0, 2, 1] -> _, w",
		"f32[1,2,3,5], f32[1,2,7,8], f32[2,1,3,2]; dilations=[2, 3] group=2 -> x, _, b",
		"f32[2,2,3,3], f32[2,2,5,5], f32[2,2,3,3]; auto_pad=\"SAME_UPPER\" strides=[2, 2]",
		"f16[1,2,2,2], f16[1,2,4,4], f16[2,2,3,3]",
	},
})

// channelSums sums [N, C, …] over all dims but C, in order; sums may be nil.
func channelSums(dy, sums *graph.Tensor) {
	if sums == nil {
		return
	}
	channels, each := dy.Shape[1], index.Elems(dy.Shape[2:])
	for ch := range channels {
		sum := 0.0
		for i := range dy.Shape[0] {
			at := (i*channels + ch) * each
			if dy.Type == graph.Float32 {
				sum = f32.Sum(sum, dy.F32()[at:at+each])
				continue
			}
			for k := at; k < at+each; k++ {
				sum += dy.Float(k)
			}
		}
		sums.SetFloat(ch, sum)
	}
}

// lowerConvGrad computes the outputs that are used.
func lowerConvGrad(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	dy := l.In[0].Shape
	conv := convOf(l.Node, l.In[1].Shape, l.In[2].Shape, dy)
	if lower.Out(l, 0) != nil {
		conv.Append(l, lower.ConvIn, 0, lower.Reads(0), lower.Reads(2), -1)
	}
	if lower.Out(l, 1) != nil {
		conv.Append(l, lower.ConvFilters, 1, lower.Reads(1), lower.Reads(0), -1)
	}
	if lower.Out(l, 2) != nil {
		shape := []int{dy[0], dy[1], index.Elems(dy[2:])}
		lower.Reduction{Fold: lower.FoldSum}.Append(l, lower.Reads(0), shape, []int{0, 2}, lower.Writes(2))
	}
}
