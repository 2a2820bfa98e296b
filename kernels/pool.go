package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// pool is the geometry of a pool: that of a convolution, with each channel on its own.
type pool struct {
	convolution
	end [3]int // end of the padding after the input
}

func inferPool(n *graph.Node) {
	x := n.Inputs[0]
	if x.Rank() < 3 || x.Rank() > 5 {
		n.Fail("the input must be [N, C, …] with one to three spatial dims, but is %s", x.Shape)
	}
	n.Set(0, x.Type, poolWindow(n, x.Rank()).shape(n, x.Shape, x.Shape[1]))
}

func poolWindow(n *graph.Node, rank int) window {
	w := newWindow(n, kernelShape(n, rank-2))
	w.ceil = n.Int("ceil_mode") != 0
	return w
}

func newPool(n *graph.Node, x, y []int) pool { return poolOver(poolWindow(n, len(x)), x, y) }

func poolOver(w window, x, y []int) pool {
	p := pool{newConvolution(w, 1, x, []int{1, 1}, y), f32.Ones}
	p.N *= x[1]
	for i := range w.kernel {
		a, behind := 3-len(w.kernel)+i, w.pads[len(w.kernel)+i]
		if w.same() {
			behind = max(0, (y[2+i]-1)*w.strides[i]+w.reach(i)-x[2+i]) - p.Pad[a]
		}
		p.end[a] = x[2+i] + behind
	}
	return p
}

// span returns the input positions of an axis that are in the window of output o: first, and
// count of them at distance Dilation. padded counts those in the padding, too.
func (p *pool) span(axis, o int) (first, count, padded int) {
	start, d := p.From(axis, o, 0), p.Dilation[axis]
	skip := index.CeilDiv(max(0, -start), d)
	first = start + skip*d
	count = max(0, min(p.Kernel[axis]-skip, index.CeilDiv(p.In[axis]-first, d)))
	padded = max(0, min(p.Kernel[axis], index.CeilDiv(p.end[axis]-start, d)))
	return first, count, padded
}

// each is the reference form of Lines: it calls f for every output of an image, with a function
// that iterates over the offsets of the inputs in its window, in order.
func (p *pool) each(f func(out int, inputs func(func(in int)))) {
	var first, count [3]int
	inputs := func(g func(in int)) {
		for a := range count[0] {
			z := first[0] + a*p.Dilation[0]
			for b := range count[1] {
				line := (z*p.In[1] + first[1] + b*p.Dilation[1]) * p.In[2]
				for c := range count[2] {
					g(line + first[2] + c*p.Dilation[2])
				}
			}
		}
	}
	for z := range p.Out[0] {
		first[0], count[0], _ = p.span(0, z)
		for y := range p.Out[1] {
			first[1], count[1], _ = p.span(1, y)
			for x := range p.Out[2] {
				first[2], count[2], _ = p.span(2, x)
				f((z*p.Out[1]+y)*p.Out[2]+x, inputs)
			}
		}
	}
}

// images divides images among workers.
func (p *pool) images(par f32.Parallel, f func(lo, hi int)) {
	par(p.N, 1+f32.Grain/4/max(1, f32.Volume(p.Out)*f32.Volume(p.Kernel)), f)
}

// image returns image i of x and of y.
func (p *pool) image(i int, x, y []float32) (in, out []float32) {
	return x[i*f32.Volume(p.In):][:f32.Volume(p.In)], y[i*f32.Volume(p.Out):][:f32.Volume(p.Out)]
}

// poolFlops counts one operation for every tap and element of a value.
func poolFlops(of func(n *graph.Node) *graph.Value) func(*graph.Node) graph.Dim {
	return func(n *graph.Node) graph.Dim {
		f := of(n).Shape.Elems()
		for _, k := range n.Ints("kernel_shape") {
			f = f.Mul(graph.Num(k))
		}
		return f
	}
}

func firstOutput(n *graph.Node) *graph.Value { return n.Outputs[0] }
func firstInput(n *graph.Node) *graph.Value  { return n.Inputs[0] }

var (
	poolKernel = lower.Halved(lower.Shader("pool", "pool.comp"))
	poolTaps   = lower.Halved(lower.Shader("pool-taps", "pool.comp", "-DTAPS"))
)

// The rules of pool.comp.
const (
	poolMax, poolMean, poolMaxGrad, poolMeanGrad, poolWhere, poolGradAt, poolMaxAt = 0, 1, 2, 3, 4, 5, 6
)

func (p *pool) append(l *graph.Lowering, rule uint32, invocations int, a, b graph.Buffer) {
	if invocations == 0 {
		return
	}
	padded := (rule == poolMean || rule == poolMeanGrad) && l.Node.Int("count_include_pad") != 0
	p.dispatch(l, poolKernel, rule, padded, invocations, []graph.Buffer{lower.Writes(0), a, b})
}

func (p *pool) dispatch(l *graph.Lowering, kernel *graph.Kernel, rule uint32, padded bool, invocations int, buffers []graph.Buffer) {
	push := append(lower.Words(l, p.N), lower.Triples(p.In, p.Out, p.Kernel, p.Stride, p.Dilation, p.Pad, p.end)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{rule, lower.OneIf(padded)}, Push: push, Buffers: buffers, Groups: lower.InLine(l, index.CeilDiv(invocations, 64)),
	})
}

// tapsFit refuses types and devices that pool-taps does not support.
func tapsFit(l *graph.Lowering, floats ...*graph.Operand) bool {
	for _, o := range floats {
		if o != nil && o.Type != graph.Float32 {
			l.Refuse("an operand is %s; there is a kernel for f32", o.Type)
			return false
		}
	}
	if !l.Limits.Int8 {
		l.Refuse("the device has no bytes in buffers")
		return false
	}
	return true
}

// maxAt computes maxima in output 0 and their indices in output 1, relative to the whole tensor
// or to the image.
func (p *pool) maxAt(l *graph.Lowering, whole bool) {
	if n := l.Out[1].Len(); n > 0 && tapsFit(l, l.In[0]) {
		y := lower.Unused(true)
		if l.Out[0] != nil {
			y = lower.Writes(0)
		}
		p.dispatch(l, poolTaps, poolMaxAt, whole, n, []graph.Buffer{y, lower.Unused(false), lower.Reads(0), lower.Writes(1)})
	}
}

func lowerPool(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if lower.Out(l, 1) != nil {
			if l.Node.Int("storage_order") != 0 {
				l.Refuse("there is no kernel for column-major indices (storage_order 1)")
				return
			}
			p := newPool(l.Node, l.In[0].Shape, l.Out[1].Shape)
			p.maxAt(l, true)
			return
		}
		if !lower.OnlyF32(l) {
			return
		}
		p := newPool(l.Node, l.In[0].Shape, l.Out[0].Shape)
		p.append(l, rule, l.Out[0].Len(), lower.Reads(0), lower.Unused(false))
	}
}

func lowerPoolGrad(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if !lower.OnlyF32AndInts(l) {
			return
		}
		p := newPool(l.Node, l.Out[0].Shape, l.In[0].Shape)
		x := lower.Unused(false)
		if rule == poolMaxGrad {
			x = lower.Reads(1)
		}
		p.append(l, rule, l.Out[0].Len(), lower.Reads(0), x)
	}
}
