// Package visible spells characters that cannot be seen or that steer what shows
// them: control characters, marks that turn the direction of text around,
// characters without width, line separators that are no newline, and bytes that
// are not UTF-8. Names in models, data, settings and the file system may hold any
// of them.
//
// They are spelled where text leaves the program, not where a name enters it, so
// that files keep the names they were given:
//
//   - NewWriter stands in front of standard output, standard error and the log.
//     It lets newlines and tabs through, for it cannot tell whose they are.
//   - Line is for a text that is one line: a cell of a table, a warning, an error,
//     a label of a picture.
//   - Fprintf is fmt.Fprintf that spells each argument as Line does. Only the format
//     can begin a new line.
//
// The spelling is JSON's, \u202e, so that a JSON text means the same after it,
// but for what cannot stand in a JSON text anyhow, which is spelled as in Go, \x1b.
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

// Line is a text on one line, newlines and tabs spelled too.
func Line(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	return string(spell(make([]byte, 0, len(s)+len(s)/8), []byte(s), false))
}

// Text is a text of any number of lines.
func Text(s string) string { return string(Bytes([]byte(s))) }

// Bytes is Text of bytes. What is JSON before is the same JSON after.
func Bytes(b []byte) []byte {
	if plain(b) {
		return b
	}
	return spell(make([]byte, 0, len(b)+len(b)/8), b, true)
}

// Error is an error's text on one line, unless the error says that it has several.
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

// Format writes the lines.
func (l Lines) Format(f fmt.State, _ rune) { fmt.Fprint(f, Text(string(l))) }

// plain is whether there is nothing in b that could need spelling.
func plain(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' })
}

// spell appends b to out. Newlines and tabs are spelled too unless lines is set.
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

// hidden is whether a reader would not see a character as such. Marks that a
// font shows as nothing are printable to package unicode.
func hidden(r rune) bool {
	switch {
	case ' ' <= r && r <= '~':
		return false
	case !unicode.IsPrint(r):
		return true
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
