package onnx

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unsafe"

	"memopt/internal/graph"
	"memopt/internal/weights"
)

// tensor is a TensorProto without its contents.
type tensor struct {
	what     func(*tensor) string // for errors
	name     string
	dtype    graph.DType
	dims     []int64
	elems    int64
	size     int64 // bytes
	stored   int64 // bytes in a file, where elements of less than a byte are packed
	body     message
	raw      []byte
	hasRaw   bool
	external bool
	location string
	offset   int64
	length   int64 // -1 if it is not given
	kind     string
	bad      string // why it is not supported
}

const maxRank = 64

// readTensor parses a TensorProto without reading its contents. It checks that the size of the
// shape does not overflow.
func readTensor(m *message, what func(*tensor) string) *tensor {
	t := &tensor{what: what, body: *m, length: -1}
	elem := int64(0)
	for m.next() {
		switch m.num {
		case tensorDims:
			m.varints(func(x uint64) {
				if len(t.dims) == maxRank {
					t.fail("more than %d dims", maxRank)
				}
				t.dims = append(t.dims, int64(x))
			})
		case tensorType:
			elem = m.int()
		case tensorName:
			t.name = m.text()
		case tensorRaw:
			t.raw, t.hasRaw = m.bytes(), true
		case tensorSegment:
			t.bad = "is cut into segments"
		case tensorLocation:
			t.external = m.int() == 1
		case tensorExternal:
			t.entry(m.entry())
		case tensorMetadata:
			if k, v := m.entry(); k == metaKind {
				t.kind = v
			}
		}
	}
	if t.dtype = graph.DType(elem); elem < 0 || elem > math.MaxUint8 || !t.dtype.Valid() {
		t.bad = fmt.Sprintf("has element type %s", elemName(elem))
	}
	size, ok := byteSize(t.dims, max(t.dtype.Size(), 1))
	if !ok {
		t.fail("shape %v is not a size", t.dims)
	}
	t.size, t.elems = size, size/max(t.dtype.Size(), 1)
	t.stored = packedSize(t.dtype, t.elems, size)
	return t
}

func (t *tensor) fail(format string, args ...any) {
	fail("%s: %s", t.what(t), fmt.Sprintf(format, args...))
}

// misplaced fails with an error about external data.
func (t *tensor) misplaced(format string, args ...any) {
	panic(&fault{fmt.Sprintf("%s: %s", t.what(t), fmt.Sprintf(format, args...)), KindExternal})
}

func elemName(elem int64) string {
	if n := elemNames[elem]; n != "" {
		return n
	}
	return strconv.FormatInt(elem, 10)
}

func (t *tensor) entry(key, value string) {
	number := func() int64 {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			t.fail("external data %s %s is not a number of bytes", key, quote(value))
		}
		return n
	}
	switch key {
	case "location":
		t.location = value
	case "offset":
		t.offset = number()
	case "length":
		t.length = number()
	}
}

// packedSize is the bytes in a file of elements that take size bytes in memory.
func packedSize(t graph.DType, elems, size int64) int64 {
	if bits := int64(t.Bits()); bits > 0 && bits < 8 {
		each := 8 / bits
		return elems/each + min(1, elems%each)
	}
	return size
}

// unpack gives each of n elements of less than a byte a byte of its own; the first of those that
// share a byte is its lowest bits.
func unpack(t graph.DType, packed []byte, n int64) []byte {
	bits := t.Bits()
	x := graph.Tensor{Type: t, Bytes: make([]byte, n)}
	for i := range int(n) {
		at := i * bits
		x.SetInt(i, int64(packed[at/8]>>(at%8)))
	}
	return x.Bytes
}

// pack is the opposite of unpack, and nothing for other types.
func pack(t graph.DType, b []byte) []byte {
	bits := t.Bits()
	if bits >= 8 {
		return b
	}
	out := make([]byte, packedSize(t, int64(len(b)), 0))
	for i, v := range b {
		at := i * bits
		out[at/8] |= v & (1<<bits - 1) << (at % 8)
	}
	return out
}

// byteSize is the size of a shape in bytes. A product that overflows int64 is refused even if
// another dim is 0, as formulas refuse it, too.
func byteSize(dims []int64, elem int64) (int64, bool) {
	n, empty := uint64(elem), false
	for _, d := range dims {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		n = lo
	}
	if empty {
		return 0, true
	}
	return int64(n), true
}

// typedFields is the field with a type's numbers if raw_data is not used, and the width of a
// number in it; 0 is a varint. The low bytes of each number are the element, or a byte of packed
// elements.
var typedFields = map[graph.DType]struct {
	num   fieldNum
	width int
}{
	graph.Float32: {tensorFloats, 4}, graph.Float64: {tensorDoubles, 8},
	graph.Int64: {tensorInt64s, 0}, graph.Uint64: {tensorUint64s, 0}, graph.Uint32: {tensorUint64s, 0},
	graph.Int32: {tensorInt32s, 0}, graph.Int16: {tensorInt32s, 0}, graph.Int8: {tensorInt32s, 0},
	graph.Uint16: {tensorInt32s, 0}, graph.Uint8: {tensorInt32s, 0}, graph.Bool: {tensorInt32s, 0},
	graph.Uint4: {tensorInt32s, 0}, graph.Int4: {tensorInt32s, 0}, graph.Uint2: {tensorInt32s, 0}, graph.Int2: {tensorInt32s, 0},
	graph.Float16: {tensorInt32s, 0}, graph.BFloat16: {tensorInt32s, 0},
	graph.Float8E4M3FN: {tensorInt32s, 0}, graph.Float8E4M3FNUZ: {tensorInt32s, 0},
	graph.Float8E5M2: {tensorInt32s, 0}, graph.Float8E5M2FNUZ: {tensorInt32s, 0},
}

