package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// moveKernels is keyed by the bytes that an invocation copies.
var moveKernels = map[int]*graph.Kernel{
	1:  shader("move-1", "move.comp", "-DELEMENT=uint8_t"),
	2:  shader("move-2", "move.comp", "-DELEMENT=uint", "-DHALVES"),
	4:  shader("move-4", "move.comp", "-DELEMENT=uint"),
	8:  shader("move-8", "move.comp", "-DELEMENT=uvec2", "-DVALUE=uvec2(value, more)"),
	16: shader("move-16", "move.comp", "-DELEMENT=uvec4"),
}

// turnKernel transposes blocks of 4×4 words.
var turnKernel = shader("move-turn", "move.comp", "-DELEMENT=uvec4", "-DTURN")

const maxMoveDims = 5

// lowerMove copies each box of a node. The inputs in known must be known while planning; with
// filled, the output is first filled with zeros.
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

// loweredCall is a call for lowering: its tensors have shapes, and the inputs in known have
// contents. It refuses the lowering and returns nil if these are not known.
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
	if index.Elems(m.shape) == 0 || l.Refused != "" {
		return
	}
	size := int(l.Out[m.out].Type.Size())
	ds := m.sides()
	dims, from, to := unzip(ds)
	last := len(dims) - 1
	if size == 4 && m.turn(l, dims, from, to) {
		return
	}
	for _, k := range map[int][]int{2: {8, 2}, 4: {4}}[size] {
		if from[last] == 1 && to[last] == 1 && dims[last]%k == 0 && m.fromAt%k == 0 && m.toAt%k == 0 && multiples(from[:last], k) && multiples(to[:last], k) {
			// An invocation copies k elements along the innermost dim.
			size *= k
			dims[last] /= k
			for i := range last {
				from[i], to[i] = from[i]/k, to[i]/k
			}
			m.fromAt, m.toAt = m.fromAt/k, m.toAt/k
			break
		}
	}
	lowerBox(l, size, []graph.Buffer{writes(m.out), reads(m.in)}, nil, dims, from, to, m.fromAt, m.toAt)
}

// turn transposes blocks of 4×4 words, if input and output are contiguous in different dims
// and the strides allow it, and reports whether they do.
func (m move) turn(l *graph.Lowering, dims, from, to []int) bool {
	last := len(dims) - 1
	across := slices.Index(from, 1)
	bytes := int64(4 * max(l.In[m.in].Len(), l.Out[m.out].Len()))
	if across < 0 || across == last || to[last] != 1 || len(dims) > maxMoveDims || bytes > l.Limits.Range || m.fromAt%4 != 0 || m.toAt%4 != 0 {
		return false
	}
	blocks, fours, fourTo := slices.Clone(dims), slices.Clone(from), slices.Clone(to)
	for i := range dims {
		turned := i == across || i == last
		if turned && dims[i]%4 != 0 || i != across && from[i]%4 != 0 || i != last && to[i]%4 != 0 {
			return false
		}
		// Transposed dims are counted in blocks of four: the next block is one vector
		// further where the dim is contiguous, else four rows.
		if turned {
			blocks[i] /= 4
			continue
		}
		fours[i], fourTo[i] = from[i]/4, to[i]/4
	}
	push := append(boxWords(l, blocks, fours, fourTo, m.fromAt/4, m.toAt/4), uint32(int32(from[last]/4)), uint32(int32(to[across]/4)))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: turnKernel, Spec: []uint32{uint32(len(dims)), 0}, Push: push, Buffers: []graph.Buffer{writes(m.out), reads(m.in)}, Groups: inLine(l, index.CeilDiv(index.Elems(blocks), 256)),
	})
	return true
}

// boxWords returns the push constants of a box: number of elements, offsets, dims, strides.
func boxWords(l *graph.Lowering, dims, from, to []int, fromAt, toAt int) []uint32 {
	push := append(words(l, index.Elems(dims)), uint32(int32(fromAt)), uint32(int32(toAt)))
	for i, list := range [][]int{dims, from, to} {
		for k := range maxMoveDims {
			v := int(oneIf(i == 0))
			if k < len(dims) {
				v = list[k]
			}
			push = append(push, uint32(int32(v)))
		}
	}
	return push
}

