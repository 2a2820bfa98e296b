package tensorfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"memopt/internal/graph"
)

// A .safetensors file is the header's length (8 bytes, little-endian), the
// header, a JSON object padded with spaces to a multiple of 8, and the numbers,
// without gaps:
//
//	{"__metadata__": {"k": "v"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}

const (
	metadataKey = "__metadata__"
	maxHeader   = 100_000_000 // the format's own limit
)

// safeTypes lists the element types by their names in a header.
var safeTypes = map[string]graph.DType{
	"F64": graph.Float64, "F32": graph.Float32, "F16": graph.Float16, "BF16": graph.BFloat16,
	"I64": graph.Int64, "I32": graph.Int32, "I16": graph.Int16, "I8": graph.Int8,
	"U64": graph.Uint64, "U32": graph.Uint32, "U16": graph.Uint16, "U8": graph.Uint8,
	"BOOL": graph.Bool, "F8_E4M3": graph.Float8E4M3FN, "F8_E5M2": graph.Float8E5M2,
	"F8_E4M3FNUZ": graph.Float8E4M3FNUZ, "F8_E5M2FNUZ": graph.Float8E5M2FNUZ,
}

// ReadSafetensors reads a safetensors file and its metadata. Names come in the
// order of the header.
func ReadSafetensors(path string) (s *Set, meta map[string]string, err error) {
	s, err = read(path, func(b []byte) (s *Set, err error) {
		s, meta, err = readSafetensors(b)
		return s, err
	})
	return s, meta, err
}

func readSafetensors(b []byte) (*Set, map[string]string, error) {
	if len(b) < 8 {
		return nil, nil, errors.New("not a safetensors file: it is shorter than 8 bytes")
	}
	n, b := binary.LittleEndian.Uint64(b), b[8:]
	if n > maxHeader || n > uint64(len(b)) {
		return nil, nil, fmt.Errorf("not a safetensors file: a header of %d bytes in a file of %d", n, len(b)+8)
	}
	h, err := parseSafeHeader(bytes.Clone(b[:n]))
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	data := b[n:]
	if err := h.checkOffsets(int64(len(data))); err != nil {
		return nil, nil, err
	}
	s := &Set{}
	for _, e := range h.entries {
		x := &graph.Tensor{Type: e.dtype, Shape: e.shape, Bytes: data[e.begin:e.end:e.end]}
		if err := s.add(e.name, x, normalized(x)); err != nil {
			return nil, nil, fmt.Errorf("tensor %s: %w", quote(e.name), err)
		}
	}
	return s, h.meta, nil
}

type safeHeader struct {
	entries []safeEntry
	meta    map[string]string
}

// safeEntry is one tensor of a header; its bytes are [begin, end) of the data.
type safeEntry struct {
	name       string
	dtype      graph.DType
	shape      []int
	begin, end int64
}

// safeDepth is the nesting depth of a valid header.
const safeDepth = 3

func parseSafeHeader(text []byte) (*safeHeader, error) {
	if len(text) == 0 || text[0] != '{' || depth(text) > safeDepth || !gjson.ValidBytes(text) {
		return nil, errors.New("not the JSON of a safetensors file")
	}
	h := &safeHeader{}
	err := each(gjson.ParseBytes(text), func(key string, v gjson.Result) (err error) {
		if key == metadataKey {
			h.meta, err = parseMetadata(v)
			return err
		}
		e, err := parseEntry(key, v)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(key), err)
		}
		h.entries = append(h.entries, e)
		return nil
	})
	return h, err
}