// eachTyped calls f for every number in the field of the tensor's type.
func (t *tensor) eachTyped(f func(uint64)) {
	field := typedFields[t.dtype]
	m := t.body
	for m.next() {
		switch {
		case m.num != field.num:
		case field.width == 0:
			m.varints(f)
		default:
			m.fixed(field.width, f)
		}
	}
}

// data returns the tensor's contents. Their length is compared with the shape before anything
// is allocated.
func (r *reader) data(t *tensor) graph.Data {
	d := r.storedData(t)
	if t.dtype.Bits() >= 8 {
		return d
	}
	b, err := d.Bytes()
	if err != nil {
		t.fail("%s", err)
	}
	out := unpack(t.dtype, b, t.elems)
	if r.mapped == nil {
		return graph.Bytes(out)
	}
	return r.keep(weights.Heap(out))
}

// storedData is the contents as a file has them.
func (r *reader) storedData(t *tensor) graph.Data {
	switch {
	case t.external:
		return r.externalData(t)
	case t.hasRaw && (len(t.raw) > 0 || t.size == 0):
		if int64(len(t.raw)) != t.stored {
			t.fail("%d bytes of raw_data, but %s%v takes %d", len(t.raw), t.dtype, t.dims, t.stored)
		}
		if r.mapped == nil {
			return graph.Bytes(t.raw)
		}
		return r.cut(r.mapped, int64(cap(r.src)-cap(t.raw)), t)
	}
	count := int64(0)
	t.eachTyped(func(uint64) { count++ })
	numbers := t.elems
	if t.dtype.Bits() < 8 {
		numbers = t.stored
	}
	if count != numbers {
		t.fail("%d numbers, but %s%v takes %d", count, t.dtype, t.dims, numbers)
	}
	out := make([]byte, 0, t.stored)
	size := int(t.dtype.Size())
	t.eachTyped(func(x uint64) {
		for range size {
			out = append(out, byte(x))
			x >>= 8
		}
	})
	if r.mapped == nil {
		return graph.Bytes(out)
	}
	return r.keep(weights.Heap(out))
}

// cut is the tensor's block of a mapped file.
func (r *reader) cut(f *weights.File, off int64, t *tensor) graph.Data {
	b, err := f.Block(off, t.stored)
	if err != nil {
		t.fail("%s", err)
	}
	return r.keep(b)
}

func (r *reader) keep(b *weights.Block) graph.Data {
	r.blocks = append(r.blocks, b)
	return b
}

// externalData is the tensor's block of a file in the model's folder. Each file is opened once.
func (r *reader) externalData(t *tensor) graph.Data {
	if t.length >= 0 && t.length != t.stored {
		t.fail("%d bytes of external data, but %s%v takes %d", t.length, t.dtype, t.dims, t.stored)
	}
	if b, given := r.files[t.location]; given {
		if t.offset < 0 || t.offset > int64(len(b))-t.stored {
			t.misplaced("external data %s: %d bytes at %d, and it has %d", quote(t.location), t.stored, t.offset, len(b))
		}
		return graph.Bytes(b[t.offset : t.offset+t.stored : t.offset+t.stored])
	}
	f := r.externals[t.location]
	if f == nil {
		if r.path == "" {
			t.misplaced("external data %s: the model has no folder", quote(t.location))
		}
		if len(r.externals) == maxExternals {
			t.fail("more than %d files of external data", maxExternals)
		}
		var err error
		if f, err = weights.OpenExternal(r.path, t.location); err != nil {
			t.misplaced("%s", err)
		}
		r.externals[t.location] = f
		if !r.source.holds(f.Name()) { // the model may be read several times; see sizes.go
			r.source.files = append(r.source.files, f)
		}
	}
	return r.cut(f, t.offset, t)
}

// maxExternals limits the files that a model can make us open.
const maxExternals = 4096

func initializerName(t *tensor) string { return "initializer " + quote(t.name) }

