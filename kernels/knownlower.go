package kernels

import "memopt/internal/graph"

// lowerKnown writes outputs whose contents are known while planning. They are shapes, so
// there are few elements.
func lowerKnown(l *graph.Lowering) {
	for o, v := range l.Node.Outputs {
		if v != nil {
			lowerKnownInts(l, o)
		}
	}
}

func lowerKnownInts(l *graph.Lowering, out int) {
	ints, known := l.OutInts(out)
	if !known {
		l.Refuse("output %d is only known when the step runs", out)
		return
	}
	size := int(l.Out[out].Type.Size())
	for i, v := range ints {
		number := uint64(v)
		lowerBox(l, size, []graph.Buffer{writes(out), unused(false)}, &number, []int{1}, []int{0}, []int{1}, 0, i)
	}
}
