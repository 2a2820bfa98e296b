// Package visible escapes characters that are invisible or that affect how text is displayed: control characters,
// marks that change the direction of text, zero-width characters, line separators other than newline, and bytes
// that are not UTF-8. Names in models, data, settings and the file system may contain any of them.
//
// They are escaped where text leaves the program, not where a name enters it, so that files keep the original
// names:
//
//   - NewWriter wraps standard output, standard error and the log. It passes newlines and tabs, whose origin it
//     cannot know.
//   - Line is for text on one line: a cell of a table, a warning, an error, a label in a picture.
//   - Fprintf is fmt.Fprintf that escapes each argument as Line does. Only the format can begin a new line.
//
// Escapes are JSON's, such as \u202e, so that JSON keeps its meaning; what cannot occur in JSON is escaped as in
// Go, such as \x1b.
package visible

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line escapes text for one line, including newlines and tabs.
func Line(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	return string(spell(make([]byte, 0, len(s)+len(s)/8), []byte(s), false))
}

// Text escapes text of any number of lines.
func Text(s string) string { return string(Bytes([]byte(s))) }

// Bytes is Text for bytes. JSON stays equivalent JSON.
func Bytes(b []byte) []byte {
	if plain(b) {
		return b
	}
	return spell(make([]byte, 0, len(b)+len(b)/8), b, true)
}

// Error is an error's escaped text on one line, or on several if the error has a method Lines.
func Error(err error) string {
	var several interface{ Lines() []string }
	if !errors.As(err, &several) {
		return Line(err.Error())
	}
	var lines []string
	for _, l := range several.Lines() {
		lines = append(lines, Line(l))
	}
	return strings.Join(lines, "\n")
}

// Lines is an argument of Fprintf that may have several lines.
type Lines string

// Format writes the escaped lines.
func (l Lines) Format(f fmt.State, _ rune) { fmt.Fprint(f, Text(string(l))) }

// plain reports whether nothing in b needs escaping.
func plain(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' })
}

// spell appends b to out, escaped. It keeps newlines and tabs if lines is set.
func spell(out, b []byte, lines bool) []byte {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case lines && (r == '\n' || r == '\t'), !hidden(r):
			out = append(out, b[:size]...)
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < ' ':
			out = fmt.Appendf(out, `\x%02x`, r)
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		b = b[size:]
	}
	return out
}

// hidden reports whether a reader would not see a character. Package unicode considers some invisible marks
// printable.
func hidden(r rune) bool {
	switch {
	case ' ' <= r && r <= '~':
		return false
	case !unicode.IsPrint(r):
		return true
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
