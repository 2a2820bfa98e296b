package kernels

import "memopt/memopt/graph"

var poolKernel = halved(shader("pool", "pool.comp"))

// The kernel's rules.
const (
	poolMax, poolMean, poolMaxGrad, poolMeanGrad = 0, 1, 2, 3
)

func (p *pool) append(l *graph.Lowering, rule uint32, invocations int, a, b graph.Buffer) {
	if invocations == 0 {
		return
	}
	padded := rule%2 == 1 && l.Node.Int("count_include_pad") != 0
	push := words(l, p.n)
	for _, d := range [][3]int{p.in, p.out, p.kernel, p.stride, p.dilation, p.pad, p.end} {
		for _, v := range d {
			push = append(push, uint32(int32(v)))
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: poolKernel, Spec: []uint32{rule, oneIf(padded)}, Push: push,
		Buffers: []graph.Buffer{writes(0), a, b}, Groups: inLine(l, ceilDiv(invocations, 64)),
	})
}

func lowerPool(rule uint32) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if !onlyF32(l) {
			return
		}
		if l.Out[0] == nil || loweredOut(l, 1) != nil {
			l.Refuse("it is to say where the greatest are")
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
