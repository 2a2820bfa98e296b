package tensorfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// An .npy file is the magic, two bytes of version, the header's length (2 bytes
// little-endian in version 1, 4 in 2 and 3), the header, which is a Python dict
// padded with spaces to a multiple of 64, and the numbers.

const (
	npyMagic     = "\x93NUMPY"
	maxNPYHeader = 1 << 16 // many times what a header of 64 dims needs
)

// npyTypes lists the element types by letter and size in a descr.
var npyTypes = map[string]graph.DType{
	"f2": graph.Float16, "f4": graph.Float32, "f8": graph.Float64,
	"i1": graph.Int8, "i2": graph.Int16, "i4": graph.Int32, "i8": graph.Int64,
	"u1": graph.Uint8, "u2": graph.Uint16, "u4": graph.Uint32, "u8": graph.Uint64,
	"b1": graph.Bool,
}

// npyHeader is the header of an array.
type npyHeader struct {
	dtype     graph.DType
	bigEndian bool
	fortran   bool
	shape     []int
	length    int64 // of magic and header, in bytes
}

// readNPY reads an array that is all of b. It returns the view of its numbers in b, and
// the array, which is that view or a copy in tensors' byte and element order.
func readNPY(b []byte) (view, x *graph.Tensor, err error) {
	h, err := readNPYHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	size, ok := byteSize(h.dtype, h.shape)
	if !ok {
		return nil, nil, fmt.Errorf("there cannot be a %s", typeText(h.dtype, h.shape))
	}
	if size != int64(len(b))-h.length {
		return nil, nil, fmt.Errorf("%d bytes of numbers, %s takes %d", int64(len(b))-h.length, typeText(h.dtype, h.shape), size)
	}
	view = &graph.Tensor{Type: h.dtype, Shape: h.shape, Bytes: b[h.length:len(b):len(b)]}
	x = view
	if h.bigEndian {
		x = graph.NewTensor(h.dtype, h.shape...)
		copy(x.Bytes, view.Bytes)
		swapBytes(x.Bytes, int(h.dtype.Size()))
	}
	if h.fortran {
		x = fromFortran(x)
	}
	return view, normalized(x), nil
}

func readNPYHeader(r io.Reader, total int64) (*npyHeader, error) {
	var b [12]byte
	if _, err := io.ReadFull(r, b[:10]); err != nil {
		return nil, short(err)
	}
	if string(b[:6]) != npyMagic {
		return nil, errors.New("not an array: it does not begin as .npy does")
	}
	n, length := int64(binary.LittleEndian.Uint16(b[8:])), int64(10)
	switch major := b[6]; major {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, b[10:]); err != nil {
			return nil, short(err)
		}
		n, length = int64(binary.LittleEndian.Uint32(b[8:])), 12
	default:
		return nil, fmt.Errorf(".npy version %d is not known, 1 to 3 are", major)
	}
	if n > maxNPYHeader || n > total-length {
		return nil, fmt.Errorf("a header of %d bytes is too long", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, short(err)
	}
	h := &npyHeader{length: length + n}
	if err := h.parse(string(text)); err != nil {
		return nil, err
	}
	return h, nil
}

// parse reads the dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
func (h *npyHeader) parse(text string) error {
	p := &pyLiteral{rest: text}
	seen := map[string]bool{}
	p.expect("{")
	for !p.take("}") {
		key := p.str()
		if seen[key] {
			p.fail("key %s stands twice", quote(key))
		}
		seen[key] = true
		p.expect(":")
		switch key {
		case "descr":
			h.descr(p)
		case "fortran_order":
			h.fortran = p.bool()
		case "shape":
			h.shape = p.tuple()
		default:
			p.fail("key %s is not known", quote(key))
		}
		if !p.take(",") {
			p.expect("}")
			break
		}
	}
	p.space()
	switch {
	case p.err != nil:
	case p.rest != "":
		p.fail("there is more after the dict")
	case len(seen) != 3:
		p.fail("it takes descr, fortran_order and shape")
	}
	if p.err != nil {
		return fmt.Errorf(".npy header: %w", p.err)
	}
	return nil
}

func (h *npyHeader) descr(p *pyLiteral) {
	if p.space(); strings.HasPrefix(p.rest, "[") {
		p.fail("records of several fields are not supported")
		return
	}
	d := p.str()
	if p.err != nil {
		return
	}
	letters := strings.TrimLeft(d, "<>|=")
	h.dtype = npyTypes[letters]
	if len(d)-len(letters) > 1 || h.dtype == graph.Invalid {
		p.fail("element type %s is not supported; f2 to f8, i1 to i8, u1 to u8 and b1 are", quote(d))
		return
	}
	h.bigEndian = d[0] == '>'
}

