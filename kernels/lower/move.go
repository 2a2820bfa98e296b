package lower

import (
	"cmp"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// moveKernels is keyed by the bytes that an invocation copies.
var moveKernels = map[int]*graph.Kernel{
	1:  Shader("move-1", "move.comp", "-DELEMENT=uint8_t"),
	2:  Shader("move-2", "move.comp", "-DELEMENT=uint", "-DHALVES"),
	4:  Shader("move-4", "move.comp", "-DELEMENT=uint"),
	8:  Shader("move-8", "move.comp", "-DELEMENT=uvec2", "-DVALUE=uvec2(value, more)"),
	16: Shader("move-16", "move.comp", "-DELEMENT=uvec4"),
}

// turnKernel transposes blocks of 4×4 words.
var turnKernel = Shader("move-turn", "move.comp", "-DELEMENT=uvec4", "-DTURN")

const maxMoveDims = 5

// Move copies a box of elements from an input to an output. Strides and offsets count
// elements; a from stride of 0 repeats, a negative one reverses.
type Move struct {
	In, Out      int // numbers of the input and output
	Shape        []int
	From, To     []int
	FromAt, ToAt int
}

// Side is one dim of a box: its length and strides.
type Side struct{ N, From, To int }

// Sides returns the dims of the box sorted by the output's strides, innermost last, with
// adjacent dims merged where both sides are contiguous.
func (m *Move) Sides() []Side {
	var ds []Side
	for i, n := range m.Shape {
		d := Side{n, m.From[i], m.To[i]}
		if d.To < 0 {
			m.FromAt += (n - 1) * d.From
			m.ToAt += (n - 1) * d.To
			d.From, d.To = -d.From, -d.To
		}
		if n != 1 {
			ds = append(ds, d)
		}
	}
	slices.SortStableFunc(ds, func(a, b Side) int { return cmp.Compare(b.To, a.To) })
	out := ds[:0]
	for _, d := range ds {
		if k := len(out) - 1; k >= 0 && out[k].From == d.From*d.N && out[k].To == d.To*d.N {
			out[k] = Side{out[k].N * d.N, d.From, d.To}
			continue
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		out = append(out, Side{1, 1, 1})
	}
	return out
}

// Unzip separates the sides into the shape of a box and its strides.
func Unzip(ds []Side) (shape, from, to []int) {
	for _, d := range ds {
		shape, from, to = append(shape, d.N), append(from, d.From), append(to, d.To)
	}
	return shape, from, to
}

// Moves copies each box of a node. The inputs in known must be known while planning; with
// filled, the output is first filled with zeros.
func Moves(f func(c *graph.Call) []Move, filled bool, known ...int) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		c := Call(l, known...)
		if c == nil {
			return
		}
		boxes := f(c)
		if filled {
			Fill(l, 0, 0)
		}
		for _, m := range boxes {
			m.Lower(l)
		}
	}
}

