package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/weights"
)

// message iterates over the fields of a protobuf message in the file. After next, one of the typed
// methods reads the current field. Errors are panics, which caught turns into ordinary errors.
type message struct {
	what  string // what the message is, for errors
	total int    // length of the whole file
	rest  []byte

	num  protowire.Number
	typ  protowire.Type
	bits uint64 // value of a number
	data []byte // value of bytes, strings, messages and packed lists
}

// fault is an error in a file, without the file's name.
type fault struct{ msg, kind string }

func (f *fault) Error() string { return f.msg }

// Kind classifies the error for callers in other languages.
func (f *fault) Kind() string { return f.kind }

// Kinds of errors.
const (
	KindBroken      = "broken"      // not an ONNX file
	KindGraph       = "graph"       // the graph is invalid
	KindGiven       = "given"       // a replacement does not match its initializer
	KindExternal    = "external"    // external data is not where the model says
	KindUnsupported = "unsupported" // the graph is valid but not supported
)

func fail(format string, args ...any) { panic(&fault{fmt.Sprintf(format, args...), KindGraph}) }

// caught turns a recovered panic into an error: a fault in the file, or a missing page of its
// mapping. It is nil for no panic, and panics again for others. file may be "".
func caught(p any, file string) error {
	at := ""
	if file != "" {
		at = file + ": "
	}
	switch p := p.(type) {
	case nil:
		return nil
	case *fault:
		return fmt.Errorf("%s%w", at, p)
	case *OpsetError:
		return fmt.Errorf("%s%w", at, p)
	default:
		if err := weights.Fault(p); err != nil {
			return err
		}
		panic(p)
	}
}

// next advances to the next field and reports whether there is one.
func (m *message) next() bool {
	if len(m.rest) == 0 {
		return false
	}
	at := m.rest
	num, typ, n := protowire.ConsumeTag(at)
	if n < 0 {
		m.broken(at, "is not the start of a field")
	}
	m.num, m.typ = num, typ
	body := at[n:]
	switch typ {
	case protowire.VarintType:
		m.bits, n = protowire.ConsumeVarint(body)
	case protowire.Fixed32Type:
		var x uint32
		x, n = protowire.ConsumeFixed32(body)
		m.bits = uint64(x)
	case protowire.Fixed64Type:
		m.bits, n = protowire.ConsumeFixed64(body)
	case protowire.BytesType:
		m.data, n = protowire.ConsumeBytes(body)
		if n < 0 {
			if size, k := protowire.ConsumeVarint(body); k > 0 {
				m.broken(at, "field %d says %d bytes, but %d are left", num, size, len(body)-k)
			}
		}
	default:
		m.broken(at, "field %d has wire type %d, which ONNX does not use", num, typ)
	}
	if n < 0 {
		m.broken(at, "field %d ends too early", num)
	}
	m.rest = body[n:]
	return true
}

// broken fails with an offset in the file, computed from the capacity of at, which extends to the
// end of the file.
func (m *message) broken(at []byte, format string, args ...any) {
	panic(&fault{fmt.Sprintf("broken at byte %d, in %s: %s", m.total-cap(at), m.what, fmt.Sprintf(format, args...)), KindBroken})
}

func (m *message) want(typ protowire.Type) {
	if m.typ != typ {
		m.broken(m.rest, "field %d has wire type %d, not %d", m.num, m.typ, typ)
	}
}

// bytes is a view of the file.
func (m *message) bytes() []byte {
	m.want(protowire.BytesType)
	return m.data
}

// text is a copy of a string, which must be UTF-8.
func (m *message) text() string {
	b := m.bytes()
	if !utf8.Valid(b) {
		m.broken(m.rest, "field %d is not UTF-8", m.num)
	}
	return string(b)
}

// view is text without the copy: it is invalid once the file is unmapped.
func (m *message) view() string {
	b := m.bytes()
	if !utf8.Valid(b) {
		m.broken(m.rest, "field %d is not UTF-8", m.num)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (m *message) int() int64 {
	m.want(protowire.VarintType)
	return int64(m.bits)
}

func (m *message) float() float64 {
	m.want(protowire.Fixed32Type)
	return float64(math.Float32frombits(uint32(m.bits)))
}

// sub iterates over the message in the current field.
func (m *message) sub(what string) *message {
	return &message{what: what, total: m.total, rest: m.bytes()}
}

// varints calls f for each number of a repeated field, packed or not.
func (m *message) varints(f func(uint64)) {
	if m.typ != protowire.BytesType {
		f(uint64(m.int()))
		return
	}
	for b := m.data; len(b) > 0; {
		x, n := protowire.ConsumeVarint(b)
		if n < 0 {
			m.broken(b, "field %d holds a broken number", m.num)
		}
		f(x)
		b = b[n:]
	}
}

// fixed calls f for each number of a repeated float or double, packed or not.
func (m *message) fixed(size int, f func(uint64)) {
	typ := protowire.Fixed32Type
	if size == 8 {
		typ = protowire.Fixed64Type
	}
	if m.typ != protowire.BytesType {
		m.want(typ)
		f(m.bits)
		return
	}
	if len(m.data)%size != 0 {
		m.broken(m.data, "field %d holds %d bytes of %d-byte numbers", m.num, len(m.data), size)
	}
	for b := m.data; len(b) > 0; b = b[size:] {
		if size == 8 {
			f(binary.LittleEndian.Uint64(b))
		} else {
			f(uint64(binary.LittleEndian.Uint32(b)))
		}
	}
}

// entry reads one StringStringEntryProto.
func (m *message) entry() (key, value string) {
	for e := m.sub("an entry of " + m.what); e.next(); {
		switch e.num {
		case entryKey:
			key = e.text()
		case entryValue:
			value = e.text()
		}
	}
	return key, value
}

// quote prints any name on one line, shortened if it is long.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
	}
	return fmt.Sprintf("%q", s)
}
