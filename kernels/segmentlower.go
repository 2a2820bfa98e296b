package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

var segmentKernel = shader("segmentreduce", "segmentreduce.comp")

func segmentPass(l *graph.Lowering, pass uint32, data []int, segments, invocations int, buffers ...graph.Buffer) {
	mode := uint32(slices.Index(segmentModes, l.Node.Str("mode")))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: segmentKernel, Spec: []uint32{pass, mode}, Push: words(l, data[0], elems(data[1:]), segments),
		Buffers: buffers, Groups: inLine(l, ceilDiv(invocations, 64)),
	})
}

func lowerSegmentReduce(l *graph.Lowering) {
	if f := graph.Float32; !onlyTypes(l, []graph.DType{f, graph.Int64}, []graph.DType{f}) {
		return
	}
	data := reads(0)
	if l.In[0].Len() == 0 {
		data = unused(false)
	}
	if n := l.Out[0].Len(); n > 0 {
		segmentPass(l, 0, l.In[0].Shape, l.In[1].Len(), n, writes(0), unused(false), data, reads(1), reads(2), unused(true))
	}
}

func lowerSegmentReduceGrad(l *graph.Lowering) {
	if f, i := graph.Float32, graph.Int64; !onlyTypes(l, []graph.DType{f, i, i, i, f}, []graph.DType{f}) {
		return
	}
	n, segments, data := l.Out[0].Len(), l.In[2].Len(), unused(false)
	if n == 0 || segments == 0 {
		lowerFill(l, 0, 0)
		return
	}
	if loweredIn(l, 4) != nil {
		data = reads(4)
	}
	shape := l.Out[0].Shape
	l.Scratch = int64(8 * shape[0])
	work := scratch(0, l.Scratch, true)
	segmentPass(l, 1, shape, segments, shape[0], unused(true), unused(false), unused(false), reads(2), reads(3), work)
	segmentPass(l, 2, shape, segments, n, writes(0), reads(0), data, reads(2), reads(3), unwritten(work))
}