// Call is a call for lowering: its tensors have shapes, and the inputs in known have
// contents. It refuses the lowering and returns nil if these are not known.
func Call(l *graph.Lowering, known ...int) *graph.Call {
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

// Lower appends the copy of the box.
func (m Move) Lower(l *graph.Lowering) {
	if index.Elems(m.Shape) == 0 || l.Refused != "" {
		return
	}
	size := int(l.Out[m.Out].Type.Size())
	ds := m.Sides()
	dims, from, to := Unzip(ds)
	last := len(dims) - 1
	if size == 4 && m.turn(l, dims, from, to) {
		return
	}
	for _, k := range map[int][]int{2: {8, 2}, 4: {4}}[size] {
		if from[last] == 1 && to[last] == 1 && dims[last]%k == 0 && m.FromAt%k == 0 && m.ToAt%k == 0 && multiples(from[:last], k) && multiples(to[:last], k) {
			// An invocation copies k elements along the innermost dim.
			size *= k
			dims[last] /= k
			for i := range last {
				from[i], to[i] = from[i]/k, to[i]/k
			}
			m.FromAt, m.ToAt = m.FromAt/k, m.ToAt/k
			break
		}
	}
	Box(l, size, []graph.Buffer{Writes(m.Out), Reads(m.In)}, nil, dims, from, to, m.FromAt, m.ToAt)
}

// turn transposes blocks of 4×4 words, if input and output are contiguous in different dims
// and the strides allow it, and reports whether they do.
func (m Move) turn(l *graph.Lowering, dims, from, to []int) bool {
	last := len(dims) - 1
	across := slices.Index(from, 1)
	bytes := int64(4 * max(l.In[m.In].Len(), l.Out[m.Out].Len()))
	if across < 0 || across == last || to[last] != 1 || len(dims) > maxMoveDims || bytes > l.Limits.Range || m.FromAt%4 != 0 || m.ToAt%4 != 0 {
		return false
	}
	blocks, fours, fourTo := slices.Clone(dims), slices.Clone(from), slices.Clone(to)
	for i := range dims {
		swapped := i == across || i == last
		if swapped && dims[i]%4 != 0 || i != across && from[i]%4 != 0 || i != last && to[i]%4 != 0 {
			return false
		}
		// Transposed dims are counted in blocks of four: the next block is one vector
		// further where the dim is contiguous, else four rows.
		if swapped {
			blocks[i] /= 4
			continue
		}
		fours[i], fourTo[i] = from[i]/4, to[i]/4
	}
	push := append(boxWords(l, blocks, fours, fourTo, m.FromAt/4, m.ToAt/4), uint32(int32(from[last]/4)), uint32(int32(to[across]/4)))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: turnKernel, Spec: []uint32{uint32(len(dims)), 0}, Push: push, Buffers: []graph.Buffer{Writes(m.Out), Reads(m.In)}, Groups: InLine(l, index.CeilDiv(index.Elems(blocks), 256)),
	})
	return true
}

// boxWords returns the push constants of a box: number of elements, offsets, dims, strides.
func boxWords(l *graph.Lowering, dims, from, to []int, fromAt, toAt int) []uint32 {
	push := append(Words(l, index.Elems(dims)), uint32(int32(fromAt)), uint32(int32(toAt)))
	for i, list := range [][]int{dims, from, to} {
		for k := range maxMoveDims {
			v := int(OneIf(i == 0))
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

// Fill fills an output with one number, given as its bits in memory.
func Fill(l *graph.Lowering, out int, number uint64) {
	n, size := l.Out[out].Len(), int(l.Out[out].Type.Size())
	// Fill whole words where possible.
	for size < 4 && n%2 == 0 {
		number |= number << (8 * size)
		n, size = n/2, 2*size
	}
	if n > 0 {
		Box(l, size, []graph.Buffer{Writes(out), Unused(false)}, &number, []int{n}, []int{0}, []int{1}, 0, 0)
	}
}

// Box copies a box of elements, or fills it with a number if fill is not nil.
func Box(l *graph.Lowering, size int, buffers []graph.Buffer, fill *uint64, dims, from, to []int, fromAt, toAt int) {
	kernel := moveKernels[size]
	if kernel == nil || size == 1 && !l.Limits.Int8 {
		l.Refuse("there is no kernel for elements of %d bytes", size)
		return
	}
	if !MustFit(l, dims, maxMoveDims) {
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
			} else if o := BoundOperand(l, b); o != nil && size == 2 {
				b.Bytes = WholeWords(int64(o.Len()) * o.Type.Size())
			}
			parts, begin[i] = append(parts, b), at
		}
		push := boxWords(l, rows, from, to, begin[1], begin[0])
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{uint32(len(rows)), OneIf(fill != nil)}, Push: append(push, uint32(number), uint32(number>>32)),
			Buffers: parts, Groups: InLine(l, index.CeilDiv(index.Elems(rows), 256)),
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
	b.Bytes = WholeWords(int64((high+1)*size) - begin)
	return b, at - int(begin)/size
}

// BitsOf returns the bits of a tensor of one element.
func BitsOf(x *graph.Tensor) (bits uint64) {
	for i, b := range x.Bytes {
		bits |= uint64(b) << (8 * i)
	}
	return bits
}
