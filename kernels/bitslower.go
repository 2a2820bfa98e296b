package kernels

import "memopt/memopt/graph"

var bitsKernel = shader("bits", "bits.comp")

func bitsPass(l *graph.Lowering, rule uint32, n int, x, bools, bits graph.Buffer) {
	if !l.Limits.Int8 {
		l.Refuse("the device has no bytes in buffers")
		return
	}
	if n > 0 {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: bitsKernel, Spec: []uint32{rule}, Push: words(l, n),
			Buffers: []graph.Buffer{writes(0), x, bools, bits}, Groups: inLine(l, ceilDiv(ceilDiv(n, flock), 64)),
		})
	}
}

func lowerAboveZero(l *graph.Lowering) {
	switch n := l.In[0].Len(); l.In[0].Type {
	case graph.Float32:
		bitsPass(l, 0, n, reads(0), unused(false), unused(false))
	case graph.Bool:
		bitsPass(l, 1, n, unused(false), reads(0), unused(false))
	default:
		l.Refuse("input 0 is %s; there is a kernel for f32 and bools", l.In[0].Type)
	}
}

func lowerKeepWhere(l *graph.Lowering) {
	if l.In[0].Type != graph.Float32 {
		l.Refuse("input 0 is %s; there is a kernel for f32", l.In[0].Type)
		return
	}
	bitsPass(l, 2, l.In[0].Len(), reads(0), unused(false), reads(1))
}
