package configs

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Pos is a position in a text: line and column from 1, columns in characters. Line 0 stands for the
// whole value of a flag or variable.
type Pos struct {
	File      string
	Line, Col int
}

// String prints file:line:column.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Error is a mistake in a setting and its position. Its text is one line.
type Error struct {
	Pos Pos
	Msg string
}

// Error prints the position and the message.
func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// text is a source of settings with a name. It turns offsets into positions, fast if they are asked
// for in ascending order.
type text struct {
	name string
	s    string
	flat bool // a flag or variable: positions have no line

	off, line, bol, col int // the last position; bol is the offset of its line
}

// pos returns the position of an offset.
func (t *text) pos(off int) Pos {
	if t.flat {
		return Pos{File: t.name}
	}
	off = min(off, len(t.s))
	if off < t.off || t.line == 0 {
		t.off, t.line, t.bol, t.col = 0, 1, 0, 1
	}
	for t.off < off {
		_, size := utf8.DecodeRuneInString(t.s[t.off:])
		newline := t.s[t.off] == '\n'
		t.off += size
		t.col++
		if newline {
			t.line++
			t.bol, t.col = t.off, 1
		}
	}
	return Pos{File: t.name, Line: t.line, Col: t.col}
}

// value is the text of one setting: a flag's, or a JSON value.
type value struct {
	from  *text
	off   int    // offset in from
	s     string // the text; of a JSON string, unescaped
	at    int    // offset of s in from
	plain bool   // s has no escapes, so offsets into it are known
	field string // the setting's name, if the file holds several
	json  gjson.Result
}

// textValue is a whole text as one setting.
func textValue(t *text) value { return value{from: t, s: t.s, plain: true} }

// jsonValue is a JSON value that gjson found in t.
func jsonValue(t *text, field string, r gjson.Result) value {
	v := value{from: t, off: r.Index, field: field, json: r, s: r.Raw, at: r.Index, plain: true}
	if r.Type == gjson.String {
		v.s, v.at = r.Str, r.Index+1
		v.plain = len(r.Raw) == len(r.Str)+2 // no escapes
	}
	return v
}

// isJSON reports whether the value has a JSON type to check.
func (v value) isJSON() bool { return v.json.Exists() }

// pos is the position of the i-th byte of s, or of the value if that is not known.
func (v value) pos(i int) Pos {
	if !v.plain {
		return v.from.pos(v.off)
	}
	return v.from.pos(v.at + i)
}

// fail is an error about the whole value.
func (v value) fail(format string, args ...any) error {
	return v.failPos(v.from.pos(v.off), format, args...)
}

// failAt is an error about the i-th byte of s.
func (v value) failAt(i int, format string, args ...any) error {
	return v.failPos(v.pos(i), format, args...)
}

func (v value) failPos(p Pos, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if v.field != "" {
		msg = v.field + ": " + msg
	}
	return &Error{Pos: p, Msg: msg}
}

// quote quotes a user's text in a message, on one line and shortened.
func quote(s string) string {
	const most = 60
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	cut := most
	for !utf8.RuneStart(s[cut]) && cut > most-utf8.UTFMax {
		cut--
	}
	return fmt.Sprintf("%q…", s[:cut])
}

// or joins words: a, b or c.
func or(words []string) string { return listed(words, " or ") }

// and joins words: a, b and c.
func and(words []string) string { return listed(words, " and ") }

func listed(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + last + words[n]
}
