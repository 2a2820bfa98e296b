package lower

import "memopt/internal/graph"

// Known writes outputs whose contents are known while planning. They are shapes, so
// there are few elements.
func Known(l *graph.Lowering) {
	for o, v := range l.Node.Outputs {
		if v != nil {
			KnownInts(l, o)
		}
	}
}

// KnownInts writes output out, whose integers are known.
func KnownInts(l *graph.Lowering, out int) {
	ints, known := l.OutInts(out)
	if !known {
		l.Refuse("output %d is only known when the step runs", out)
		return
	}
	size := int(l.Out[out].Type.Size())
	for i, v := range ints {
		number := uint64(v)
		Box(l, size, []graph.Buffer{Writes(out), Unused(false)}, &number, []int{1}, []int{0}, []int{1}, 0, i)
	}
}