func multiples(strides []int, k int) bool {
	return !slices.ContainsFunc(strides, func(s int) bool { return s%k != 0 })
}

// lowerFill fills an output with one number, given as its bits in memory.
func lowerFill(l *graph.Lowering, out int, number uint64) {
	n, size := l.Out[out].Len(), int(l.Out[out].Type.Size())
	// Fill whole words where possible.
	for size < 4 && n%2 == 0 {
		number |= number << (8 * size)
		n, size = n/2, 2*size
	}
	if n > 0 {
		lowerBox(l, size, []graph.Buffer{writes(out), unused(false)}, &number, []int{n}, []int{0}, []int{1}, 0, 0)
	}
}

// lowerBox copies a box of elements, or fills it with a number if fill is not nil.
func lowerBox(l *graph.Lowering, size int, buffers []graph.Buffer, fill *uint64, dims, from, to []int, fromAt, toAt int) {
	kernel := moveKernels[size]
	if kernel == nil || size == 1 && !l.Limits.Int8 {
		l.Refuse("there is no kernel for elements of %d bytes", size)
		return
	}
	if !mustFit(l, dims, maxMoveDims) {
		return
	}
	number := uint64(0)
	if fill != nil {
		number = *fill
	}
	// Split the outermost dim if the buffers exceed the descriptor range. A piece's buffers
	// begin at or just before its first element, where alignment allows.
	ends := [2]boxEnd{{buffers[0], to, toAt}, {buffers[1], from, fromAt}}
	each := dims[0]
	for _, e := range ends {
		if b := int64(e.strides[0] * size); b > 0 && int64(dims[0])*b > l.Limits.Range && l.Limits.Range > 2*pieceAlignment {
			each = max(1, min(each, int((l.Limits.Range-2*pieceAlignment)/b)))
		}
	}
	for first := 0; first < dims[0]; first += each {
		rows := append([]int{min(each, dims[0]-first)}, dims[1:]...)
		var parts []graph.Buffer
		var begin [2]int
		for i, e := range ends {
			b, at := e.buffer, e.at
			if each < dims[0] {
				b, at = e.part(first, rows, size)
			} else if o := boundOperand(l, b); o != nil && size == 2 {
				b.Bytes = wholeWords(int64(o.Len()) * o.Type.Size())
			}
			parts, begin[i] = append(parts, b), at
		}
		push := boxWords(l, rows, from, to, begin[1], begin[0])
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{uint32(len(rows)), oneIf(fill != nil)}, Push: append(push, uint32(number), uint32(number>>32)),
			Buffers: parts, Groups: inLine(l, index.CeilDiv(index.Elems(rows), 256)),
		})
	}
}

// boxEnd is the source or destination of a box.
type boxEnd struct {
	buffer  graph.Buffer
	strides []int
	at      int
}

// part returns the buffer of a piece that begins at row first, and the offset of its first
// element in it.
func (e boxEnd) part(first int, dims []int, size int) (b graph.Buffer, at int) {
	if b = e.buffer; b.Place == graph.PlaceNone {
		return b, 0
	}
	low := e.at + first*e.strides[0]
	at, high := low, low
	for d, n := range dims {
		low, high = min(low, low+(n-1)*e.strides[d]), max(high, high+(n-1)*e.strides[d])
	}
	begin := int64(low*size) &^ (pieceAlignment - 1)
	b.At += begin
	b.Bytes = wholeWords(int64((high+1)*size) - begin)
	return b, at - int(begin)/size
}

// bitsOf returns the bits of a tensor of one element.
func bitsOf(x *graph.Tensor) (bits uint64) {
	for i, b := range x.Bytes {
		bits |= uint64(b) << (8 * i)
	}
	return bits
}