// pyLiteral parses the Python literals of a header. After the first error it reads
// nothing more.
type pyLiteral struct {
	rest string
	err  error
}

func (p *pyLiteral) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.rest = ""
}

func (p *pyLiteral) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take skips s if it is next. After an error it always reports true, so that loops
// end.
func (p *pyLiteral) take(s string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return ok || p.err != nil
}

func (p *pyLiteral) expect(s string) {
	if !p.take(s) {
		p.fail("%s expected before %s", s, p.next())
	}
}

// next is the text at the current position, for messages.
func (p *pyLiteral) next() string {
	if p.rest == "" {
		return "the end"
	}
	return strconv.Quote(p.rest[:min(len(p.rest), 16)])
}

func (p *pyLiteral) str() string {
	p.space()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		p.fail("a string expected before %s", p.next())
		return ""
	}
	s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok || strings.ContainsRune(s, '\\') {
		p.fail("a plain string expected before %s", p.next())
		return ""
	}
	p.rest = rest
	return s
}

func (p *pyLiteral) bool() bool {
	if p.take("True") {
		return true
	}
	p.expect("False")
	return false
}

func (p *pyLiteral) tuple() []int {
	shape := []int{}
	p.expect("(")
	for !p.take(")") {
		shape = append(shape, p.int())
		// A tuple of one number needs a comma.
		if comma := p.take(","); !comma || len(shape) > maxRank {
			if len(shape) < 2 || len(shape) > maxRank {
				p.fail("a tuple of at most %d numbers expected before %s", maxRank, p.next())
			}
			p.expect(")")
			break
		}
	}
	return shape
}

func (p *pyLiteral) int() int {
	p.space()
	digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
	n, err := strconv.Atoi(p.rest[:digits])
	if err != nil {
		p.fail("a dim expected before %s", p.next())
		return 0
	}
	p.rest = strings.TrimPrefix(p.rest[digits:], "L") // Python 2 wrote 3L
	return n
}

// swapBytes reverses each element of size bytes.
func swapBytes(b []byte, size int) {
	if size < 2 {
		return
	}
	for ; len(b) > 0; b = b[size:] {
		slices.Reverse(b[:size])
	}
}

// fromFortran converts an array from Fortran to C order.
func fromFortran(x *graph.Tensor) *graph.Tensor {
	rank := len(x.Shape)
	if rank < 2 || len(x.Bytes) == 0 {
		return x
	}
	y := graph.NewTensor(x.Type, x.Shape...)
	size := int(x.Type.Size())
	stride := make([]int, rank) // of x, in bytes
	n := size
	for i, d := range x.Shape {
		stride[i] = n
		n *= d
	}
	index, from := make([]int, rank), 0
	for to := 0; to < len(y.Bytes); to += size {
		copy(y.Bytes[to:to+size], x.Bytes[from:])
		for i := rank - 1; i >= 0; i-- {
			index[i]++
			from += stride[i]
			if index[i] < x.Shape[i] {
				break
			}
			from -= index[i] * stride[i]
			index[i] = 0
		}
	}
	return y
}

// npyDescr is NumPy's name of a type; bfloat16 has none.
func npyDescr(t graph.DType) (string, bool) {
	for letters, u := range npyTypes {
		if t == u && t.Size() == 1 {
			return "|" + letters, true
		} else if t == u {
			return "<" + letters, true
		}
	}
	return "", false
}

// npyPrefix is the magic and header of an array.
func npyPrefix(x *graph.Tensor) ([]byte, error) {
	descr, ok := npyDescr(x.Type)
	if !ok {
		return nil, fmt.Errorf("NumPy has no %s; safetensors has", x.Type)
	}
	shape := strings.Trim(fmt.Sprint(x.Shape), "[]")
	shape = strings.ReplaceAll(shape, " ", ", ")
	if len(x.Shape) == 1 {
		shape += ","
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	const before = len(npyMagic) + 4
	pad := -(before + len(dict) + 1) & 63
	n := len(dict) + pad + 1
	b := append(make([]byte, 0, before+n), npyMagic+"\x01\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	b = append(b, dict...)
	b = append(b, strings.Repeat(" ", pad)...)
	return append(b, '\n'), nil
}
