package joint

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"unicode/utf8"

	"memopt/internal/stop"
	"memopt/internal/whole"
)

// Format is the format of the files that Read accepts.
const Format = "memopt-fx-joint/1"

// file is the part of the JSON that matters.
type file struct {
	Format  string    `json:"format"`
	Model   string    `json:"model"`
	Forward int       `json:"num_fwd_outputs"`
	Outputs []*string `json:"outputs"`
	Threads int64     `json:"threads"`
	Layout  string    `json:"layout"`
	// Device and Driver name where the step ran: cpu or a graphics processor, and the trainer with its versions.
	Device string `json:"device"`
	Driver string `json:"driver"`
	// Allocator names the allocator that places tensors at run time.
	Allocator string `json:"allocator"`
	// FlopsPerByte is the number of flops that the device performs in the time of moving a byte.
	FlopsPerByte int64 `json:"flops_per_byte"`
	nodes        []node
}

type node struct {
	Name     string          `json:"name"`
	Op       string          `json:"op"`
	Kind     string          `json:"kind"`
	Source   string          `json:"source"`
	Inputs   []string        `json:"inputs"`
	Attrs    json.RawMessage `json:"attrs"`
	Outputs  []output        `json:"outputs"`
	Flops    number          `json:"flops"`
	Calls    int64           `json:"calls"` // operators that ran for the node; 0 is one
	Backward bool            `json:"is_backward"`
	Flags    []string        `json:"flags"`
	AliasOf  string          `json:"alias_of"`
	Module   string          `json:"module"`
	Index    int             `json:"index"`

	at int // offset in the text
}

type output struct {
	Shape []number `json:"shape"`
	DType string   `json:"dtype"`
	Bytes number   `json:"bytes"`
	// Until names the node until which the program holds the tensor.
	Until string `json:"held_until"`
}

// Is reports whether a file is JSON or gzipped, judging by its content: a joint graph, or a file for which Read has
// the better error message.
func Is(path string) bool {
	f, _, err := whole.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	if bytes.HasPrefix(head, gzipMagic) {
		return true
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
	return len(head) > 0 && head[0] == '{'
}

var (
	gzipMagic     = []byte{0x1f, 0x8b}
	byteOrderMark = []byte("\xef\xbb\xbf")
)

// Limits for the text of a file, packed or not: a million nodes fit. Lists of operators compress to a thirtieth at best,
// so a file with a far higher ratio is not from a recorder.
const (
	mostText  = 512 << 20
	mostRatio = 64
	leastText = 1 << 20
)

func unpack(data []byte) (text []byte, err error) {
	if text = data; bytes.HasPrefix(data, gzipMagic) {
		if text, err = inflate(data); err != nil {
			return nil, err
		}
	}
	return quoted(bytes.TrimPrefix(text, byteOrderMark)), nil
}

func inflate(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("is gzipped, but %w", err)
	}
	limit := min(int64(len(data))*mostRatio+leastText, mostText)
	// Count first: what is too much, or ends badly, takes no memory, and the rest no more than its size.
	size, err := io.Copy(io.Discard, io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("is gzipped, but ends badly after %d bytes of text: %w", size, err)
	}
	if size > limit {
		return nil, fmt.Errorf("unpacks to more than %d bytes, which no list of operators needs: they are at most %d times the file and 1 MiB, and %d MiB", limit, mostRatio, mostText>>20)
	}
	text := make([]byte, size)
	if err := z.Reset(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(z, text); err != nil {
		return nil, err
	}
	return text, nil
}

// beyondNumbers are Python's words for numbers that JSON cannot represent, such as the values that masks are filled
// with.
var beyondNumbers = [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")}

// quoted turns beyondNumbers into strings, which literal arguments may be.
func quoted(text []byte) []byte {
	if !slices.ContainsFunc(beyondNumbers, func(word []byte) bool { return bytes.Contains(text, word) }) {
		return text
	}
	more := 0 // bytes of quotes, at most
	for _, word := range beyondNumbers {
		more += 2 * bytes.Count(text, word)
	}
	out := make([]byte, 0, len(text)+more)
	inside := false // inside a string
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case inside && c == '\\':
			n = min(2, len(text)-i)
		case c == '"':
			inside = !inside
		case !inside:
			for _, word := range beyondNumbers {
				if bytes.HasPrefix(text[i:], word) {
					out = append(append(append(out, '"'), word...), '"')
					i, n = i+len(word), 0
					break
				}
			}
		}
		out = append(out, text[i:i+n]...)
		i += n
	}
	return out
}

// positioned is an error at an offset in the text.
type positioned struct {
	at  int
	msg string
}

func (e *positioned) Error() string { return e.msg }

func at(off int, format string, args ...any) error {
	return &positioned{off, fmt.Sprintf(format, args...)}
}

