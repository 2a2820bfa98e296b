package visible

import (
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// Writer escapes what is written to it, and remembers the first error. Goroutines may share it.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	tail []byte // incomplete character at the end of the last write
	err  error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes complete characters; an incomplete one waits for the rest.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.tail) > 0 {
		text = append(w.tail, p...)
	}
	whole := len(text) - unfinished(text)
	out := Bytes(text[:whole])
	tail := append([]byte(nil), text[whole:]...)
	if err := w.pass(out); err != nil {
		return 0, err
	}
	w.tail = tail
	return len(p), nil
}

// To reports whether the writer writes to f.
func (w *Writer) To(f io.Writer) bool { return w.to == f }

// Flush writes an incomplete character that was not continued.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	tail := w.tail
	w.tail = nil
	return w.pass(Bytes(tail))
}

// Control writes text without escaping it, for sequences that move a terminal's cursor or set its colours.
func (w *Writer) Control(text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pass([]byte(text))
}

func (w *Writer) pass(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.to.Write(b)
	if w.err == nil {
		w.err = err
	}
	return err
}

// Err is the first error, such as a full disk or a closed pipe.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// unfinished is the length of an incomplete character at the end of b.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Fprintf is fmt.Fprintf with every argument escaped for one line, unless it is of type Lines.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, visible(args)...)
}

// Sprintf is fmt.Sprintf with every argument escaped for one line, unless it is of type Lines.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, visible(args)...) }

func visible(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a.(type) {
		case int, int64, float64, bool, Lines: // an int may be a width for *
			out[i] = a
		default:
			out[i] = argument{a}
		}
	}
	return out
}

// argument formats its value as usual, and escapes the result.
type argument struct{ of any }

func (a argument) Format(f fmt.State, verb rune) {
	io.WriteString(f, Line(fmt.Sprintf(fmt.FormatString(f, verb), a.of)))
}
