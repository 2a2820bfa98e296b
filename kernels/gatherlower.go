package kernels

import "memopt/memopt/graph"

var gatherKernel = shader("gather", "gather.comp")

// The passes of the kernel.
const (
	gatherPick, gatherClear, gatherChain, gatherAdd = 0, 1, 2, 3
)

func gatherPass(l *graph.Lowering, pass uint32, local, groups int, indices int, size [4]int, buffers ...graph.Buffer) {
	step := uint32(1)
	if l.In[indices].Type == graph.Int64 {
		step = 2
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: gatherKernel, Spec: []uint32{uint32(local), pass, step}, Push: words(l, size[:]...), Buffers: buffers, Groups: inLine(l, groups),
	})
}

func lowerGather(l *graph.Lowering) {
	x, idx, y := l.In[0], l.In[1], l.Out[0]
	if y.Type.Size()%4 != 0 {
		l.Refuse("the data is %s; words are picked", y.Type)
		return
	}
	before, n, after := around(x.Shape, axisOf(l.Node, l.Node.Int("axis"), len(x.Shape)))
	after *= int(y.Type.Size()) / 4
	if total := before * idx.Len() * after; total > 0 {
		gatherPass(l, gatherPick, 256, ceilDiv(total, 256), 1, [4]int{before, n, after, idx.Len()}, writes(0), reads(0), reads(1), unused(true))
	}
}

// lowerGatherGrad clears dx, chains equal indices, and adds up each chain.
func lowerGatherGrad(l *graph.Lowering) {
	idx, dx := l.In[1], l.Out[0]
	if dx.Type != graph.Float32 {
		l.Refuse("dX is %s; there is a kernel for f32", dx.Type)
		return
	}
	lowerFill(l, 0, 0)
	before, n, after := around(dx.Shape, axisOf(l.Node, l.Node.Int("axis"), len(dx.Shape)))
	picked := idx.Len()
	if before*n*after*picked == 0 {
		return
	}
	size := [4]int{before, n, after, picked}
	l.Scratch = int64(8 * picked)
	work := func(written bool) graph.Buffer { return scratch(0, l.Scratch, written) }
	const local = 64
	gatherPass(l, gatherClear, local, ceilDiv(picked, local), 1, size, unused(true), reads(2), reads(1), work(true))
	gatherPass(l, gatherChain, l.Limits.Subgroup, picked, 1, size, unused(true), reads(2), reads(1), work(true))
	gatherPass(l, gatherAdd, local, picked*ceilDiv(before*after, local), 1, size, writes(0), reads(2), reads(1), work(false))
}
