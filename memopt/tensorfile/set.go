package tensorfile

import (
	"fmt"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"memopt/memopt/graph"
)

// Set is named tensors in an order. Names lists every key of Tensors once.
type Set struct {
	Names   []string
	Tensors map[string]*graph.Tensor
}

// readers is the formats that Read knows, by the end of the file's name.
var readers = map[string]func(path string) (*Set, error){
	".npz": ReadNPZ,
	".npy": ReadNPZ,
	".safetensors": func(path string) (*Set, error) {
		s, _, err := ReadSafetensors(path)
		return s, err
	},
}

// Read reads a file of any known format, by the end of its name.
func Read(path string) (*Set, error) {
	read := readers[strings.ToLower(filepath.Ext(path))]
	if read == nil {
		known := slices.Sorted(maps.Keys(readers))
		return nil, fmt.Errorf("%s: the name should end in %s", path, strings.Join(known, ", "))
	}
	return read(path)
}

// add appends a tensor that was read.
func (s *Set) add(name string, x *graph.Tensor) error {
	if s.Tensors[name] != nil {
		return fmt.Errorf("there are two of that name")
	}
	if s.Tensors == nil {
		s.Tensors = map[string]*graph.Tensor{}
	}
	s.Names = append(s.Names, name)
	s.Tensors[name] = x
	return nil
}

// check finds what cannot be written: names that a file cannot hold, and tensors
// whose bytes are not those of their shape.
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
		if n, ok := byteSize(x.Type, x.Shape); !ok || n != int64(len(x.Bytes)) {
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

// byteSize is the bytes that a tensor takes, and whether it can exist. A dim of
// zero does not excuse the others: together they must still fit.
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

// quote shows a name in a message, which stays one line of bearable length.
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

// normalize makes every true of a bool tensor the byte 1: anything else cannot be
// looked at as a Go bool.
func normalize(x *graph.Tensor) {
	if x.Type != graph.Bool {
		return
	}
	for i, b := range x.Bytes {
		if b != 0 {
			x.Bytes[i] = 1
		}
	}
}
