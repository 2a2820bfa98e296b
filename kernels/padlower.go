package kernels

import "memopt/memopt/graph"

var padKernel = halved(shader("pad", "pad.comp"))

// padRules are the kernel's modes.
var padRules = map[string]uint32{"edge": 0, "reflect": 1, "wrap": 2}

// lowerRepeats is a pad that repeats the data, or the gradient of one; the pads
// are in input 1 of c.
func lowerRepeats(l *graph.Lowering, c *graph.Call, back bool) {
	if !onlyTypes(l, []graph.DType{graph.Float32, graph.Int64}, []graph.DType{graph.Float32}) {
		return
	}
	little, large := l.In[0].Shape, l.Out[0].Shape
	if back {
		little, large = large, little
	}
	var dims [3][]int // little, large, before
	whole := false    // the last dim has no pads
	for i, before := range padBefore(c, len(little)) {
		same := before == 0 && little[i] == large[i]
		if k := len(dims[0]) - 1; same && whole {
			dims[0][k] *= little[i]
			dims[1][k] *= large[i]
		} else {
			for j, d := range []int{little[i], large[i], before} {
				dims[j] = append(dims[j], d)
			}
		}
		whole = same
	}
	n := l.Out[0].Len()
	if n == 0 || !mustFit(l, dims[0], 4) {
		return
	}
	push := words(l, n)
	for j, list := range dims {
		for _, d := range frontFilled(4, list, min(1, 2-j)) {
			push = append(push, uint32(int32(d)))
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: padKernel, Spec: []uint32{oneIf(back), padRules[l.Node.Str("mode")]}, Push: push,
		Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, ceilDiv(n, 64)),
	})
}

func lowerPadGrad(l *graph.Lowering) {
	known := []int{1}
	if l.Node.In(3) != nil {
		known = append(known, 3)
	}
	if c := loweredCall(l, known...); c != nil {
		lowerRepeats(l, c, true)
	}
}