// where prefixes an error with file name, line and column.
func where(name string, text []byte, err error) error {
	var p *positioned
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", name, err)
	}
	off := min(max(p.at, 0), len(text))
	line := bytes.Count(text[:off], []byte{'\n'}) + 1
	col := utf8.RuneCount(text[bytes.LastIndexByte(text[:off], '\n')+1:off]) + 1
	return fmt.Errorf("%s:%d:%d: %s", name, line, col, p.msg)
}

// parse reads the JSON. It ignores fields that are not in file.
func parse(ctx context.Context, text []byte) (*file, error) {
	d := &decoder{ctx: ctx, text: text, json: json.NewDecoder(bytes.NewReader(text))}
	f, err := d.file()
	// Report a syntax error anywhere in the text before any other error: other errors refer to tokens.
	var syntax *json.SyntaxError
	if err != nil || len(bytes.TrimSpace(text[d.json.InputOffset():])) > 0 {
		if wrong := json.Unmarshal(text, &struct{}{}); errors.As(wrong, &syntax) {
			return nil, at(int(syntax.Offset)-1, "not JSON: %s", syntax)
		}
	}
	return f, err
}

func (d *decoder) file() (*file, error) {
	f := &file{}
	if err := d.open('{', "the file"); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for d.json.More() {
		begin := d.next()
		key, err := d.json.Token()
		if err != nil {
			return nil, at(begin, "not JSON: %s", err)
		}
		name, _ := key.(string)
		if seen[name] {
			return nil, at(begin, "%q is given twice", name)
		}
		seen[name] = true
		if err := d.field(f, name); err != nil {
			return nil, err
		}
	}
	if _, err := d.json.Token(); err != nil { // end of the object
		return nil, err
	}
	if !seen["nodes"] && f.known() == nil {
		return nil, errors.New("has no nodes")
	}
	return f, f.known()
}

// known checks the format, so that a file of another format gets this error before any other.
func (f *file) known() error {
	if f.Format != Format {
		return fmt.Errorf("has format %q; a joint graph has %q", f.Format, Format)
	}
	return nil
}

// decoder is a json.Decoder that knows the offset of the next token.
type decoder struct {
	ctx  context.Context // polled at each node
	text []byte
	json *json.Decoder
}

// next is the offset of the next token.
func (d *decoder) next() int {
	i := int(d.json.InputOffset())
	for i < len(d.text) && bytes.IndexByte([]byte(" \t\r\n,:"), d.text[i]) >= 0 {
		i++
	}
	return i
}

func (d *decoder) open(want json.Delim, what string) error {
	begin := d.next()
	if t, err := d.json.Token(); err != nil || t != want {
		return at(begin, "%s should begin with %q", what, rune(want))
	}
	return nil
}

func (d *decoder) field(f *file, name string) error {
	switch name {
	case "format":
		if err := d.decode(&f.Format, "format"); err != nil {
			return err
		}
		return f.known()
	case "model":
		return d.decode(&f.Model, "model")
	case "num_fwd_outputs":
		return d.decode(&f.Forward, "num_fwd_outputs")
	case "outputs":
		return d.decode(&f.Outputs, "outputs")
	case "threads":
		return d.decode(&f.Threads, "threads")
	case "layout":
		return d.decode(&f.Layout, "layout")
	case "allocator":
		return d.decode(&f.Allocator, "allocator")
	case "device":
		return d.decode(&f.Device, "device")
	case "driver":
		return d.decode(&f.Driver, "driver")
	case "flops_per_byte":
		begin := d.next()
		if err := d.decode(&f.FlopsPerByte, "flops_per_byte"); err != nil {
			return err
		}
		if f.FlopsPerByte < 1 || f.FlopsPerByte > mostFlopsPerByte {
			return at(begin, "flops_per_byte is %d, not a number from 1 to %d", f.FlopsPerByte, int64(mostFlopsPerByte))
		}
		return nil
	case "nodes":
		if err := d.open('[', "nodes"); err != nil {
			return err
		}
		for d.json.More() {
			n := node{at: d.next()}
			if err := d.decode(&n, fmt.Sprintf("node %d", len(f.nodes))); err != nil {
				return err
			}
			if n.Name == "" { // said here, as nodes without anything take far more memory than text
				return at(n.at, "a node has no name")
			}
			f.nodes = append(f.nodes, n)
		}
		_, err := d.json.Token()
		return err
	}
	var skipped json.RawMessage
	return d.decode(&skipped, name)
}

func (d *decoder) decode(to any, what string) error {
	stop.Poll(d.ctx)
	begin := d.next()
	err := d.json.Decode(to)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		if kind.Field != "" {
			what += ", " + kind.Field
		}
		return at(begin, "%s: %s instead of %s", what, kind.Value, words[kind.Type.Kind()])
	case err != nil:
		return at(begin, "%s: %s", what, err)
	}
	return nil
}

// words are JSON's terms for Go's kinds.
var words = map[reflect.Kind]string{reflect.String: "a string", reflect.Int: "a whole number", reflect.Int64: "a whole number",
	reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object"}
