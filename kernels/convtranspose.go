package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "ConvTranspose",
	Doc:   "Y = the input gradient of a Conv with filters W, given X, + B for each channel",
	In:    "X, W, B?",
	Out:   "Y",
	Attrs: convAttrs + ", output_padding ints, output_shape ints",
	Infer: func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isFloat, "floats")
		x, w := n.Inputs[0], n.Inputs[1]
		win := convWindow(n, x.Shape, w.Shape)
		n.Same(x.Shape[1], w.Shape[0], "channels of X and filters")
		if m := w.Shape[0].Mod(graph.Num(int64(n.Int("group")))); !m.Is(0) {
			n.Fail("%s channels cannot be split into %d groups", x.Shape[1], n.Int("group"))
		}
		channels := w.Shape[1].Mul(graph.Num(int64(n.Int("group"))))
		if b := n.In(2); b != nil {
			if b.Rank() != 1 {
				n.Fail("B must be [M], but is %s", b.Shape)
			}
			n.Same(b.Shape[0], channels, "biases and channels")
		}
		out := graph.Shape{x.Shape[0], channels}
		given, more := n.Ints("output_shape"), transposePadding(n, win)
		if given != nil && len(given) != len(win.kernel) {
			n.Fail("output_shape is %d, but there are %d spatial dims", given, len(win.kernel))
		}
		for i := range win.kernel {
			in, stride := x.Shape[2+i], graph.Num(int64(win.strides[i]))
			switch {
			case given != nil:
				out = append(out, graph.Num(given[i]))
			case win.same():
				out = append(out, in.Mul(stride))
			default:
				extra := win.reach(i) + more[i] - win.pads[i] - win.pads[len(win.kernel)+i]
				out = append(out, in.Sub(graph.Num(1)).Mul(stride).Add(graph.Num(int64(extra))))
			}
		}
		n.Set(0, x.Type, out)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, w := n.Inputs[0], n.Inputs[1]
		attrs := transposeBack(n)
		grads := []*graph.Value{
			b.Op("Conv", attrs, dy[0], w),
			b.Op(own+".ConvGradW", attrs, x, dy[0], shapeOf(b, w)),
		}
		if n.In(2) != nil {
			grads = append(grads, channelSum(b, dy[0]))
		}
		return grads
	},
	Eval: func(c *graph.Call) { transposeOf(c).backward(c.In[0], c.In[1], input(c, 2), c.Out[0]) },
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		transposeOf(c).Backward(c.Parallel, c.In[0].F32(), c.In[1].F32(), biasOf(c), c.Out[0].F32())
	},
	Lower: lowerConvTranspose,
	Flops: func(n *graph.Node) graph.Dim { return convFlops(n.Inputs[0].Shape, n.Inputs[1].Shape) },
	Tests: graph.Tests{
		Work:  counted(func(c sampled) int64 { return 2 * c.in(0) * visits(c.In[1].Shape[1:]...) }),
		Large: []string{"f32[2,13,31,31], f32[13,9,3,3], f32[9]; strides=[2, 2]"},
		Pieces: []string{
			"f32[20,4,8,8], f32[4,2,3,3], f32[2]; pads=[1, 1, 1, 1]",
			"f32[20,4,8,8], f32[4,1,2,2]; group=4 strides=[2, 2]",
		},
	},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		"f32[2,3,4], f32[3,2,3], f32[2]",
		"f32[1,2,3,4], f32[2,3,3,3]; strides=[2, 3] pads=[1, 0, 1, 2] output_padding=[1, 0]",
		"f32[1,4,3,3], f32[4,2,2,2], f32[4]; group=2 dilations=[2, 1]",
		"f32[1,2,3,3], f32[2,2,3,3]; auto_pad=\"SAME_UPPER\" strides=[2, 2]",
		"f32[1,2,3,3], f32[2,2,3,3]; auto_pad=\"SAME_LOWER\" strides=[2, 2]",
		"f32[1,1,3,3], f32[1,2,3,3]; output_shape=[10, 8] strides=[3, 2]",
		"f32[1,2,2,3,2], f32[2,1,2,2,2]; strides=[1, 2, 1]",
		"f32[0,3,4], f32[3,2,3]",
	},
})