// depth is the nesting depth of brackets. It is checked before a recursive parser
// reads a hostile file.
func depth(text []byte) (deepest int) {
	now, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// each visits the members of an object and refuses duplicate keys.
func each(obj gjson.Result, f func(key string, v gjson.Result) error) (err error) {
	seen := map[string]bool{}
	obj.ForEach(func(k, v gjson.Result) bool {
		key := k.String()
		switch {
		case !utf8.ValidString(key):
			err = fmt.Errorf("key %s is not UTF-8", quote(key))
		case seen[key]:
			err = fmt.Errorf("key %s stands twice", quote(key))
		default:
			seen[key] = true
			err = f(key, v)
		}
		return err == nil
	})
	return err
}

func parseMetadata(v gjson.Result) (map[string]string, error) {
	if !v.IsObject() {
		return nil, fmt.Errorf("%s should be an object of strings", metadataKey)
	}
	meta := map[string]string{}
	return meta, each(v, func(key string, v gjson.Result) error {
		if v.Type != gjson.String {
			return fmt.Errorf("%s: %s should be a string", metadataKey, quote(key))
		}
		meta[key] = v.Str
		return nil
	})
}

func parseEntry(name string, v gjson.Result) (safeEntry, error) {
	e := safeEntry{name: name}
	if !v.IsObject() {
		return e, errors.New("an object of dtype, shape and data_offsets expected")
	}
	fields := 0
	err := each(v, func(key string, v gjson.Result) error {
		fields++
		switch key {
		case "dtype":
			if e.dtype = safeTypes[v.Str]; e.dtype == graph.Invalid {
				return fmt.Errorf("dtype %s is not supported", quote(v.String()))
			}
		case "shape":
			dims, ok := sizes(v)
			if !ok {
				return fmt.Errorf("shape should be a list of at most %d sizes", maxRank)
			}
			e.shape = make([]int, len(dims))
			for i, d := range dims {
				e.shape[i] = int(d)
			}
		case "data_offsets":
			at, ok := sizes(v)
			if !ok || len(at) != 2 || at[0] > at[1] {
				return errors.New("data_offsets should be the begin and the end")
			}
			e.begin, e.end = at[0], at[1]
		default:
			return fmt.Errorf("key %s is not known", quote(key))
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	if fields != 3 {
		return e, errors.New("it takes dtype, shape and data_offsets")
	}
	size, ok := byteSize(e.dtype, e.shape)
	if !ok {
		return e, fmt.Errorf("there cannot be a %s", typeText(e.dtype, e.shape))
	}
	if size != e.end-e.begin {
		return e, fmt.Errorf("%d bytes of numbers, %s takes %d", e.end-e.begin, typeText(e.dtype, e.shape), size)
	}
	return e, nil
}

// sizes parses a list of nonnegative integers, of at most maxRank.
func sizes(v gjson.Result) (ns []int64, ok bool) {
	if !v.IsArray() {
		return nil, false
	}
	ok = true
	v.ForEach(func(_, v gjson.Result) bool {
		n, err := strconv.ParseUint(v.Raw, 10, 63)
		ok = err == nil && n <= math.MaxInt && len(ns) < maxRank
		ns = append(ns, int64(n))
		return ok
	})
	return ns, ok
}

// checkOffsets checks that every byte of the data belongs to exactly one tensor.
func (h *safeHeader) checkOffsets(size int64) error {
	order := slices.Clone(h.entries)
	slices.SortStableFunc(order, func(a, b safeEntry) int {
		if a.begin != b.begin {
			return int(max(-1, min(1, a.begin-b.begin)))
		}
		return int(max(-1, min(1, a.end-b.end)))
	})
	at := int64(0)
	for _, e := range order {
		if e.end > size {
			return fmt.Errorf("tensor %s: it ends at byte %d of %d", quote(e.name), e.end, size)
		}
		if e.begin != at {
			return fmt.Errorf("tensor %s: it begins at byte %d, the one before it ends at %d", quote(e.name), e.begin, at)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("the tensors end at byte %d of %d", at, size)
	}
	return nil
}

// WriteSafetensors writes a safetensors file. The header lists the tensors in the
// order of the names; the data is sorted by descending element size, so that every
// tensor is aligned.
func WriteSafetensors(path string, s *Set, metadata map[string]string) error {
	header, order, err := safeHeaderOf(s, metadata)
	if err != nil {
		return named(path, err)
	}
	return replace(path, func(w io.Writer) error { return s.writeSafe(w, header, order) })
}

func (s *Set) writeSafe(w io.Writer, header []byte, order []string) error {
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, name := range order {
		if err := s.Write(w, name); err != nil {
			return err
		}
	}
	return nil
}

// safeHeaderOf is the header of a file, and the order of tensors in its data.
func safeHeaderOf(s *Set, metadata map[string]string) (header []byte, order []string, err error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	order = slices.Clone(s.Names)
	slices.SortStableFunc(order, func(a, b string) int {
		return int(s.Tensors[b].Type.Size() - s.Tensors[a].Type.Size())
	})
	begin, at := make(map[string]int64, len(order)), int64(0)
	for _, name := range order {
		begin[name] = at
		at += s.size(name)
	}
	b := append(make([]byte, 8), '{')
	comma := func() {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
	}
	if len(metadata) > 0 {
		b = append(gjson.AppendJSONString(b, metadataKey), ":{"...)
		for _, k := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(k) || !utf8.ValidString(metadata[k]) {
				return nil, nil, fmt.Errorf("metadata %s is not UTF-8", quote(k))
			}
			comma()
			b = append(gjson.AppendJSONString(b, k), ':')
			b = gjson.AppendJSONString(b, metadata[k])
		}
		b = append(b, '}')
	}
	for _, name := range s.Names {
		if name == metadataKey {
			return nil, nil, fmt.Errorf("a tensor cannot be named %s", metadataKey)
		}
		x := s.Tensors[name]
		comma()
		b = gjson.AppendJSONString(b, name)
		b = fmt.Appendf(b, `:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, safeName(x.Type),
			strings.ReplaceAll(strings.Trim(fmt.Sprint(x.Shape), "[]"), " ", ","), begin[name], begin[name]+s.size(name))
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > maxHeader {
		return nil, nil, fmt.Errorf("a header of %d bytes, at most %d are allowed", len(b)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, order, nil
}

func safeName(t graph.DType) string {
	for name, u := range safeTypes {
		if t == u {
			return name
		}
	}
	panic(fmt.Sprintf("tensorfile: safetensors has no %s", t))
}