// initializers adds those of the main graph, with the parameters that are given back in place of what they were read as.
func (r *reader) initializers(top *scope, list [][]byte) {
	a := r.apart
	after := map[string][]*givenBack{}
	if a != nil {
		for _, g := range a.given {
			like := ""
			if g.like != nil {
				like = g.like.name
			}
			after[like] = append(after[like], g)
		}
	}
	give := func(like string) {
		for _, g := range after[like] {
			kind := graph.Param
			if g.frozen {
				kind = graph.Const
			}
			r.store(top, kind, !g.frozen, g.name, g.dtype, g.dims, a.numbers(g))
		}
	}
	for _, b := range list {
		name := ""
		for m := r.message("an initializer", b); m.next(); {
			if m.num == tensorName {
				name = m.text()
			}
		}
		if a == nil || !a.drop[name] {
			r.initializer(top, r.message("an initializer", b))
		}
		give(name)
	}
	give("")
	if a != nil {
		for i, x := range a.consts {
			v, err := r.b.Const(r.nameFor(top, a.names[i]), x)
			if err != nil {
				fail("%s", err)
			}
			top.values[a.names[i]] = v
		}
	}
}

// store defines a stored value. guessed says that its kind is told later.
func (r *reader) store(s *scope, kind graph.Kind, guessed bool, name string, dtype graph.DType, dims []int64, d graph.Data) *graph.Value {
	v, err := r.b.Define(kind, r.nameFor(s, name), dtype, graph.Dims(dims...))
	if err != nil {
		fail("initializer %s: %s", quote(name), err)
	}
	v.Data = d
	s.values[name] = v
	if guessed {
		r.stored = append(r.stored, stored{name, v})
	}
	return v
}

// initializer adds a Param, a ModelBuffer, a Const or a State.
func (r *reader) initializer(s *scope, m *message) {
	t := readTensor(m, initializerName)
	switch {
	case t.name == "":
		fail("an initializer has no name")
	case s.has(t.name):
		t.fail("two values are named so")
	case t.bad != "":
		r.bad.file("%s %s", t.what(t), t.bad)
		s.values[t.name] = poison
		return
	}
	kind := graph.Const
	if t.dtype.IsFloat() {
		kind = graph.Param
	}
	told, isTold := kindsByWord[t.kind]
	switch {
	case r.forward:
		kind = graph.Const
	case isTold:
		kind = told
	}
	d := r.givenOr(s, t)
	v := r.store(s, kind, kind == graph.Param && !isTold, t.name, t.dtype, t.dims, d)
	if kind == graph.Const && !t.dtype.IsReal() && t.elems <= graph.MaxInts {
		b, err := d.Bytes()
		if err != nil {
			t.fail("%s", err)
		}
		v.Ints = graph.IntsOf(&graph.Tensor{Type: t.dtype, Shape: t.shape(), Bytes: b})
	}
}

// givenOr is the contents of an initializer: those of From.Given, or else the file's.
func (r *reader) givenOr(s *scope, t *tensor) graph.Data {
	x := r.given[t.name]
	if x == nil || s.outer != nil {
		return r.data(t)
	}
	if shape := t.shape(); x.Type != t.dtype || !slices.Equal(x.Shape, shape) {
		panic(&fault{fmt.Sprintf("%s: is %s%v, but its replacement is %s%v", t.what(t), t.dtype, shape, x.Type, x.Shape), KindGiven})
	}
	r.source.Taken = append(r.source.Taken, t.name)
	return graph.Bytes(x.Bytes)
}

func (t *tensor) shape() []int {
	shape := make([]int, len(t.dims))
	for i, d := range t.dims {
		shape[i] = int(d)
	}
	return shape
}

// smallTensor is the most bytes of an attribute that are copied out of the file.
// Larger ones are lent to the operator, which is to pass them on.
const smallTensor = 1 << 16

// attrTensor is the value of a tensor attribute.
func (r *reader) attrTensor(t *tensor) *graph.Tensor {
	d := r.data(t)
	b, err := d.Bytes()
	if err != nil {
		t.fail("%s", err)
	}
	if t.size > smallTensor {
		r.lent[&b[0]] = d
		return &graph.Tensor{Type: t.dtype, Shape: t.shape(), Bytes: b}
	}
	x := graph.NewTensor(t.dtype, t.shape()...)
	copy(x.Bytes, b)
	return x
}

// settle ends what was lent: constants made of it own their part of the file,
// attributes that stay in the graph get bytes of their own, and blocks that no
// value holds are dropped. What is held is the source's to give back.
func (r *reader) settle() {
	g := r.b.Graph
	held := map[graph.Data]bool{}
	for _, v := range g.Values {
		if b, ok := v.Data.(graph.Bytes); ok {
			if d := r.lent[unsafe.SliceData(b)]; d != nil && d.Len() == v.Data.Len() {
				v.Data = d
			}
		}
		if b := blockUnder(v.Data); b != nil {
			if held[b] {
				b.Retain()
			}
			held[b] = true
			r.source.uses = append(r.source.uses, b)
		}
	}
	if len(r.lent) > 0 {
		for _, n := range g.Nodes {
			for i, a := range n.Attrs {
				if x, ok := a.Value.(*graph.Tensor); ok && r.lent[unsafe.SliceData(x.Bytes)] != nil {
					own := graph.NewTensor(x.Type, x.Shape...)
					copy(own.Bytes, x.Bytes)
					n.Attrs[i].Value = own
				}
			}
		}
	}
	for _, b := range r.blocks {
		if !held[b] {
			b.Drop()
		}
	}
}
