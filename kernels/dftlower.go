package kernels

import "memopt/memopt/graph"

var dftKernel = shader("dft", "dft.comp")

const (
	// maxPassRadix is the longest sum that radices are multiplied for: fewer passes
	// move fewer bytes.
	maxPassRadix = 32
	// maxPassPoints is the most complex numbers that a pass leaves in scratch, unless one
	// line has more.
	maxPassPoints = 1 << 21
)

// passRadices are the lengths of the sums of each pass over lines.
func passRadices(points int) (list []int) {
	for _, r := range radices(points) {
		if k := len(list) - 1; k >= 0 && list[k]*r <= maxPassRadix {
			list[k] *= r
		} else {
			list = append(list, r)
		}
	}
	if list == nil {
		return []int{1}
	}
	return list
}

// lowerTransform lowers DFT, whose length is input 1, and its gradient, where it is
// input 2.
func lowerTransform(l *graph.Lowering, at int) {
	if l.In[0].Type != graph.Float32 {
		l.Refuse("input 0 is %s; there is a kernel for f32", l.In[0].Type)
		return
	}
	c := &graph.Call{}
	if loweredIn(l, at) != nil {
		c = loweredCall(l, at)
	} else {
		c = loweredCall(l)
	}
	if c == nil || l.Out[0].Len() == 0 {
		return
	}
	if l.In[0].Len() == 0 {
		lowerFill(l, 0, 0)
		return
	}
	t := newTransform(c, at)
	const most = 1 << 28 // eighths are counted in 32 bits
	if t.points > most {
		l.Refuse("%d points; at most %d have a kernel", t.points, most)
		return
	}
	list := passRadices(t.points)
	chunk := max(1, min(t.lines, maxPassPoints/t.points))
	table := aligned(int64(8 * t.points))
	between := aligned(int64(8 * t.points * chunk))
	l.Scratch = table + between*int64(min(2, len(list)-1))
	roots := scratch(0, table, false)
	part := func(i int, written bool) graph.Buffer { return scratch(table+between*int64(i%2), between, written) }

	pass := func(first, lines, invocations, radix, stride int, spec [3]bool, y, x, w graph.Buffer) {
		push := words(l, t.points, first, lines, t.after, t.inAxis, t.from, t.inParts, t.outAxis, t.to, t.outPart, radix, stride)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  dftKernel,
			Spec:    []uint32{oneIf(spec[0]), oneIf(spec[1]), oneIf(spec[2]), oneIf(t.twiceIn), oneIf(t.twiceOut)},
			Push:    append(push, bits(t.scale), bits(t.turn)),
			Buffers: []graph.Buffer{y, x, w}, Groups: inLine(l, ceilDiv(invocations, 64)),
		})
	}
	pass(0, 0, t.points, 1, 1, [3]bool{}, scratch(0, table, true), unused(false), unused(false))
	for first := 0; first < t.lines; first += chunk {
		lines, stride := min(chunk, t.lines-first), 1
		for i, r := range list {
			x, y, each := part(i+1, false), part(i, true), t.points
			begins, ends := i == 0, i == len(list)-1
			if begins {
				x = reads(0)
			}
			if ends {
				y, each = writes(0), t.outAxis
			}
			pass(first, lines, lines*each, r, stride, [3]bool{true, begins, ends}, y, x, roots)
			stride *= r
		}
	}
}
