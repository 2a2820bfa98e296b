package kernels

import "memopt/memopt/graph"

var (
	poolKernel = halved(shader("pool", "pool.comp"))
	poolTaps   = halved(shader("pool-taps", "pool.comp", "-DTAPS"))
)

// The kernel's rules.
const (
	poolMax, poolMean, poolMaxGrad, poolMeanGrad, poolWhere, poolGradAt, poolMaxAt = 0, 1, 2, 3, 4, 5, 6
)

func (p *pool) append(l *graph.Lowering, rule uint32, invocations int, a, b graph.Buffer) {
	if invocations == 0 {
		return
	}
	padded := (rule == poolMean || rule == poolMeanGrad) && l.Node.Int("count_include_pad") != 0
	p.dispatch(l, poolKernel, rule, padded, invocations, []graph.Buffer{writes(0), a, b})
}

func (p *pool) dispatch(l *graph.Lowering, kernel *graph.Kernel, rule uint32, padded bool, invocations int, buffers []graph.Buffer) {
	push := append(words(l, p.N), triples(p.In, p.Out, p.Kernel, p.Stride, p.Dilation, p.Pad, p.end)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{rule, oneIf(padded)}, Push: push, Buffers: buffers, Groups: inLine(l, ceilDiv(invocations, 64)),
	})
}

// tapsFit refuses what the kernel with taps has not.
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

// lowerTaps says by a byte where a window's greatest element is.
func lowerTaps(l *graph.Lowering) {
	if n := l.Out[0].Len(); n > 0 && tapsFit(l, l.In[0]) {
		p := newPool(l.Node, l.In[0].Shape, l.Out[0].Shape)
		p.dispatch(l, poolTaps, poolWhere, false, n, []graph.Buffer{unused(true), unused(false), reads(0), writes(0)})
	}
}

func lowerGradAt(l *graph.Lowering) {
	if n := l.Out[0].Len(); n > 0 && tapsFit(l, l.In[0], l.Out[0]) {
		p := newPool(l.Node, l.Out[0].Shape, l.In[0].Shape)
		p.dispatch(l, poolTaps, poolGradAt, false, n, []graph.Buffer{writes(0), reads(0), unused(false), reads(1)})
	}
}

// maxAt has the greatest in output 0 and their places in output 1, in the whole
// tensor or in the image.
func (p *pool) maxAt(l *graph.Lowering, whole bool) {
	if n := l.Out[1].Len(); n > 0 && tapsFit(l, l.In[0]) {
		y := unused(true)
		if l.Out[0] != nil {
			y = writes(0)
		}
		p.dispatch(l, poolTaps, poolMaxAt, whole, n, []graph.Buffer{y, unused(false), reads(0), writes(1)})
	}
}

func lowerATenPool(l *graph.Lowering) {
	if !onlyTypes(l, nil, []graph.DType{graph.Float32, graph.Int64}) || !tapsFit(l, l.In[0]) {
		return
	}
	x, y := l.In[0].Shape, l.Out[0]
	if y == nil {
		y = l.Out[1]
	}
	p := poolOver(atenWindow(l.Node, 1), x, y.Shape)
	if loweredOut(l, 1) != nil {
		p.maxAt(l, false)
	} else if y.Len() > 0 {
		p.dispatch(l, poolKernel, poolMax, false, y.Len(), []graph.Buffer{writes(0), reads(0), unused(false)})
	}
}

// lowerATenPoolGrad adds dy where the indices tell, image by image.
func lowerATenPoolGrad(l *graph.Lowering) {
	if l.Out[0].Type != graph.Float32 {
		l.Refuse("dX is %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	lowerFill(l, 0, 0)
	dy, dx := l.In[0].Shape, l.Out[0].Shape
	in, out := elems(dx[2:]), elems(dy[2:])
	indexed{
		steps: out, indexStep: 1, elementStep: 1, dims: []int{dx[0] * dx[1]}, indexAt: []int{out}, elementAt: []int{out}, dataAt: []int{in},
		sizes: []int{in}, strides: []int{1},
	}.append(l, indexedBring["add"], reads(0), 7)
}

var adaptiveKernel = halved(shader("adaptive", "adaptive.comp"))

// lowerAdaptive is the mean of windows that share the dims out, or its gradient.
func lowerAdaptive(back bool) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if l.In[0].Type != graph.Float32 {
			l.Refuse("the input is %s; there is a kernel for f32", l.In[0].Type)
			return
		}
		large, little := l.In[0].Shape, l.Out[0].Shape
		if back {
			large, little = little, large
		}
		if n := l.Out[0].Len(); n > 0 {
			l.Dispatches = append(l.Dispatches, graph.Dispatch{
				Kernel: adaptiveKernel, Spec: []uint32{oneIf(back)}, Push: words(l, n, large[2], large[3], little[2], little[3]),
				Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, ceilDiv(n, 64)),
			})
		}
	}
}

func lowerPool(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if loweredOut(l, 1) != nil {
			if l.Node.Int("storage_order") != 0 {
				l.Refuse("places are counted by columns")
				return
			}
			p := newPool(l.Node, l.In[0].Shape, l.Out[1].Shape)
			p.maxAt(l, true)
			return
		}
		if !onlyF32(l) {
			return
		}
		p := newPool(l.Node, l.In[0].Shape, l.Out[0].Shape)
		p.append(l, rule, l.Out[0].Len(), reads(0), unused(false))
	}
}

func lowerPoolGrad(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if !onlyF32AndInts(l) {
			return
		}
		p := newPool(l.Node, l.Out[0].Shape, l.In[0].Shape)
		x := unused(false)
		if rule == poolMaxGrad {
			x = reads(1)
		}
		p.append(l, rule, l.Out[0].Len(), reads(0), x)
	}
}
