package onnx

import (
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/graph"
)

// stream is a message to be written: bytes, interleaved with contents of tensors that are only
// read when they are written. Its length is known in advance, as length-prefixed messages need.
type stream struct {
	parts []part
	size  int64
}

// part is bytes, a tensor's contents, a number of zeros, or a number of bytes that a function
// writes.
type part struct {
	bytes  []byte
	data   graph.Data
	zeros  int64
	write  func(io.Writer) error
	writes int64
}

func (s *stream) add(p part) {
	s.parts = append(s.parts, p)
	s.size += p.len()
}

func (p part) len() int64 {
	if p.data != nil {
		return p.data.Len()
	}
	return int64(len(p.bytes)) + p.zeros + p.writes
}

// append appends another stream.
func (s *stream) append(other *stream) {
	s.parts = append(s.parts, other.parts...)
	s.size += other.size
}

// field is a stream as a length-prefixed field.
func field(num fieldNum, body *stream) *stream {
	out := &stream{}
	head := protowire.AppendTag(nil, num, protowire.BytesType)
	out.add(part{bytes: protowire.AppendVarint(head, uint64(body.size))})
	out.append(body)
	return out
}

var noughts [1 << 16]byte

// writeTo writes the part. It releases pages of mapped files after writing them, so that models
// larger than memory can be copied.
func (p part) writeTo(w io.Writer) error {
	if to, streams := p.data.(io.WriterTo); streams { // without a copy of everything
		p.write = func(w io.Writer) error {
			_, err := to.WriteTo(w)
			return err
		}
		p.writes = p.data.Len()
		return p.make(w)
	}
	if p.data != nil {
		b, err := p.data.Bytes()
		if err != nil {
			return err
		}
		if err := inPieces(w, b); err != nil {
			return err
		}
		mapped, ok := p.data.(interface {
			ReleasePages()
			Unchanged() error
		})
		if !ok {
			return nil
		}
		if len(b) > smallTensor {
			mapped.ReleasePages()
		}
		return mapped.Unchanged()
	}
	if p.write != nil {
		return p.make(w)
	}
	if err := inPieces(w, p.bytes); err != nil {
		return err
	}
	for left := p.zeros; left > 0; {
		n := min(left, int64(len(noughts)))
		if _, err := w.Write(noughts[:n]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// make calls the part's function and checks the number of bytes.
func (p part) make(w io.Writer) error {
	count := &counter{w: w}
	if err := p.write(count); err != nil {
		return err
	}
	if count.n != p.writes {
		return fmt.Errorf("%d bytes written of a tensor of %d", count.n, p.writes)
	}
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// inPieces writes bytes in pieces small enough for a buffered writer to copy. A missing page of a
// truncated file then faults here, which is caught, rather than in a system call, whose error
// would be obscure.
func inPieces(w io.Writer, b []byte) error {
	for piece := range slices.Chunk(b, len(noughts)) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) writeTo(w io.Writer) error {
	for _, p := range s.parts {
		if err := p.writeTo(w); err != nil {
			return err
		}
	}
	return nil
}

// Fields as bytes, for the small messages.

func appendText(b []byte, num fieldNum, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendBytes(b []byte, num fieldNum, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), body)
}

func appendInt(b []byte, num fieldNum, x int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(x))
}

func appendEntry(b []byte, num fieldNum, key, value string) []byte {
	return appendBytes(b, num, appendText(appendText(nil, entryKey, key), entryValue, value))
}
