package tensorfile

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"memopt/internal/graph"
	"memopt/internal/weights"
)

// Set is an ordered set of named tensors. Names lists every key of Tensors once.
//
// Tensors of a set that was read are views of its file, which is mapped until Close. They
// may be unaligned (graph.Tensor.Aligned makes a copy).
type Set struct {
	Names   []string
	Tensors map[string]*graph.Tensor
	// From writes the contents of tensors that have a type and a shape but no Bytes,
	// when they are written to a file. It may be called more than once.
	From map[string]func(io.Writer) error
	// Closed is called once by Close, if it is set.
	Closed func()
	// Copied is the number of bytes that were copied rather than viewed in the file:
	// those that were compressed or in another order.
	Copied int64

	file *weights.File // nil unless the set was read
}

// Lend adds a tensor whose contents write writes on demand.
func (s *Set) Lend(name string, t graph.DType, shape []int, write func(io.Writer) error) {
	if s.From == nil {
		s.Tensors, s.From = map[string]*graph.Tensor{}, map[string]func(io.Writer) error{}
	}
	s.Names = append(s.Names, name)
	s.Tensors[name], s.From[name] = &graph.Tensor{Type: t, Shape: shape}, write
}

// Close unmaps the file that the set was read from and calls Closed. Its tensors must not
// be used any more. Closing nil, or twice, does nothing.
func (s *Set) Close() {
	if s == nil {
		return
	}
	if s.file != nil {
		_ = s.file.Close() // only fails for a foreign mapping
	}
	if s.Closed != nil {
		s.Closed()
		s.Closed = nil
	}
}

// Unchanged returns an error if the file that the set was read from has changed.
func (s *Set) Unchanged() error {
	if s == nil || s.file == nil {
		return nil
	}
	return s.file.Unchanged()
}

// Tensor returns a tensor with its contents, calling From if needed; nil if there is none
// of that name.
func (s *Set) Tensor(name string) (*graph.Tensor, error) {
	x := s.Tensors[name]
	if x == nil || s.From[name] == nil {
		return x, nil
	}
	y := graph.NewTensor(x.Type, x.Shape...)
	to := bytes.NewBuffer(y.Bytes[:0])
	if err := s.Write(to, name); err != nil {
		return nil, err
	}
	return y, nil
}

// Write writes the contents of a tensor.
func (s *Set) Write(w io.Writer, name string) error {
	from := s.From[name]
	if from == nil {
		_, err := w.Write(s.Tensors[name].Bytes)
		return err
	}
	count := &counter{to: w}
	if err := from(count); err != nil {
		return err
	}
	if n := s.size(name); count.n != n {
		return fmt.Errorf("tensor %s: %d bytes of numbers, %s takes %d", quote(name), count.n, typeText(s.Tensors[name].Type, s.Tensors[name].Shape), n)
	}
	return nil
}

// size is the bytes of a tensor's contents.
func (s *Set) size(name string) int64 {
	n, _ := byteSize(s.Tensors[name].Type, s.Tensors[name].Shape)
	return n
}

// counter counts the bytes written to it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// add appends a tensor that was read: x, which is view, or a copy of it that counts as copied.
func (s *Set) add(name string, view, x *graph.Tensor) error {
	if s.Tensors[name] != nil {
		return fmt.Errorf("there are two of that name")
	}
	if s.Tensors == nil {
		s.Tensors = map[string]*graph.Tensor{}
	}
	s.Names = append(s.Names, name)
	s.Tensors[name] = x
	if x != view {
		s.Copied += int64(len(x.Bytes))
	}
	return nil
}

// check refuses names that a file cannot have, and tensors whose length does not match
// their shape.
func (s *Set) check() error {
	seen := make(map[string]bool, len(s.Names))
	for _, name := range s.Names {
		x := s.Tensors[name]
		switch {
		case x == nil:
			return fmt.Errorf("tensor %s: there is none of that name", quote(name))
		case seen[name]:
			return fmt.Errorf("tensor %s: there are two of that name", quote(name))
		case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
			return fmt.Errorf("tensor %s: a name is text without NUL bytes", quote(name))
		case !x.Type.Valid():
			return fmt.Errorf("tensor %s has no element type", quote(name))
		}
		if n, ok := byteSize(x.Type, x.Shape); !ok || n != int64(len(x.Bytes)) && s.From[name] == nil {
			return fmt.Errorf("tensor %s: %d bytes of numbers, %s takes %d", quote(name), len(x.Bytes), typeText(x.Type, x.Shape), n)
		}
		seen[name] = true
	}
	if len(s.Names) != len(s.Tensors) {
		return fmt.Errorf("%d names for %d tensors", len(s.Names), len(s.Tensors))
	}
	return nil
}

// maxRank is NumPy's own limit.
const maxRank = 64

// byteSize is the size of a tensor in bytes, and whether it does not overflow. The product
// of nonzero dims must fit even if another dim is 0.
func byteSize(t graph.DType, shape []int) (size int64, ok bool) {
	if len(shape) > maxRank {
		return 0, false
	}
	n, empty := uint64(t.Size()), false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, false
		case d == 0:
			empty = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > 1<<62 || uint64(int(lo)) != lo {
			return 0, false
		}
		n = lo
	}
	if empty {
		n = 0
	}
	return int64(n), true
}

// quote prints any name on one line, shortened if it is long.
func quote(name string) string {
	const most = 80
	if len(name) > most {
		return strconv.Quote(name[:most]) + "…"
	}
	return strconv.Quote(name)
}

func typeText(t graph.DType, shape []int) string {
	return t.String() + strings.ReplaceAll(fmt.Sprint(shape), " ", ", ")
}

// normalized is x, or a copy if it is a bool tensor with bytes other than 0 and 1, which Go
// does not allow.
func normalized(x *graph.Tensor) *graph.Tensor {
	if x.Type != graph.Bool || !slices.ContainsFunc(x.Bytes, func(b byte) bool { return b > 1 }) {
		return x
	}
	y := graph.NewTensor(x.Type, x.Shape...)
	for i, b := range x.Bytes {
		y.Bytes[i] = min(b, 1)
	}
	return y
}
