package kernels

import "memopt/memopt/graph"

var float8Kernel = halved(shader("float8", "float8.comp"))

// float8Each is the elements that an invocation owns.
const float8Each = 4 * flock

func lowerBlocks(back bool) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		numbers := l.In[0]
		if back {
			numbers = l.Out[0]
		}
		if numbers.Type != graph.Float32 {
			l.Refuse("numbers are %s; there is a kernel for f32", numbers.Type)
			return
		}
		n := numbers.Len()
		if n == 0 {
			return
		}
		buffers := []graph.Buffer{writes(0), writes(1), reads(0), unused(true)}
		if back {
			buffers = []graph.Buffer{reads(0), reads(1), unused(false), writes(0)}
		}
		for i, bytes := range []int{n, ceilDiv(n, flock)} {
			buffers[i].Bytes = wholeWords(int64(bytes))
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: float8Kernel, Spec: []uint32{oneIf(back)}, Push: words(l, n), Buffers: buffers, Groups: inLine(l, ceilDiv(ceilDiv(n, float8Each), 64)),
		})
	}
}
