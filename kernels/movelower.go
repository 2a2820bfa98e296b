package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// moveKernels by the bytes that an invocation carries.
var moveKernels = map[int]*graph.Kernel{
	1:  shader("move-1", "move.comp", "-DELEMENT=uint8_t"),
	4:  shader("move-4", "move.comp", "-DELEMENT=uint"),
	8:  shader("move-8", "move.comp", "-DELEMENT=uvec2"),
	16: shader("move-16", "move.comp", "-DELEMENT=uvec4"),
}

const maxMoveDims = 5

// lowerMove lists the boxes of a node and carries each. The inputs in known
// must be known while planning; filled says that the output is zeros at first.
func lowerMove(f mover, filled bool, known ...int) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		c := loweredCall(l, known...)
		if c == nil {
			return
		}
		boxes := f(c)
		if filled {
			lowerFill(l, 0, 0)
		}
		for _, m := range boxes {
			m.lower(l)
		}
	}
}

// loweredCall is a call whose tensors have shapes, and contents only where they
// are known; nil if one that is needed is not.
func loweredCall(l *graph.Lowering, known ...int) *graph.Call {
	c := &graph.Call{Node: l.Node}
	for i, o := range l.In {
		if o == nil {
			c.In = append(c.In, nil)
			continue
		}
		x := &graph.Tensor{Type: o.Type, Shape: o.Shape}
		if slices.Contains(known, i) {
			ints, ok := l.Ints(i)
			if !ok {
				l.Refuse("input %d is only known when the step runs", i)
				return nil
			}
			x = graph.NewTensor(o.Type, o.Shape...)
			for k, v := range ints {
				x.SetInt(k, v)
			}
		}
		c.In = append(c.In, x)
	}
	for _, o := range l.Out {
		if o == nil {
			c.Out = append(c.Out, nil)
			continue
		}
		c.Out = append(c.Out, &graph.Tensor{Type: o.Type, Shape: o.Shape})
	}
	return c
}

func (m move) lower(l *graph.Lowering) {
	if elems(m.shape) == 0 || l.Refused != "" {
		return
	}
	size := int(l.Out[m.out].Type.Size())
	ds := m.sides()
	dims, from, to := unzip(ds)
	last := len(dims) - 1
	if size == 4 && from[last] == 1 && to[last] == 1 && dims[last]%4 == 0 && m.fromAt%4 == 0 && m.toAt%4 == 0 && fours(from[:last]) && fours(to[:last]) {
		// By fours along the innermost dim.
		size = 16
		dims[last] /= 4
		for i := range last {
			from[i], to[i] = from[i]/4, to[i]/4
		}
		m.fromAt, m.toAt = m.fromAt/4, m.toAt/4
	}
	lowerBox(l, size, []graph.Buffer{writes(m.out), reads(m.in)}, false, 0, dims, from, to, m.fromAt, m.toAt)
}

func fours(strides []int) bool {
	return !slices.ContainsFunc(strides, func(s int) bool { return s%4 != 0 })
}

// lowerFill writes one word to all of an output.
func lowerFill(l *graph.Lowering, out int, word uint32) {
	o := l.Out[out]
	n, size := o.Len(), 4
	switch o.Type.Size() {
	case 4:
	case 8:
		n *= 2
	default:
		l.Refuse("output %d is %s; only words can be filled in", out, o.Type)
		return
	}
	if n > 0 {
		lowerBox(l, size, []graph.Buffer{writes(out), unused(false)}, true, word, []int{n}, []int{0}, []int{1}, 0, 0)
	}
}

func lowerBox(l *graph.Lowering, size int, buffers []graph.Buffer, fill bool, word uint32, dims, from, to []int, fromAt, toAt int) {
	kernel := moveKernels[size]
	if kernel == nil || size == 1 && !l.Limits.Int8 {
		l.Refuse("elements of %d bytes have no kernel", size)
		return
	}
	if !mustFit(l, dims, maxMoveDims) {
		return
	}
	n, rank := elems(dims), len(dims)
	push := words(l, n)
	push = append(push, uint32(int32(fromAt)), uint32(int32(toAt)))
	for i, list := range [][]int{dims, from, to} {
		for k := range maxMoveDims {
			v := 0
			if i == 0 {
				v = 1
			}
			if k < rank {
				v = list[k]
			}
			push = append(push, uint32(int32(v)))
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{uint32(rank), oneIf(fill)}, Push: append(push, word), Buffers: buffers, Groups: inLine(l, ceilDiv(n, 256)),
	})
}

// lowerConstant fills an output with one number.
func lowerConstant(l *graph.Lowering) {
	value := fillValue(l.Node)
	switch value.Type {
	case graph.Float32, graph.Int32, graph.Uint32:
		lowerFill(l, 0, graph.View[uint32](value)[0])
	default:
		if value.Type.Size() == 8 && graph.View[uint64](value)[0] == 0 {
			lowerFill(l, 0, 0)
			return
		}
		l.Refuse("the number is %s; words are filled in", value.Type)
	}
}

// lowerPad carries the data into what was filled; the constant must be known.
func lowerPad(l *graph.Lowering) {
	if l.Node.Str("mode") != "constant" {
		l.Refuse("mode %s repeats the data", l.Node.Str("mode"))
		return
	}
	word := uint32(0)
	if v := l.Node.In(2); v != nil {
		x, known := oneNumber(v)
		if !known || v.Type != graph.Float32 {
			l.Refuse("the constant is not known, or no f32")
			return
		}
		word = bits(x)
	}
	known := []int{1}
	if l.Node.In(3) != nil {
		known = append(known, 3)
	}
	if c := loweredCall(l, known...); c != nil {
		lowerFill(l, 0, word)
		for _, m := range padding(c) {
			m.lower(l)
		}
	}
}