// transposePadding reads attribute output_padding.
func transposePadding(n *graph.Node, w window) []int {
	out, given := make([]int, len(w.kernel)), n.Ints("output_padding")
	if given == nil {
		return out
	}
	if len(given) != len(out) {
		n.Fail("output_padding is %d, but there are %d spatial dims", given, len(out))
	}
	for i, p := range given {
		if p < 0 || int(p) >= max(w.strides[i], w.dilations[i]) {
			n.Fail("output_padding must be less than stride or dilation, but is %d", given)
		}
		out[i] = int(p)
	}
	return out
}

// transposePads returns the padding before and after axis i with known lengths. Where pads
// are computed, SAME_UPPER puts the smaller half in front, all other modes the larger.
func transposePads(n *graph.Node, w window, i, in, out int) (lo, hi int) {
	if !w.same() && n.Ints("output_shape") == nil {
		return w.pads[i], w.pads[len(w.kernel)+i]
	}
	total := max(0, w.strides[i]*(in-1)+transposePadding(n, w)[i]+w.reach(i)-out)
	if w.auto == "SAME_UPPER" {
		return total / 2, total - total/2
	}
	return total - total/2, total / 2
}

func transposeOf(c *graph.Call) *convolution {
	x, filter, y := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
	w := newWindow(c.Node, filter[2:])
	pads := make([]int, 2*len(w.kernel))
	for i := range w.kernel {
		pads[i], _ = transposePads(c.Node, w, i, x[2+i], y[2+i])
	}
	w.auto, w.pads = "NOTSET", pads
	conv := newConvolution(w, c.Node.Int("group"), y, filter, x)
	return &conv
}

// transposeBack returns the attributes of the Conv that maps Y to X.
func transposeBack(n *graph.Node) graph.A {
	x, y, rank := n.Inputs[0].Shape, n.Outputs[0].Shape, n.Inputs[1].Rank()-2
	w := convWindow(n, x, n.Inputs[1].Shape)
	pads, strides, dilations := make([]int64, 2*rank), make([]int64, rank), make([]int64, rank)
	for i := range rank {
		in, known := x[2+i].Const()
		out, knownOut := y[2+i].Const()
		if (w.same() || n.Ints("output_shape") != nil) && !(known && knownOut) {
			n.Fail("the gradient needs constant padding, but the input is %s; give pads", x)
		}
		lo, hi := transposePads(n, w, i, int(in), int(out))
		pads[i], pads[rank+i] = int64(lo), int64(hi)
		// Conv does not read elements of Y that an output_padding ≥ stride adds.
		if extra := int64(transposePadding(n, w)[i]/w.strides[i]) * int64(w.strides[i]); extra > 0 {
			n.Fail("output_padding %d is not less than the stride: there is no gradient for that", n.Ints("output_padding"))
		}
		strides[i], dilations[i] = int64(w.strides[i]), int64(w.dilations[i])
	}
	return graph.A{"pads": pads, "strides": strides, "dilations": dilations, "group": n.Int("group")}
}

// ConvTransposeGrad is ONNX Runtime's gradient: dX is a Conv of dY, dW that Conv's filter gradient.
var _ = define(graph.Op{
	Name:    "ConvTransposeGrad",
	Domain:  microsoft,
	Doc:     "dX, dW and dB of ConvTranspose",
	In:      "dY, X, W",
	Out:     "dX?, dW?, dB?",
	Attrs:   convAttrs + ", output_padding ints, output_shape ints",
	Samples: []string{"f32[1,2,7], f32[1,3,3], f32[3,2,3]; strides=[2]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		dy, x, w := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		if n.Str("auto_pad") != "NOTSET" || n.Ints("output_shape") != nil {
			n.Fail("the gradient needs constant padding; give pads instead of auto_pad and output_shape")
		}
		attrs := convCopy(n)
		delete(attrs, "output_padding")
		delete(attrs, "output_shape")
		dx := b.Op("Conv", attrs, dy, w)
		sameDims(n, dx.Shape, x.Shape)
		grads := []*graph.Value{dx, b.Op(own+".ConvGradW", attrs, x, dy, shapeOf(b, w)), channelSum(b, dy)}
		return grads[:len(n.Outputs)]
	},
})

// lowerConvTranspose computes the side x of the convolution.
func lowerConvTranspose(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	transposeOf(lower.Call(l)).Append(l, lower.ConvIn, 0, lower.Reads(0), lower.Reads(1), lower.Present(l, 2))
}
